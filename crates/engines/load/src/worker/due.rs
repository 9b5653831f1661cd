//! What is due: taken by a free lane before its moment, or noted by the pacer when all are busy.

use std::sync::Arc;

use plimsoll_measure::clock::Instant;

use super::state::State;
use super::{Ended, LOOK_NS, WorkerShared};
use crate::operation_queue::{OperationQueue, Slot};
use crate::runtime::Runtime;
use crate::target::Target;

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// The next operation for a free lane: what is overdue first, then what the schedule has next.
    pub(super) fn take(&self, load: usize) -> Option<Slot> {
        let now = self.runtime.now();
        let mut state = self.state();
        let state = &mut *state;
        self.heed(state);
        if state.halted {
            return None;
        }
        let slot = next(state, load, now)?;
        if state.queues[load].makes_documents() {
            state.making += 1;
        }
        Some(slot)
    }

    /// Waits until a slot is due; gives its due and awake instants, or nothing if the phase was stopped meanwhile.
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
            self.runtime.until(due.min(now + LOOK_NS)).await;
            if self.is_halted() {
                return None;
            }
        }
    }

    /// An operation has ended, one way or another.
    pub(super) fn finish(&self, load: usize) {
        let mut state = self.state();
        if state.queues[load].makes_documents() {
            state.making -= 1;
            if state.is_sold_out() {
                self.order.supply.leave();
            }
        }
    }

    /// There are no documents left for a load; those of a worker are shared by all its loads that make some.
    pub(super) fn exhaust(&self, load: usize) {
        let mut state = self.state();
        if !state.queues[load].makes_documents() {
            return state.queues[load].exhaust();
        }
        state.ended = state.ended.max(Ended::Documents);
        state.queues.iter_mut().filter(|queue| queue.makes_documents()).for_each(OperationQueue::exhaust);
    }

    /// Notes at its due time each operation of a load that no lane has taken.
    pub(super) async fn notice(self: Arc<Self>, load: usize) {
        loop {
            let next = self.state().queues[load].next_due();
            let Some(due) = next else { return };
            self.runtime.until(due.min(self.runtime.now() + LOOK_NS)).await;
            let now = self.runtime.now();
            let mut state = self.state();
            let state = &mut *state;
            if state.halted || state.lanes_live == 0 {
                return;
            }
            while let Some(slot) = state.queues[load].notice(now) {
                state.tallies[slot.tally].due += 1;
            }
        }
    }
}

/// What a load has next: overdue operations first, of which those that come too late are counted as skipped.
fn next<L>(state: &mut State<L>, load: usize, now: Instant) -> Option<Slot> {
    let queue = &mut state.queues[load];
    let drained = queue.is_drained(now);
    while let Some(slot) = queue.take_overdue() {
        if !drained && !queue.is_too_late(&slot, now) {
            return Some(slot);
        }
        state.tallies[slot.tally].skipped += 1;
    }
    if queue.is_closed() && queue.has_ended(now) {
        return None;
    }
    let slot = queue.take_scheduled();
    if slot.is_none() {
        note_the_last(state, load);
    }
    slot
}

/// If the last operation of a load was taken, that is what ends it.
pub(super) fn note_the_last<L>(state: &mut State<L>, load: usize) {
    if state.queues[load].is_over() {
        state.ended = state.ended.max(Ended::Operations);
    }
}
