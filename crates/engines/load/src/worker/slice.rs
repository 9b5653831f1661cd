//! Collects one worker's counts of a second, and assigns the tallies of each load's operations.

use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::first_error::OperationError;
use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::interval::Tally;
use serde::{Deserialize, Serialize};

use crate::due_second::DueSecond;
use crate::phase::Phase;

/// Length of the intervals in which the warm-up is detected, in nanoseconds.
pub const TENTH_NS: u64 = 100 * MILLISECOND_NS;

/// One worker's counts of an interval, usually a second.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Nanoseconds from the phase's start to the interval's start.
    pub from_ns: u64,
    /// Nanoseconds from the phase's start to the interval's end.
    pub to_ns: u64,
    /// The tally of each operation, by its index.
    pub tallies: Vec<Tally>,
    /// Tallies by load, for operations that several loads send.
    pub parts: Vec<Part>,
    /// The same time in tenths of a second.
    pub tenths: Vec<Tenth>,
    /// CPU that the worker's thread used, in nanoseconds.
    pub cpu_ns: u64,
    /// The number of times that the operating system switched the thread away from its core.
    pub switches: Option<u64>,
    /// Reconnects.
    pub reconnects: u64,
    /// The time since the server's last answer, in nanoseconds; 0 if it answered the last request.
    pub silent_ns: u64,
    /// The first error of each operation and class since the last slice.
    pub first_errors: Vec<OperationError>,
    /// Counts by due second, since the last slice.
    pub due_seconds: Vec<DueSecond>,
}

/// A tenth of a second, for warm-up detection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenth {
    /// Tenths of a second since the phase's start.
    pub index: u64,
    /// Operations that succeeded.
    pub count: u64,
    /// Documents acknowledged.
    pub documents: u64,
    /// Their response times, to two digits.
    pub response: Histogram,
    /// The end of the first of them, in nanoseconds from the phase's start.
    pub first_ok_ns: Option<u64>,
    /// The end of the last of them.
    pub last_ok_ns: Option<u64>,
    /// The end of the first failed operation.
    pub first_failed_ns: Option<u64>,
}

impl Tenth {
    pub(super) fn new(index: u64) -> Self {
        Self {
            index,
            count: 0,
            documents: 0,
            response: Histogram::with_digits(2),
            first_ok_ns: None,
            last_ok_ns: None,
            first_failed_ns: None,
        }
    }
}

/// One load's part of an operation that several loads of a phase send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The load's index in the phase.
    pub load: usize,
    /// The operation's index in the plan.
    pub operation: usize,
    /// The load's tally of the operation.
    pub tally: Tally,
}

/// Assigns a tally to each operation of each load: the operation's own, unless an earlier load has it already.
///
/// A tally is large, so an operation gets a second one only to separate two loads.
#[derive(Debug)]
pub(super) struct TallyLayout {
    operations: usize,
    /// The (load, operation) of each additional tally.
    further: Vec<(usize, usize)>,
    /// The first load of each operation that has additional tallies.
    first: Vec<(usize, usize)>,
}

impl TallyLayout {
    /// Lays out the tallies of a phase of a plan with `operations` operations.
    pub(super) fn new(phase: &Phase, operations: usize) -> Self {
        let mut layout = Self { operations, further: Vec::new(), first: Vec::new() };
        let mut owners: Vec<Option<usize>> = vec![None; operations];
        for (load, operation) in pairs(phase) {
            match owners[operation] {
                None => owners[operation] = Some(load),
                Some(owner) => {
                    layout.further.push((load, operation));
                    if !layout.first.contains(&(owner, operation)) {
                        layout.first.push((owner, operation));
                    }
                }
            }
        }
        layout
    }

    /// The number of tallies.
    pub(super) fn len(&self) -> usize {
        self.operations + self.further.len()
    }

    /// The index of each operation's tally for one load.
    pub(super) fn of(&self, load: usize) -> Vec<usize> {
        let further = |operation| self.further.iter().position(|pair| *pair == (load, operation));
        (0..self.operations).map(|it| further(it).map_or(it, |at| self.operations + at)).collect()
    }

    /// Adds the additional tallies to those of their operations, and returns the parts.
    pub(super) fn fold(&self, tallies: &mut Vec<Tally>) -> Vec<Part> {
        let apart = |load, operation, tally| Part { load, operation, tally };
        let first = self.first.iter().map(|(load, it)| apart(*load, *it, tallies[*it].clone()));
        let mut parts: Vec<_> = first.collect();
        let further = tallies.split_off(self.operations);
        for ((load, operation), tally) in self.further.iter().zip(further) {
            tallies[*operation].merge(&tally);
            parts.push(apart(*load, *operation, tally));
        }
        parts
    }
}

/// Every operation of every load.
fn pairs(phase: &Phase) -> impl Iterator<Item = (usize, usize)> + '_ {
    let loads = phase.loads.iter().enumerate();
    loads.flat_map(|(load, it)| it.mix.iter().map(move |(operation, _)| (load, *operation)))
}
