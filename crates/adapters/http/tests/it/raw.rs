//! Runs servers that send exactly the given bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that passes each connection to a function, on a separate thread. The threads end with the connections.
pub struct Raw {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
}

impl Raw {
    pub fn start(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (Arc::clone(&connections), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(number, stream.unwrap()));
            }
        });
        Raw { address, connections }
    }

    pub fn section(&self) -> String {
        format!("url: http://{}\ntimeout: 20s\n", self.address)
    }
}

/// Reads until the end of a head; false at the end of the connection.
pub fn read_head(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return false;
        }
        head.push(byte[0]);
    }
    true
}

/// Answers each request with these bytes.
pub fn answering(bytes: &'static [u8]) -> impl Fn(usize, TcpStream) + Send + Sync {
    move |_, mut stream| {
        while read_head(&mut stream) {
            if stream.write_all(bytes).is_err() {
                break;
            }
        }
    }
}
