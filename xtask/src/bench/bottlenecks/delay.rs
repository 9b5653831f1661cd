//! Delays every message between a client and a server on this machine.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::server::now;

/// The bytes that are read at once.
const CHUNK: usize = 1 << 16;

/// A proxy; it ends with this process.
#[derive(Debug)]
pub(super) struct Proxy {
    port: u16,
}

impl Proxy {
    /// Listens on a free port for clients of the server on `server`.
    pub(super) fn start(server: u16, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen")?;
        let port = listener.local_addr().context("find the port")?.port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { continue };
                if let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) {
                    pump(from, to, delay);
                    pump(server, client, delay);
                }
            }
        });
        Ok(Self { port })
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }
}

/// Moves bytes in one direction, each `delay` after its arrival.
fn pump(mut from: TcpStream, to: TcpStream, delay: Duration) {
    let (sender, receiver) = channel();
    let _ = to.set_nodelay(true);
    thread::spawn(move || read(&mut from, &sender, delay));
    thread::spawn(move || write(to, &receiver));
}

fn read(from: &mut TcpStream, sender: &Sender<(Duration, Vec<u8>)>, delay: Duration) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if sender.send((now() + delay, chunk[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn write(mut to: TcpStream, receiver: &Receiver<(Duration, Vec<u8>)>) {
    for (at, bytes) in receiver {
        thread::sleep(at.saturating_sub(now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
