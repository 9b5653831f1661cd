//! Accepts connections, and runs a thread for each.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Scope};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::{Error, Gate, Service, session};

/// The most connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 4096;
/// The stack of a connection's thread, in bytes; answering recurses at most as deep as a document nests.
const STACK_LEN: usize = 512 * 1024;
/// The pause after a connection could not be accepted, for example because files have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A server that listens. Dropping it closes all connections and ends all its threads.
#[derive(Debug)]
pub(crate) struct Listener<S> {
    address: SocketAddr,
    inside: Arc<Inside<S>>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inside<S> {
    service: S,
    gate: Gate,
    closing: AtomicBool,
    /// Becomes readable when the server closes.
    bell: OwnedFd,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl<S: Service> Listener<S> {
    /// Listens on a free port of 127.0.0.1.
    pub(crate) fn open(service: S, gate: Gate) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let closing = AtomicBool::new(false);
        let inside = Arc::new(Inside { service, gate, closing, bell, open: Mutex::default() });
        let accepting = Arc::clone(&inside);
        let accepting = thread::Builder::new()
            .name("plimsoll-listener".to_owned())
            .spawn(move || thread::scope(|scope| accepting.accept(&listener, scope)))?;
        Ok(Listener { address, inside, accepting: Some(accepting) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn service(&self) -> &S {
        &self.inside.service
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.inside.gate
    }
}

impl<S> Drop for Listener<S> {
    fn drop(&mut self) {
        self.inside.closing.store(true, Ordering::Relaxed);
        // An event counter takes eight bytes at any time; there is nothing that could fail here.
        let _ = rustix::io::write(&self.inside.bell, &1_u64.to_ne_bytes());
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl<S: Service> Inside<S> {
    /// Takes connections until the bell rings, then closes them all; the scope waits for their threads.
    fn accept<'scope>(&'scope self, listener: &TcpListener, scope: &'scope Scope<'scope, '_>) {
        let mut number = 0;
        while self.wait_for_guest(listener) {
            match listener.accept() {
                Ok((stream, _)) => self.admit(stream, number, scope),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
            number += 1;
        }
        self.open_streams().values().for_each(|stream| {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        });
    }

    /// False when the server closes.
    fn wait_for_guest(&self, listener: &TcpListener) -> bool {
        let mut both = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
        // Interrupted or not: the loop looks again.
        let _ = poll(&mut both, None);
        !self.closing.load(Ordering::Relaxed)
    }

    fn admit<'scope>(&'scope self, stream: TcpStream, number: u64, scope: &'scope Scope<'scope, '_>) {
        let Ok(second) = stream.try_clone() else { return };
        if stream.set_nonblocking(false).is_err() || !self.register(number, second) {
            return;
        }
        let serve = move || {
            // A broken connection or a hostile client ends its own session and nothing else.
            let _ = session::serve(&stream, &self.service, &self.gate, &self.closing);
            self.open_streams().remove(&number);
        };
        if thread::Builder::new().stack_size(STACK_LEN).spawn_scoped(scope, serve).is_err() {
            self.open_streams().remove(&number);
        }
    }

    fn register(&self, number: u64, stream: TcpStream) -> bool {
        let mut open = self.open_streams();
        let room = open.len() < CONNECTIONS_MAX;
        if room {
            open.insert(number, stream);
        }
        room
    }

    fn open_streams(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
