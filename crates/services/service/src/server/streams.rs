//! Runs each stream of an HTTP/2 connection, and resets a stream whose answer the client does not take in time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::sync::Notify;

use crate::budget::Share;
use crate::sending::Outbox;

/// Runs the streams of one connection, each in its own task.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    send: Duration,
    /// The memory of all streams.
    share: Share,
    /// Notified when a stream can only be ended with its connection.
    cut: Arc<Notify>,
}

impl Streams {
    /// Gives clients the time `send` for each answer. The answers of all streams share the memory of their connection.
    pub(super) fn new(send: Duration, share: Share) -> Self {
        Self { send, share, cut: Arc::default() }
    }

    /// Waits for a stream that can only be ended with its connection.
    pub(super) async fn stuck(&self) {
        self.cut.notified().await;
    }

    async fn run(self, stream: impl Future<Output = ()>) {
        let outbox = Outbox::of(self.share.clone());
        let mut overdue = pin!(outbox.overdue(self.send));
        let is_done = tokio::select! {
            () = outbox.during(stream) => true,
            // Dropping the stream resets it.
            () = overdue.as_mut() => false,
        };
        if !is_done {
            return tracing::debug!("a client did not take its answer in time: its stream is reset");
        }
        // The HTTP library has the last piece. No handle is left that could reset the stream.
        tokio::select! {
            () = outbox.sent() => (),
            () = overdue.as_mut() => self.cut.notify_one(),
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        tokio::spawn(self.clone().run(stream));
    }
}
