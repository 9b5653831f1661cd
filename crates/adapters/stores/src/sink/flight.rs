//! Commands of one worker that are under way, on a runtime of its own.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Runtime;

type Flight<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What is under way, and what has arrived and was not asked for yet.
pub struct Flights<T> {
    runtime: Runtime,
    aloft: FuturesUnordered<Flight<T>>,
    landed: VecDeque<T>,
}

impl<T> Flights<T> {
    /// Nothing is under way yet.
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, aloft: FuturesUnordered::new(), landed: VecDeque::new() }
    }

    /// Sets a future on its way; it comes as far as it can without waiting.
    pub fn launch(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.aloft.push(Box::pin(future));
        let _context = self.runtime.enter();
        // Whatever wakes it later is seen by the next poll of all.
        if let Poll::Ready(Some(landed)) = self.aloft.poll_next_unpin(&mut Context::from_waker(Waker::noop()))
        {
            self.landed.push_back(landed);
        }
    }

    /// The next that is done. Waits at most so long for one.
    pub fn land(&mut self, wait: Duration) -> Option<T> {
        if let Some(landed) = self.landed.pop_front() {
            return Some(landed);
        }
        if self.aloft.is_empty() {
            return None;
        }
        let aloft = &mut self.aloft;
        self.runtime.block_on(async {
            if wait.is_zero() {
                // Once around the event loop, so that what has arrived is seen.
                tokio::task::yield_now().await;
            }
            tokio::time::timeout(wait, aloft.next()).await.ok().flatten()
        })
    }

    /// Runs a future to its end, and meanwhile nothing else.
    pub fn wait_for<U>(&self, future: impl Future<Output = U>) -> U {
        self.runtime.block_on(future)
    }
}

impl<T> fmt::Debug for Flights<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights")
            .field("aloft", &self.aloft.len())
            .field("landed", &self.landed.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_launched_lands_once_as_soon_as_it_is_done() {
        let mut flights = Flights::new(plimsoll_deployment::runtime().unwrap());
        flights.launch(async { 1 });
        flights.launch(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            2
        });
        assert_eq!(flights.land(Duration::ZERO), Some(1));
        assert_eq!(flights.land(Duration::from_secs(60)), Some(2));
        assert_eq!(flights.land(Duration::from_secs(60)), None);
    }
}
