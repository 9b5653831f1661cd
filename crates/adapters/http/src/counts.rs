//! Counts a worker's answers by operation and status, and how often each check held.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_measure::first_error::FirstErrors;
use serde::Serialize;

use crate::setup::Setup;

/// One more than the largest status.
const STATUSES: usize = 600;

/// The answers of one operation. Parts add up to the whole, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answers {
    /// The operation's name.
    pub operation: String,
    /// Every check, in the order of the scenario, the status first.
    pub checks: Vec<CheckCount>,
    /// The number of answers by status; 0 counts the unanswered requests. Retries count as well.
    pub statuses: BTreeMap<u16, u64>,
}

/// The counts of one check. An unanswered request fails all of its checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckCount {
    /// The check, for example `status 201` or `json items.0.id`.
    pub name: String,
    /// The number of answers that passed.
    pub passed: u64,
    /// The number of answers that failed.
    pub failed: u64,
}

impl Answers {
    /// Adds every count of `other`, which belongs to the same operation.
    pub fn merge(&mut self, other: &Self) {
        for (sum, part) in self.checks.iter_mut().zip(&other.checks) {
            sum.passed += part.passed;
            sum.failed += part.failed;
        }
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
    }
}

/// The counters of a worker. One thread counts; other threads may read.
#[derive(Debug)]
pub(crate) struct Counts {
    operations: Vec<Operation>,
    /// The first error of each operation and class.
    pub(crate) first_errors: FirstErrors,
}

#[derive(Debug)]
struct Operation {
    /// For each check, the number of answers that passed and of answers that failed.
    checks: Vec<[AtomicU64; 2]>,
    statuses: Vec<AtomicU64>,
}

impl Counts {
    pub(crate) fn new(setup: &Setup) -> Self {
        let operation = |checks: usize| Operation {
            checks: (0..checks).map(|_| Default::default()).collect(),
            statuses: (0..STATUSES).map(|_| AtomicU64::new(0)).collect(),
        };
        let operations = setup.calls.iter().map(|call| operation(call.checks.names.len())).collect();
        Self { operations, first_errors: FirstErrors::default() }
    }

    /// Counts an answer by its status; 0 for no answer.
    pub(crate) fn status(&self, operation: usize, status: u16) {
        if let Some(counter) = self.operations[operation].statuses.get(usize::from(status)) {
            add_one(counter);
        }
    }

    /// Counts whether a check held.
    pub(crate) fn check(&self, operation: usize, check: usize, held: bool) {
        add_one(&self.operations[operation].checks[check][usize::from(!held)]);
    }

    /// The counts so far.
    pub(crate) fn read(&self, setup: &Setup) -> Vec<Answers> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let both = setup.calls.iter().zip(&self.operations);
        both.map(|(call, counted)| Answers {
            operation: call.name.clone(),
            checks: (call.checks.names.iter().zip(&counted.checks))
                .map(|(name, [passed, failed])| CheckCount {
                    name: name.clone(),
                    passed: read(passed),
                    failed: read(failed),
                })
                .collect(),
            statuses: (0..).zip(counted.statuses.iter().map(read)).filter(|(_, count)| *count > 0).collect(),
        })
        .collect()
    }
}

/// Only the worker's own thread counts, so no locked instruction is needed.
fn add_one(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_parts_equal_the_whole() {
        let part = |passed, statuses: &[(u16, u64)]| Answers {
            operation: "a".into(),
            checks: vec![CheckCount { name: "status 2xx".into(), passed, failed: 1 }],
            statuses: statuses.iter().copied().collect(),
        };
        let mut sum = part(3, &[(200, 3), (500, 1)]);
        sum.merge(&part(5, &[(0, 1), (200, 5)]));
        assert_eq!(sum.checks[0], CheckCount { name: "status 2xx".into(), passed: 8, failed: 2 });
        assert_eq!(sum.statuses, BTreeMap::from([(0, 1), (200, 8), (500, 1)]));
    }
}
