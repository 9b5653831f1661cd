//! Runs a small SOCKS5 proxy for tests. It alone knows the names of servers, and records every request.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The settings of a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The user and the password that clients must give; without them, clients need none.
    pub credential: Option<(String, String)>,
    /// The addresses of names that only the proxy knows.
    pub names: BTreeMap<String, SocketAddr>,
}

/// A proxy on a free port of 127.0.0.1. Dropping it closes all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    options: Options,
    is_over: AtomicBool,
    asked: Mutex<Vec<String>>,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy.
    ///
    /// # Errors
    /// When no port or thread is available.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, shared) = (listener.local_addr()?, Arc::new(Shared { options, ..Shared::default() }));
        let own = shared.clone();
        let listening = thread::Builder::new().name("socks".into()).spawn(move || own.listen(&listener))?;
        Ok(Self { address, shared, listening: Some(listening) })
    }

    /// The listening address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The servers that clients asked for, as `host:port`, in order.
    pub fn asked(&self) -> Vec<String> {
        lock(&self.shared.asked).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the listener; if it is gone, nothing waits.
        drop(TcpStream::connect(self.address));
        self.listening.take().map(JoinHandle::join);
        for stream in lock(&self.shared.open).drain(..) {
            // The other end may have closed it already.
            stream.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let own = self.clone();
            // A client that breaks the protocol loses its connection only.
            thread::spawn(move || own.serve(stream).unwrap_or_default());
        }
    }

    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        lock(&self.open).push(client.try_clone()?);
        self.greet(&mut client)?;
        let [_, _, _, kind] = bytes(&mut client)?;
        let host = match kind {
            1 => Ipv4Addr::from(bytes::<4>(&mut client)?).to_string(),
            3 => text(&mut client)?,
            _ => return client.write_all(&[5, 8, 0, 1, 0, 0, 0, 0, 0, 0]),
        };
        let port = u16::from_be_bytes(bytes(&mut client)?);
        lock(&self.asked).push(format!("{host}:{port}"));
        let known = self.options.names.get(&host).copied();
        let server = known.or_else(|| Some(SocketAddr::new(host.parse().ok()?, port)));
        let Some(server) = server else { return client.write_all(&[5, 4, 0, 1, 0, 0, 0, 0, 0, 0]) };
        let Ok(server) = TcpStream::connect(server) else {
            return client.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
        };
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
        lock(&self.open).push(server.try_clone()?);
        let (from, to) = (server.try_clone()?, client.try_clone()?);
        let back = thread::spawn(move || copy(from, to));
        copy(client, server);
        back.join().unwrap_or_default();
        Ok(())
    }

    /// Agrees on an authentication method, and checks the user and the password.
    fn greet(&self, client: &mut TcpStream) -> io::Result<()> {
        let [_, count] = bytes(client)?;
        let mut methods = vec![0; usize::from(count)];
        client.read_exact(&mut methods)?;
        let Some((user, password)) = &self.options.credential else { return client.write_all(&[5, 0]) };
        if !methods.contains(&2) {
            client.write_all(&[5, 0xff])?;
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        client.write_all(&[5, 2])?;
        let [_] = bytes(client)?;
        let is_right = (text(client)?, text(client)?) == (user.clone(), password.clone());
        client.write_all(&[1, u8::from(!is_right)])?;
        if is_right { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

/// Copies until one end closes; then closes both.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    io::copy(&mut from, &mut to).unwrap_or_default();
    [from, to].iter().for_each(|stream| stream.shutdown(Shutdown::Both).unwrap_or_default());
}

fn bytes<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

/// Reads a text that follows its length in bytes.
fn text(stream: &mut TcpStream) -> io::Result<String> {
    let [length] = bytes(stream)?;
    let mut text = vec![0; usize::from(length)];
    stream.read_exact(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}
