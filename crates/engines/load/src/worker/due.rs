//! Assigns operations to free lanes before their due time, and notes the overdue ones when all lanes are busy.

use std::sync::Arc;

use plimsoll_measure::clock::Instant;

use super::state::State;
use super::writer::Writer;
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
        begin(state, load);
        Some(slot)
    }

    /// Takes the next operation for a free lane. After the last one of this worker, waits for an overdue one of another worker.
    pub(super) async fn take_or_borrow(&self, writer: &Writer) -> Option<Slot> {
        if let Some(slot) = self.take(writer.load) {
            return Some(slot);
        }
        let slot = self.borrow(writer).await?;
        begin(&mut self.state(), writer.load);
        Some(slot)
    }

    /// Puts back an operation that is not due yet. If no lane takes it again, it is noted at its due time.
    pub(super) fn put_back(self: &Arc<Self>, load: usize, slot: Slot) {
        self.state().queues[load].put_back(slot);
        let due = slot.due.unwrap_or(self.order.start);
        self.runtime.spawn(self.clone().notice_at(load, due));
    }

    async fn notice_at(self: Arc<Self>, load: usize, due: Instant) {
        self.runtime.until(due).await;
        self.notice_due(load);
    }

    /// Takes an overdue operation for an idle lane.
    pub(super) fn take_overdue(&self, load: usize) -> Option<Slot> {
        if self.order.backlogs.of(load).is_empty() {
            return None;
        }
        let mut state = self.state();
        self.obey_stop(&mut state);
        if state.halted {
            return None;
        }
        next_overdue(&mut state, load, self.runtime.now(), self.order.start)
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

    /// Records that a load has no documents left for an operation; all loads of a worker that make documents share them.
    pub(super) fn exhaust(&self, load: usize, slot: &Slot) {
        let mut state = self.state();
        if slot.awake.is_some() {
            // Another worker may have documents left.
            state.queues[load].push_overdue(*slot);
        }
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
            let Some(due) = next else { break };
            self.runtime.until(due.min(self.runtime.now() + CHECK_NS)).await;
            if !self.notice_due(load) {
                break;
            }
        }
        self.order.backlogs.of(load).end_schedule();
    }

    /// Notes the operations that are due now; false if the worker sends no further operation.
    fn notice_due(&self, load: usize) -> bool {
        let now = self.runtime.now();
        let mut state = self.state();
        let state = &mut *state;
        if state.halted || state.lanes_live == 0 {
            return false;
        }
        while let Some(slot) = state.queues[load].notice(now) {
            let due_ns = slot.due.map_or(0, |due| due.since(self.order.start));
            state.become_due(load, &slot, self.order.start, due_ns);
        }
        true
    }
}

/// Records that a lane has taken an operation.
fn begin<L>(state: &mut State<L>, load: usize) {
    if state.queues[load].makes_documents() {
        state.making += 1;
    }
}

/// Takes the next operation of a load: overdue ones first. Operations that are too late count as skipped.
fn next<L>(state: &mut State<L>, load: usize, now: Instant, start: Instant) -> Option<Slot> {
    let overdue = next_overdue(state, load, now, start);
    if overdue.is_some() {
        return overdue;
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

/// Takes the oldest overdue operation of a load that may still be sent.
fn next_overdue<L>(state: &mut State<L>, load: usize, now: Instant, start: Instant) -> Option<Slot> {
    let drained = state.queues[load].is_drained(now);
    while let Some(slot) = state.queues[load].take_overdue() {
        if !drained && !state.queues[load].is_too_late(&slot, now) {
            return Some(slot);
        }
        state.skip(load, &slot, start);
    }
    None
}

/// Records that the phase ends by operations, if the last operation of a load was taken.
pub(super) fn note_the_last<L>(state: &mut State<L>, load: usize) {
    if state.queues[load].is_over() {
        state.ended = state.ended.max(Ended::Operations);
    }
}
