//! Counts operations by the second in which they were due, regardless of their end. A search judges these
//! counts.
//!
//! The usual tallies count an operation in the second of its end, so an overload moves its worst operations out of the window
//! that caused them. Here every due operation counts once: in time, over a limit, failed, or never sent.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::interval::Instants;
use serde::{Deserialize, Serialize};

/// The latency that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// From due to done.
    Response,
    /// From sent to done.
    Service,
}

/// A limit on the latency of each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The latency.
    pub latency: Latency,
    /// An operation that takes this long or longer is over the limit, in nanoseconds.
    pub ns: u64,
}

/// The operations of one load that were due in one second of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DueSecond {
    /// The load's index in the phase.
    pub load: usize,
    /// Seconds from the phase's start.
    pub index: u64,
    /// Operations that became due.
    pub due: u64,
    /// Operations that ended, well or badly, or were skipped.
    pub ended: u64,
    /// Operations that failed or were skipped.
    pub failed: u64,
    /// For each limit, the operations that ended over it; failed ones are over every limit.
    pub over: Vec<u64>,
    /// For each limit, the sum of its latency over all operations that ended, also failed ones, in
    /// nanoseconds. Skipped ones count nothing.
    pub sum_ns: Vec<u64>,
}

impl DueSecond {
    /// Adds the counts of the same second of another part.
    pub fn merge(&mut self, other: &Self) {
        let add = |sum: &mut Vec<u64>, part: &[u64]| {
            sum.resize(sum.len().max(part.len()), 0);
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        };
        (self.due, self.ended, self.failed) =
            (self.due + other.due, self.ended + other.ended, self.failed + other.failed);
        add(&mut self.over, &other.over);
        add(&mut self.sum_ns, &other.sum_ns);
    }

    /// The operations without a good answer: those that failed or were skipped, and those that never ended.
    pub fn not_answered(&self) -> u64 {
        self.failed + self.due.saturating_sub(self.ended)
    }

    /// The operations over a limit: those that ended over it, and those that never ended.
    pub fn over(&self, limit: usize) -> u64 {
        self.over.get(limit).copied().unwrap_or(0) + self.due.saturating_sub(self.ended)
    }
}

/// Collects the due seconds of one worker, or adds up those of all.
#[derive(Clone, Debug, Default)]
pub struct DueSeconds {
    limits: Vec<Limit>,
    seconds: Vec<DueSecond>,
}

impl DueSeconds {
    /// Counts against these limits; nothing without any.
    pub const fn new(limits: Vec<Limit>) -> Self {
        Self { limits, seconds: Vec::new() }
    }

    /// Records that an operation became due, `due_ns` after the phase's start.
    pub(crate) fn due(&mut self, load: usize, due_ns: u64) {
        if !self.limits.is_empty() {
            self.entry(load, due_ns / SECOND_NS).due += 1;
        }
    }

    /// Records the end of an operation.
    pub(crate) fn ended(&mut self, load: usize, due_ns: u64, at: &Instants, succeeded: bool) {
        if self.limits.is_empty() {
            return;
        }
        // The limits are taken, and put back below, because `entry` borrows all of `self`.
        let limits = std::mem::take(&mut self.limits);
        let second = self.entry(load, due_ns / SECOND_NS);
        second.ended += 1;
        second.failed += u64::from(!succeeded);
        second.over.resize(limits.len(), 0);
        second.sum_ns.resize(limits.len(), 0);
        for (limit, (over, sum_ns)) in limits.iter().zip(second.over.iter_mut().zip(&mut second.sum_ns)) {
            let ns = match limit.latency {
                Latency::Response => at.response_ns(),
                Latency::Service => at.service_ns(),
            };
            *over += u64::from(ns >= limit.ns || !succeeded);
            *sum_ns += ns;
        }
        self.limits = limits;
    }

    /// Records that a due operation was never sent.
    pub(crate) fn skipped(&mut self, load: usize, due_ns: u64) {
        if self.limits.is_empty() {
            return;
        }
        let limits = self.limits.len();
        let second = self.entry(load, due_ns / SECOND_NS);
        second.ended += 1;
        second.failed += 1;
        second.over.resize(limits, 0);
        second.over.iter_mut().for_each(|over| *over += 1);
    }

    /// Takes the counts since the last call.
    pub(crate) fn take(&mut self) -> Vec<DueSecond> {
        std::mem::take(&mut self.seconds)
    }

    /// Adds the counts of one part of a phase.
    pub fn add(&mut self, part: &DueSecond) {
        self.entry(part.load, part.index).merge(part);
    }

    /// The seconds of a load, in order.
    pub fn of(&self, load: usize) -> Vec<DueSecond> {
        let mut seconds: Vec<_> = self.seconds.iter().filter(|second| second.load == load).cloned().collect();
        seconds.sort_by_key(|second| second.index);
        seconds
    }

    /// The counts of a second, added if missing. New operations belong to the last seconds, so the search
    /// begins at the end.
    fn entry(&mut self, load: usize, index: u64) -> &mut DueSecond {
        let known = self.seconds.iter().rposition(|second| (second.load, second.index) == (load, index));
        let at = known.unwrap_or_else(|| {
            self.seconds.push(DueSecond { load, index, ..DueSecond::default() });
            self.seconds.len() - 1
        });
        &mut self.seconds[at]
    }
}
