//! Keeps the state that the lanes of one worker share, and tracks whether the server answers.

use std::task::Waker;

use plimsoll_measure::clock::Instant;
use plimsoll_measure::interval::{Instants, Reply, Tally};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};

use super::{Ended, TENTH_NS, Tenth};
use crate::due_second::DueSeconds;
use crate::operation_queue::{OperationQueue, Slot};

/// The state that the lanes of one worker share.
pub(super) struct State<L> {
    pub(super) queues: Vec<OperationQueue>,
    /// The counts of the interval that ends at `to_ns`.
    pub(super) tallies: Vec<Tally>,
    /// The counts of operations that ended after it, before the busy thread could report it; empty if none did. They belong to the next
    /// interval, also if the thread is busy for longer.
    pub(super) late: Vec<Tally>,
    /// The end of the interval, in nanoseconds from the phase's start.
    pub(super) to_ns: u64,
    pub(super) tenths: Vec<Tenth>,
    pub(super) due_seconds: DueSeconds,
    pub(super) reconnects: u64,
    /// The moment since which the server has not answered any request; `None` if it answered the last one.
    pub(super) silent_since: Option<Instant>,
    pub(super) ended: Ended,
    pub(super) halted: bool,
    /// The number of operations in flight that may make documents.
    pub(super) making: usize,
    pub(super) supply: DocumentsLeft,
    pub(super) lanes_live: usize,
    pub(super) lanes_done: Vec<L>,
    /// The wakers of lanes whose load has a grace period, by load.
    pub(super) waiting: Vec<(usize, Waker)>,
    pub(super) reporter: Option<Waker>,
}

/// Whether this worker still has some of the phase's documents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentsLeft {
    Yes,
    No,
}

impl<L> State<L> {
    /// The tallies of the interval that holds a moment, or of the next one.
    pub(super) fn tallies_at(&mut self, at_ns: u64) -> &mut [Tally] {
        if at_ns < self.to_ns {
            return &mut self.tallies;
        }
        self.late.resize_with(self.tallies.len(), Tally::default);
        &mut self.late
    }

    /// Counts an operation that has ended in one tally.
    pub(super) fn record(&mut self, load: usize, slot: &Slot, at: &Instants, reply: &Reply, start: Instant) {
        let done_ns = at.done.since(start);
        let index = done_ns / TENTH_NS;
        if self.tenths.last().is_none_or(|tenth| tenth.index < index) {
            self.tenths.push(Tenth::new(index));
        }
        let tally = &mut self.tallies_at(done_ns)[slot.tally];
        let before = tally.count;
        tally.record(at, reply);
        let succeeded = tally.count > before;
        let due = slot.due.map(|due| due.since(start));
        due.into_iter().for_each(|due_ns| self.due_seconds.ended(load, due_ns, at, succeeded));
        let Some(tenth) = self.tenths.last_mut() else { return };
        if succeeded {
            tenth.count += 1;
            tenth.documents += reply.documents;
            tenth.response.record(at.response_ns());
            tenth.first_ok_ns.get_or_insert(done_ns);
            tenth.last_ok_ns = Some(done_ns);
        } else {
            tenth.first_failed_ns.get_or_insert(done_ns);
        }
    }

    /// Ends the phase for this worker.
    pub(super) fn halt(&mut self, ended: Ended) {
        self.halted = true;
        self.ended = self.ended.max(ended);
    }

    /// Records whether the server answered.
    pub(super) fn note_contact(&mut self, contact: Contact, now: Instant, unreachable_for_ns: u64) {
        match contact {
            Contact::Answer => self.silent_since = None,
            Contact::Nothing => {
                let since = *self.silent_since.get_or_insert(now);
                if now.since(since) >= unreachable_for_ns {
                    self.halt(Ended::Unreachable);
                }
            }
            Contact::NotAsked => {}
        }
    }

    /// Counts the overdue operations as skipped when no lane is left to send them, unless the phase ended deliberately.
    pub(super) fn skip_the_rest(&mut self, start: Instant) {
        if self.ended.leaves_the_rest() {
            return;
        }
        for load in 0..self.queues.len() {
            while let Some(slot) = self.queues[load].take_overdue() {
                self.skip(load, &slot, start);
            }
        }
    }

    /// Counts an operation that became due, in the interval of a moment.
    pub(super) fn become_due(&mut self, load: usize, slot: &Slot, start: Instant, at_ns: u64) {
        self.tallies_at(at_ns)[slot.tally].due += 1;
        slot.due.into_iter().for_each(|due| self.due_seconds.due(load, due.since(start)));
    }

    /// Counts a due operation that is never sent.
    pub(super) fn skip(&mut self, load: usize, slot: &Slot, start: Instant) {
        self.tallies[slot.tally].skipped += 1;
        slot.due.into_iter().for_each(|due| self.due_seconds.skipped(load, due.since(start)));
    }

    /// Whether the last document of this worker was just sent: true once.
    pub(super) fn sent_last_document(&mut self) -> bool {
        let empty = self.making == 0 && !self.queues.iter().any(OperationQueue::is_supplying);
        let sold_out = empty && self.supply == DocumentsLeft::Yes;
        if sold_out {
            self.supply = DocumentsLeft::No;
        }
        sold_out
    }
}

/// Whether the server answered, by an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    Answer,
    Nothing,
    NotAsked,
}

impl Contact {
    pub(super) const fn of(outcome: Outcome) -> Self {
        match outcome {
            // Without a local port, this machine and not the server is at its limit.
            Outcome::Unknown(Doubt::Unacknowledged) | Outcome::Rejected(Rejection::NoLocalPort) => {
                Self::NotAsked
            }
            Outcome::Unknown(Doubt::Timeout | Doubt::ConnectionLost) => Self::Nothing,
            // No operation was sent: the server was unreachable.
            Outcome::Rejected(Rejection::NotTried) => Self::Nothing,
            _ => Self::Answer,
        }
    }
}
