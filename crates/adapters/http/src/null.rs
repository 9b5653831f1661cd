//! Serves the same answer to every request at once and stores nothing.
//!
//! Its load line is the ceiling of the measuring tool itself. A freeze stalls it, for the self-test of response times. It speaks
//! HTTP/1.1 without TLS, on one thread.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};
use tokio::sync::oneshot;

use gate::Gate;

mod gate;
mod request;
mod session;

/// The settings of a null server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The status of every answer.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// The `content-type` of the body.
    pub content_type: String,
    /// The delay of each answer. The runtime rounds it to milliseconds.
    pub delay: Duration,
}

impl Default for Options {
    /// `200` with `{}`, at once.
    fn default() -> Self {
        Self {
            status: 200,
            body: b"{}".to_vec(),
            content_type: "application/json".to_owned(),
            delay: Duration::ZERO,
        }
    }
}

/// The null server could not start.
#[derive(Debug, thiserror::Error)]
#[error("the null server cannot listen on a loopback port ({0}): close programs that hold many connections")]
pub struct Error(#[from] pub io::Error);

/// A null HTTP server on a free port of 127.0.0.1. Dropping it closes its connections and ends its thread.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    inside: Arc<Inside>,
    closing: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Inside {
    gate: Gate,
    /// The complete answer.
    answer: Vec<u8>,
    head_len: usize,
    answered: AtomicU64,
    body_bytes: AtomicU64,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// When no port or no thread is available.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = Arc::new(Inside::new(options));
        let (closing, closed) = oneshot::channel();
        let shared = Arc::clone(&inside);
        let serve = move || {
            let listener = {
                let _within = runtime.enter();
                tokio::net::TcpListener::from_std(listener)
            };
            // Without a listener the kernel closes the queued connections.
            if let Ok(listener) = listener {
                drop(runtime.spawn(session::accept(listener, shared)));
                // A message and a dropped sender both end the server. Dropping the runtime closes every connection.
                let _ = runtime.block_on(closed);
            }
        };
        let thread = thread::Builder::new().name("plimsoll-null-http".to_owned()).spawn(serve)?;
        Ok(Self { address, inside, closing: Some(closing), thread: Some(thread) })
    }

    /// Its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of answered requests.
    pub fn answered(&self) -> u64 {
        self.inside.answered.load(Ordering::Relaxed)
    }

    /// The total size of the request bodies in bytes.
    pub fn body_bytes(&self) -> u64 {
        self.inside.body_bytes.load(Ordering::Relaxed)
    }

    /// Withholds all answers from now on for `length`.
    pub fn freeze(&self, length: Duration) {
        self.freeze_from(clock::now(), length);
    }

    /// Withholds all answers for `length`, starting at `from`. Replaces an earlier freeze.
    pub fn freeze_from(&self, from: Instant, length: Duration) {
        self.inside.gate.freeze(from, length);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.closing.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            let _ = thread.join();
        }
    }
}

impl Inside {
    fn new(options: &Options) -> Self {
        let Options { status, body, content_type, delay } = options;
        let has_body = *status >= 200 && !matches!(status, 204 | 304);
        let mut answer = format!("HTTP/1.1 {status} \r\nserver: plimsoll-null\r\n").into_bytes();
        if has_body {
            let head = format!("content-type: {content_type}\r\ncontent-length: {}\r\n", body.len());
            answer.extend_from_slice(head.as_bytes());
        }
        answer.extend_from_slice(b"\r\n");
        let head_len = answer.len();
        if has_body {
            answer.extend_from_slice(body);
        }
        let (answered, body_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { gate: Gate::new(*delay), answer, head_len, answered, body_bytes }
    }
}
