//! Keeps the state of one lane: its writer number, its remaining operations, its pauses and its shifts.

use plimsoll_measure::clock::Instant;

use super::{Ended, Order};
use crate::mix::scramble;
use crate::operation_queue::{Call, narrowed};
use crate::shift::Shifts;
use crate::think::Think;

/// Separates the pauses from other values that follow from a phase's seed.
const PAUSE_SALT: u64 = 0x0074_6869_6E6B;

/// One lane of a load.
#[derive(Debug)]
pub(super) struct Writer {
    /// The load's index in the phase.
    pub(super) load: usize,
    /// The number among the load's writers, over all workers.
    number: u64,
    /// The start of the load.
    start: Instant,
    /// The end of its wait for the load's start or of its pause.
    resumes: Option<Instant>,
    /// The number of operations that the writer may still send; `None`: no limit.
    left: Option<u64>,
    think: Option<Think>,
    seed: u64,
    /// The number of pauses so far.
    pauses: u64,
    shifts: Option<Shifts>,
    /// The end of its current shift, at which the writer looks for its next one.
    shift_ends: Instant,
    /// The moment since which its next operation waits for a connection, if its last connection broke. The
    /// operation is due at that moment.
    waits_since: Option<Instant>,
    /// The call for an overdue operation while its lane is idle.
    pub(super) call: Call,
}

/// The moment of a writer's next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Now.
    Now,
    /// At this moment.
    At(Instant),
    /// Never again, for this reason.
    Never(Ended),
}

impl Writer {
    /// The `lane`-th of a worker's lanes for a load.
    pub(super) fn new(order: &Order, load: usize, lane: u64) -> Self {
        let (phase, it) = (&order.phase, &order.phase.loads[load]);
        let share = narrowed(order.share, u64::from(it.arrivals.connections()));
        let start = order.start + it.timing.start.as_ns();
        Self {
            load,
            number: lane * share.of + share.index,
            start,
            // Open arrivals wait for a due time anyway.
            resumes: (!it.arrivals.is_open() && start > order.start).then_some(start),
            left: it.limits(phase.stop).operations_each,
            think: it.timing.think,
            seed: scramble(scramble(phase.seed, load as u64), PAUSE_SALT),
            pauses: 0,
            shifts: Shifts::of(&it.arrivals),
            shift_ends: start,
            waits_since: None,
            call: Call::default(),
        }
    }

    /// Whether the writer never waits, which is the usual case.
    pub(super) const fn never_waits(&self) -> bool {
        self.left.is_none() && self.resumes.is_none() && self.shifts.is_none()
    }

    /// The moment of the next operation.
    pub(super) fn turn(&mut self, now: Instant) -> Turn {
        if self.left == Some(0) {
            return Turn::Never(Ended::Operations);
        }
        if let Some(at) = self.resumes.filter(|at| now < *at) {
            return Turn::At(at);
        }
        self.resumes.take().into_iter().for_each(|at| self.is_not_due_before(at));
        let Some(shifts) = self.shifts.as_ref().filter(|_| now >= self.shift_ends) else { return Turn::Now };
        let Some(shift) = shifts.next(self.number, now.since(self.start)) else {
            return Turn::Never(Ended::Duration);
        };
        let begins = self.start + shift.start;
        if now < begins {
            return Turn::At(begins);
        }
        self.is_not_due_before(begins);
        self.shift_ends = self.start + shift.end;
        Turn::Now
    }

    /// Records that its connection broke, or that it had none at `at`.
    pub(super) const fn lost_connection(&mut self, at: Instant) {
        self.waits_since = Some(at);
    }

    /// The moment when its next operation was due, if that operation had to wait for a connection.
    pub(super) const fn take_due(&mut self) -> Option<Instant> {
        self.waits_since.take()
    }

    /// Excludes the time until `at` from the wait for a connection: it is a pause, or the time between two
    /// shifts.
    fn is_not_due_before(&mut self, at: Instant) {
        self.waits_since = self.waits_since.map(|since| since.max(at));
    }

    /// Records that one of its operations has ended.
    pub(super) fn ended(&mut self, done: Instant) {
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        if let Some(think) = &self.think {
            self.resumes = Some(done + think.after_ns(self.seed, self.number, self.pauses));
            self.pauses += 1;
        }
    }
}
