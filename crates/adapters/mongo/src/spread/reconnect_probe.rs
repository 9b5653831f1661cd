//! Tries to reach a server that is down, in the background: no operation waits for an attempt.
//!
//! While the server is unreachable, one connection of a worker tries at a time, at intervals. After the first success all other
//! lanes may reconnect at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll_deployment::Deployment;
use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};
use plimsoll_wire::Connection;
use tokio::task::JoinHandle;

/// The interval between a worker's attempts to reach a server that is down, in nanoseconds.
const TRY_EVERY_NS: u64 = 500 * MILLISECOND_NS;
/// The time limit of one attempt.
const TRY_LIMIT: Duration = Duration::from_nanos(10 * SECOND_NS);

/// One attempt, which ends when dropped.
#[derive(Debug)]
pub(super) struct ReconnectProbe {
    attempt: JoinHandle<Option<Connection>>,
}

impl ReconnectProbe {
    /// Starts an attempt. Must be called on a tokio runtime.
    pub fn at(deployment: Arc<Deployment>) -> Self {
        let attempt = async move { tokio::time::timeout(TRY_LIMIT, deployment.connect()).await.ok()?.ok() };
        Self { attempt: tokio::spawn(attempt) }
    }

    /// Polls the attempt's result: a connection, or `None` after a failure.
    pub fn answer(&mut self) -> Poll<Option<Connection>> {
        // The waker does nothing: the lane polls again.
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(&mut self.attempt).poll(&mut context).map(|ended| ended.ok().flatten())
    }
}

impl Drop for ReconnectProbe {
    fn drop(&mut self) {
        self.attempt.abort();
    }
}

/// Decides when a worker may try a server again.
#[derive(Debug, Default)]
pub(super) struct RetryGate {
    /// The time of the next attempt, in nanoseconds; 0 while the server is up.
    next_ns: AtomicU64,
}

impl RetryGate {
    /// Whether the server is down, as far as the worker knows.
    pub fn is_down(&self) -> bool {
        self.next_ns.load(Ordering::Relaxed) > 0
    }

    /// Records a successful attempt.
    pub fn reached(&self) {
        self.next_ns.store(0, Ordering::Relaxed);
    }

    /// Records a lost connection or a failed attempt.
    pub fn failed(&self, now: Instant) {
        self.next_ns.store((now + TRY_EVERY_NS).as_ns(), Ordering::Relaxed);
    }

    /// Whether a lane may try the server now. While it is down, one lane tries for all.
    pub fn may_try(&self, now: Instant) -> bool {
        let over = self.next_ns.load(Ordering::Relaxed) <= now.as_ns();
        if over && self.is_down() {
            self.failed(now);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lane_tries_for_all_and_all_may_reconnect_after_its_success() {
        let (gate, start) = (RetryGate::default(), Instant::from_ns(SECOND_NS));
        assert!(gate.may_try(start) && gate.may_try(start), "it counts as up");
        gate.failed(start);
        let later = start + TRY_EVERY_NS;
        assert_eq!([start, later - 1, later, later].map(|at| gate.may_try(at)), [false, false, true, false]);
        assert!(gate.may_try(later + TRY_EVERY_NS));
        gate.reached();
        assert!(!gate.is_down() && gate.may_try(start) && gate.may_try(start));
    }
}
