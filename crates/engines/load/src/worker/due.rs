//! Assigns due operations to free lanes before their due time, and notes the overdue ones when all lanes are
//! busy.

use std::sync::Arc;

use plimsoll_measure::clock::Instant;

use super::state::State;
use super::{CHECK_NS, Ended, WorkerShared};
use crate::operation_queue::{OperationQueue, Slot};
use crate::runtime::Runtime;
use crate::target::Target;

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// Takes the next operation for a free lane: overdue ones first, then the scheduled.
    pub(super) fn take(&self, load: usize) -> Option<Slot> {
        let now = self.runtime.now();
        let mut state = self.state();
        let state = &mut *state;
        self.obey_stop(state);
        if state.halted {
            return None;
        }
        let slot = next(state, load, now, self.order.start)?;
        if state.queues[load].makes_documents() {
            state.making += 1;
        }
        Some(slot)
    }

    /// Waits until a slot is due; returns its due and awake instants, or none if the phase was stopped.
    pub(super) async fn wait_for(&self, slot: &Slot) -> Option<(Instant, Instant)> {
        let Some(due) = slot.due else {
            let now = self.runtime.now();
            return Some((now, now));
        };
        if let Some(awake) = slot.awake {
            return Some((due, awake));
        }
        loop {
            let now = self.runtime.now();
            if now >= due {
                return Some((due, now));
            }
            self.runtime.until(due.min(now + CHECK_NS)).await;
            if self.is_halted() {
                return None;
            }
        }
    }

    /// Records that an operation has ended, with any outcome.
    pub(super) fn finish(&self, load: usize) {
        let mut state = self.state();
        if state.queues[load].makes_documents() {
            state.making -= 1;
            if state.sent_last_document() {
                self.order.supply.leave();
            }
        }
    }

    /// Records that a load has no documents left; all loads of a worker that make documents share them.
    pub(super) fn exhaust(&self, load: usize) {
        let mut state = self.state();
        if !state.queues[load].makes_documents() {
            return state.queues[load].exhaust();
        }
        state.ended = state.ended.max(Ended::Documents);
        state.queues.iter_mut().filter(|queue| queue.makes_documents()).for_each(OperationQueue::exhaust);
    }

    /// Notes each operation of a load that no lane took, at its due time.
    pub(super) async fn notice(self: Arc<Self>, load: usize) {
        loop {
            let next = self.state().queues[load].next_due();
            let Some(due) = next else { return };
            self.runtime.until(due.min(self.runtime.now() + CHECK_NS)).await;
            let now = self.runtime.now();
            let mut state = self.state();
            let state = &mut *state;
            if state.halted || state.lanes_live == 0 {
                return;
            }
            while let Some(slot) = state.queues[load].notice(now) {
                state.become_due(load, &slot, self.order.start);
            }
        }
    }
}

/// Takes the next operation of a load: overdue ones first. Operations that are too late count as skipped.
fn next<L>(state: &mut State<L>, load: usize, now: Instant, start: Instant) -> Option<Slot> {
    let drained = state.queues[load].is_drained(now);
    while let Some(slot) = state.queues[load].take_overdue() {
        if !drained && !state.queues[load].is_too_late(&slot, now) {
            return Some(slot);
        }
        state.skip(load, &slot, start);
    }
    let queue = &mut state.queues[load];
    if queue.is_closed() && queue.has_ended(now) {
        return None;
    }
    let slot = queue.take_scheduled();
    if slot.is_none() {
        note_the_last(state, load);
    }
    slot
}

/// Records that the phase ends by operations, if the last operation of a load was taken.
pub(super) fn note_the_last<L>(state: &mut State<L>, load: usize) {
    if state.queues[load].is_over() {
        state.ended = state.ended.max(Ended::Operations);
    }
}
