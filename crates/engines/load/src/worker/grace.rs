//! Gives up operations in flight when the grace period after their load's end is over, if the target can.
//!
//! This costs an operation neither a lock nor a timer: each lane registers its waker once, and one task for
//! each load wakes all lanes when the grace period is over.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use plimsoll_measure::clock::Instant;
use plimsoll_measure::interval::Reply;

use super::{CHECK_NS, WorkerShared};
use crate::runtime::Runtime;
use crate::target::Target;

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// The moment when a load's operations in flight are given up, if ever.
    fn grace_ends(&self, load: usize) -> Option<Instant> {
        let asked = T::GIVES_UP && self.order.phase.loads[load].timing.graceful_stop.is_some();
        self.state().queues[load].until().filter(|_| asked)
    }

    /// Starts the task that ends a load's grace period.
    pub(super) fn watch_grace(self: &Arc<Self>, load: usize) {
        if let Some(at) = self.grace_ends(load) {
            self.runtime.spawn(self.clone().end_grace(load, at));
        }
    }

    async fn end_grace(self: Arc<Self>, load: usize, at: Instant) {
        while self.runtime.now() < at {
            if self.state().lanes_live == 0 {
                return;
            }
            self.runtime.until(at.min(self.runtime.now() + CHECK_NS)).await;
        }
        self.cut[load].store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut self.state().waiting);
        let (ours, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(of, _)| *of == load);
        self.state().waiting.extend(others);
        ours.into_iter().map(|(_, waker)| waker).for_each(Waker::wake);
    }

    /// Registers the waker of a lane whose load has a grace period.
    pub(super) async fn register(&self, load: usize) {
        if self.grace_ends(load).is_some() {
            let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
            self.state().waiting.push((load, waker));
        }
    }

    /// Whether operations in flight are given up.
    pub(super) fn is_cut(&self, load: usize) -> bool {
        self.cut[load].load(Ordering::Relaxed)
    }

    /// Sends the prepared operation and waits for its answer, at most until the load's grace period is over.
    pub(super) async fn answer(&self, load: usize, lane: &mut T::Lane) -> Reply {
        if !T::GIVES_UP {
            return self.target.send(lane).await;
        }
        let answered = {
            let mut sending = pin!(self.target.send(lane));
            poll_fn(|context| match sending.as_mut().poll(context) {
                Poll::Ready(reply) => Poll::Ready(Some(reply)),
                Poll::Pending if self.is_cut(load) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await
        };
        answered.unwrap_or_else(|| Reply { given_up: true, ..self.target.give_up(lane) })
    }
}
