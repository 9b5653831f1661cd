//! Judges expectations: sums them up during the run, checks them on the way, and judges them at its end.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::expectation::{self, Checks, Operation, Wanted};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::metric::Selector;
use plimsoll_measure::outcome::Doubt;
use plimsoll_measure::run::Expectation;

use super::sum::{Cover, Sum, seconds};
use crate::phase::Phase;
use crate::second::Second;

/// The interval of the checks that may end the run, in nanoseconds of load.
const EVERY_NS: u64 = 2 * SECOND_NS;

/// Every expectation with its subject.
#[derive(Debug, Default)]
pub(super) struct Watch {
    wanted: Vec<(Wanted, SumIndex)>,
    /// Sums of several operations, or of parts of one: one for each distinct selection.
    sums: Vec<(Selector, Sum)>,
    /// The operations of each of `sums`.
    members: Vec<BTreeSet<usize>>,
    armed: bool,
    /// Time under load at the last check, in nanoseconds.
    checked_ns: u64,
    /// Errors that no expectation bounds, by operation and class.
    unexpected: BTreeMap<(usize, &'static str), u64>,
}

/// The place of an expectation's sum.
#[derive(Clone, Copy, Debug)]
enum SumIndex {
    Integrity,
    /// A whole operation.
    Operation(usize),
    /// One of [`Watch::sums`].
    Several(usize),
}

impl Watch {
    pub(super) fn new(wanted: &[Wanted], names: &[String]) -> Self {
        let mut watch = Self::default();
        for it in wanted {
            let sum_index =
                it.selector().map_or(SumIndex::Integrity, |selector| watch.sum_index(selector, names));
            watch.wanted.push((it.clone(), sum_index));
        }
        watch
    }

    fn sum_index(&mut self, selector: &Selector, names: &[String]) -> SumIndex {
        let single = selector.only_operation();
        if let Some(index) = single.and_then(|single| names.iter().position(|name| name == single)) {
            return SumIndex::Operation(index);
        }
        let known = self.sums.iter().position(|(known, _)| known == selector);
        SumIndex::Several(known.unwrap_or_else(|| {
            self.sums.push((selector.clone(), Sum::default()));
            self.members.push(BTreeSet::new());
            self.sums.len() - 1
        }))
    }

    pub(super) const fn arm(&mut self) {
        self.armed = true;
    }

    /// Adds one second of a phase to every matching sum.
    pub(super) fn add(&mut self, phase: &Phase, second: &Second, names: &[String]) {
        self.note_unexpected(phase, second, names);
        for ((selector, sum), members) in self.sums.iter_mut().zip(&mut self.members) {
            for (index, load) in phase.loads.iter().enumerate() {
                let cover = Cover::of(load, phase);
                let matching = load.mix.iter().map(|(operation, _)| *operation);
                let matching = matching.filter(|it| selector.matches(&load.subject(&phase.name, names, *it)));
                for operation in matching {
                    members.insert(operation);
                    second.of(index, operation).into_iter().for_each(|tally| sum.add(tally, second, &cover));
                }
            }
            if let Some(cover) = together(selector, phase, names) {
                sum.lasts(second.to_ns, &cover);
            }
        }
    }

    pub(super) fn end(&mut self, phase: &Phase, to_ns: u64, names: &[String]) {
        for (selector, sum) in &mut self.sums {
            if let Some(cover) = together(selector, phase, names) {
                sum.end(to_ns, &cover);
            }
        }
    }

    fn sum<'a>(&'a self, sum_index: SumIndex, operations: &'a [Sum]) -> Option<&'a Sum> {
        match sum_index {
            SumIndex::Integrity => None,
            SumIndex::Operation(index) => operations.get(index),
            SumIndex::Several(index) => self.sums.get(index).map(|(_, sum)| sum),
        }
    }

    /// The checks of the answers to all operations of a sum. Answers are checked for a whole operation,
    /// whichever load sent it.
    fn checks(&self, sum_index: SumIndex, checked: &[Option<Checks>]) -> Option<Checks> {
        let of = |operation: &usize| checked.get(*operation).copied().flatten();
        let add = |a: Checks, b: Checks| Checks { passed: a.passed + b.passed, failed: a.failed + b.failed };
        match sum_index {
            SumIndex::Integrity => None,
            SumIndex::Operation(index) => of(&index),
            SumIndex::Several(index) => self.members[index].iter().filter_map(of).reduce(add),
        }
    }

    pub(super) fn broken(&mut self, operations: &[Sum], load_ns: u64) -> Option<String> {
        if !self.armed || load_ns < self.checked_ns + EVERY_NS {
            return None;
        }
        self.checked_ns = load_ns;
        self.wanted.iter().find_map(|(wanted, sum_index)| {
            let (after, sum) = wanted.abort_after.zip(self.sum(*sum_index, operations))?;
            let under_load_ns = sum.under_load_ns();
            let is_due = under_load_ns > after.as_ns();
            let value = wanted.broken(&sum.measured()).filter(|_| is_due)?;
            let value = match value {
                infinite if infinite.is_infinite() => "it lies among the failed operations".to_owned(),
                count if wanted.counts() => count.to_string(),
                ns => format!("{:.2} ms", ns / 1e6),
            };
            let (metric, expression) = (&wanted.typed, &wanted.expression);
            Some(format!("{metric} {expression} did not hold: {value} after {:.0} s", seconds(under_load_ns)))
        })
    }

    pub(super) fn judge(
        &self,
        operations: &[Sum],
        checked: &[Option<Checks>],
        integrity: Option<&Integrity>,
        only_integrity: bool,
    ) -> Vec<Expectation> {
        let applicable = self
            .wanted
            .iter()
            .filter(|(_, sum_index)| !only_integrity || matches!(sum_index, SumIndex::Integrity));
        let judged = applicable.map(|(wanted, sum_index)| {
            let checks = self.checks(*sum_index, checked);
            let measured = self.sum(*sum_index, operations).map(|sum| Operation { checks, ..sum.measured() });
            wanted.judge(measured.as_ref(), integrity)
        });
        judged.collect()
    }

    /// Counts the errors of a load's operations that no expectation bounds.
    fn note_unexpected(&mut self, phase: &Phase, second: &Second, names: &[String]) {
        for (index, load) in phase.loads.iter().enumerate() {
            for (operation, _) in &load.mix {
                let Some(tally) = second.of(index, *operation) else { continue };
                let subject = load.subject(&phase.name, names, *operation);
                // A batch may hold documents of several classes, and each needs its own expectation.
                for (class, count) in tally.errors.errors().chain(tally.further_errors.errors()) {
                    // A request given up when the load ends is not a finding: the scenario asks for that end.
                    let given_up = if class == Doubt::Timeout.name() { tally.given_up } else { 0 };
                    let count = count.saturating_sub(given_up);
                    if count > 0 && !self.wanted.iter().any(|(wanted, _)| wanted.allows(class, &subject)) {
                        *self.unexpected.entry((*operation, class)).or_default() += count;
                    }
                }
            }
        }
    }

    /// The default expectations that did not hold: operations failed, and no expectation bounds their errors.
    pub(super) fn unexpected_errors(&self, names: &[String]) -> Vec<Expectation> {
        let failed = self.unexpected.iter().filter_map(|((index, class), count)| {
            Some(expectation::unexpected_errors(names.get(*index)?, class, *count))
        });
        failed.collect()
    }
}

/// The time range of the loads that a selection matches; none if a phase has no such load.
fn together(selector: &Selector, phase: &Phase, names: &[String]) -> Option<Cover> {
    let matching = phase.loads.iter().filter(|load| {
        load.mix.iter().any(|(operation, _)| selector.matches(&load.subject(&phase.name, names, *operation)))
    });
    matching.map(|load| Cover::of(load, phase)).reduce(Cover::and)
}
