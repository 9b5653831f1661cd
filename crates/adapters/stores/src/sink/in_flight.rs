//! Runs the commands of one worker on its own runtime.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Runtime;

type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The futures in flight, and the results that were not taken yet.
pub struct InFlight<T> {
    runtime: Runtime,
    pending: FuturesUnordered<Pending<T>>,
    finished: VecDeque<T>,
}

impl<T> InFlight<T> {
    /// Creates an empty set on a runtime.
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, pending: FuturesUnordered::new(), finished: VecDeque::new() }
    }

    /// Starts a future and polls it once.
    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.pending.push(Box::pin(future));
        let _context = self.runtime.enter();
        // A no-op waker suffices: `next` polls again later.
        if let Poll::Ready(Some(finished)) =
            self.pending.poll_next_unpin(&mut Context::from_waker(Waker::noop()))
        {
            self.finished.push_back(finished);
        }
    }

    /// Returns the next result. Waits at most `wait`.
    pub fn next(&mut self, wait: Duration) -> Option<T> {
        if let Some(finished) = self.finished.pop_front() {
            return Some(finished);
        }
        if self.pending.is_empty() {
            return None;
        }
        let pending = &mut self.pending;
        self.runtime.block_on(async {
            if wait.is_zero() {
                // Runs the event loop once to receive arrived data.
                tokio::task::yield_now().await;
            }
            tokio::time::timeout(wait, pending.next()).await.ok().flatten()
        })
    }

    /// Runs one future to its end; the others pause meanwhile.
    pub fn wait_for<U>(&self, future: impl Future<Output = U>) -> U {
        self.runtime.block_on(future)
    }
}

impl<T> fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight")
            .field("pending", &self.pending.len())
            .field("finished", &self.finished.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spawned_future_returns_once_when_it_finishes() {
        let mut flights = InFlight::new(plimsoll_deployment::runtime().unwrap());
        flights.spawn(async { 1 });
        flights.spawn(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            2
        });
        assert_eq!(flights.next(Duration::ZERO), Some(1));
        assert_eq!(flights.next(Duration::from_secs(60)), Some(2));
        assert_eq!(flights.next(Duration::from_secs(60)), None);
    }
}
