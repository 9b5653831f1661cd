//! Accepts connections, and runs a thread for each.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Scope};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::{AnswerDelay, Error, Service, session};

/// The limit of open connections; a further connection is closed at once.
const CONNECTIONS_MAX: usize = 4096;
/// The stack of a connection's thread, in bytes; answering recurses at most as deep as a document nests.
const STACK_LEN: usize = 512 * 1024;
/// The pause after a failed accept, for example because file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A listening server. Dropping it closes all connections and ends all its threads.
#[derive(Debug)]
pub(crate) struct Listener<S> {
    address: SocketAddr,
    shared: Arc<Shared<S>>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<S> {
    service: S,
    answer_delay: AnswerDelay,
    closing: AtomicBool,
    /// Becomes readable when the server closes.
    close_event: OwnedFd,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl<S: Service> Listener<S> {
    /// Listens on a free port of 127.0.0.1.
    pub(crate) fn open(service: S, answer_delay: AnswerDelay) -> Result<Self, Error> {
        Self::open_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, service, answer_delay)
    }

    /// Listens on a bound port.
    pub(crate) fn open_on(
        listener: TcpListener,
        service: S,
        answer_delay: AnswerDelay,
    ) -> Result<Self, Error> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let close_event = eventfd(0, EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let closing = AtomicBool::new(false);
        let shared = Arc::new(Shared { service, answer_delay, closing, close_event, open: Mutex::default() });
        let accepting = Arc::clone(&shared);
        let accepting = thread::Builder::new()
            .name("plimsoll-listener".to_owned())
            .spawn(move || thread::scope(|scope| accepting.accept(&listener, scope)))?;
        Ok(Listener { address, shared, accepting: Some(accepting) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn service(&self) -> &S {
        &self.shared.service
    }

    pub(crate) fn answer_delay(&self) -> &AnswerDelay {
        &self.shared.answer_delay
    }
}

impl<S> Drop for Listener<S> {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        // An event counter takes eight bytes at any time, so this cannot fail.
        let _ = rustix::io::write(&self.shared.close_event, &1_u64.to_ne_bytes());
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl<S: Service> Shared<S> {
    /// Accepts connections until the close event, then closes them all; the scope waits for their threads.
    fn accept<'scope>(&'scope self, listener: &TcpListener, scope: &'scope Scope<'scope, '_>) {
        let mut number = 0;
        while self.wait_for_connection(listener) {
            match listener.accept() {
                Ok((stream, _)) => self.admit(stream, number, scope),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
            number += 1;
        }
        self.open_streams().values().for_each(|stream| {
            // The stream may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        });
    }

    /// Waits for a connection or the close event; false when the server closes.
    fn wait_for_connection(&self, listener: &TcpListener) -> bool {
        let mut both = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.close_event, PollFlags::IN)];
        // The loop checks again, interrupted or not.
        let _ = poll(&mut both, None);
        !self.closing.load(Ordering::Relaxed)
    }

    fn admit<'scope>(&'scope self, stream: TcpStream, number: u64, scope: &'scope Scope<'scope, '_>) {
        let Ok(second) = stream.try_clone() else { return };
        if stream.set_nonblocking(false).is_err() || !self.register(number, second) {
            return;
        }
        let serve = move || {
            // A broken connection or a hostile client ends only its own session.
            let _ = session::serve(&stream, number, &self.service, &self.answer_delay, &self.closing);
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
