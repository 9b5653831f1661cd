//! Holds the HTTP/2 connections of a worker.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::counted::{Counted, Counts};
use crate::connect::{self, Error};
use crate::setup::Endpoint;

/// The flow-control windows of a stream and of a connection, in bytes.
const WINDOW: (u32, u32) = (1 << 20, 16 << 20);

/// An open connection. It closes with its last slot.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) sender: SendRequest<Bytes>,
    pub(super) counts: Arc<Counts>,
    broken: Arc<AtomicBool>,
    slots: AtomicUsize,
    driver: AbortHandle,
}

impl Session {
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Whether the server announced the end of the connection, so that it takes no further request.
    fn is_leaving(&self) -> bool {
        let ready = self.sender.clone().poll_ready(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Err(_)))
    }

    pub(super) fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Frees a slot.
    pub(super) fn leave(&self) {
        self.slots.fetch_sub(1, Ordering::Relaxed);
    }

    async fn open(endpoint: &Endpoint) -> Result<Arc<Self>, Error> {
        let limit = endpoint.connect_timeout;
        let opened = tokio::time::timeout(limit, Self::connect(endpoint)).await;
        opened.unwrap_or_else(|_| Err(Error::Timeout { address: endpoint.shown(), limit }))
    }

    /// Opens a connection and pings it: only the answer shows that the server speaks HTTP/2.
    async fn connect(endpoint: &Endpoint) -> Result<Arc<Self>, Error> {
        let counts = Arc::new(Counts::default());
        let stream = Counted::new(connect::open(endpoint).await?, Arc::clone(&counts));
        let mut builder = Builder::new();
        builder.enable_push(false).initial_window_size(WINDOW.0).initial_connection_window_size(WINDOW.1);
        builder.max_header_list_size(64 * 1024);
        let refuse = |_| Error::NoHttp2 { address: endpoint.shown() };
        let (sender, mut connection) = builder.handshake(stream).await.map_err(refuse)?;
        let ping = connection.ping_pong();
        let broken = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&broken);
        let driver = tokio::spawn(async move {
            // Open streams report why the connection ended.
            let _ = connection.await;
            ended.store(true, Ordering::Relaxed);
        });
        let session = Arc::new(Self {
            sender,
            counts,
            broken,
            slots: AtomicUsize::new(0),
            driver: driver.abort_handle(),
        });
        answer_to(ping).await.map_err(refuse)?;
        Ok(session)
    }
}

async fn answer_to(ping: Option<PingPong>) -> Result<(), h2::Error> {
    match ping {
        Some(mut ping) => ping.ping(Ping::opaque()).await.map(drop),
        None => Ok(()),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl Pool {
    /// The number of open connections.
    pub(crate) async fn open(&self) -> usize {
        let sessions = self.sessions.lock().await;
        sessions.iter().filter_map(Weak::upgrade).filter(|session| !session.is_broken()).count()
    }

    /// Takes a slot on a connection, on a new one if all are full.
    pub(crate) async fn session(&self, endpoint: &Endpoint) -> Result<Arc<Session>, Error> {
        let mut sessions = self.sessions.lock().await;
        let is_usable = |session: Arc<Session>| !session.is_broken() && !session.is_leaving();
        sessions.retain(|session| session.upgrade().is_some_and(is_usable));
        let has_room = |session: &Arc<Session>| session.slots.load(Ordering::Relaxed) < endpoint.streams_max;
        let session = match sessions.iter().filter_map(Weak::upgrade).find(has_room) {
            Some(session) => session,
            None => {
                let session = Session::open(endpoint).await?;
                sessions.push(Arc::downgrade(&session));
                session
            }
        };
        session.slots.fetch_add(1, Ordering::Relaxed);
        Ok(session)
    }
}
