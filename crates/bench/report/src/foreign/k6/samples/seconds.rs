//! Builds every second of a test from samples that arrive nearly in order.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_measure::histogram::Histogram;

use crate::foreign::value::{Second, SecondLine};

/// The number of seconds that wait for late samples. k6 writes its samples every 200 ms.
const OPEN_MAX: usize = 5;
/// The maximum number of lines over all seconds and operations: a day of one operation.
const LINES_MAX: usize = 86_400;

/// The seconds of a test.
#[derive(Debug)]
pub(super) struct Seconds {
    lines_max: usize,
    closed: BTreeMap<u64, BTreeMap<String, SecondLine>>,
    lines: usize,
    open: VecDeque<(u64, BTreeMap<String, Counts>)>,
    /// The number of samples that came after their second was closed.
    pub late: u64,
    /// Whether lines exceeded the limit.
    pub cut: bool,
}

impl Default for Seconds {
    fn default() -> Self {
        Self::of_at_most(LINES_MAX)
    }
}

#[derive(Debug, Default)]
struct Counts {
    failed: u64,
    max_ns: u64,
    times: Histogram,
}

impl Seconds {
    fn of_at_most(lines_max: usize) -> Self {
        let (closed, open) = (BTreeMap::new(), VecDeque::new());
        Self { lines_max, closed, lines: 0, open, late: 0, cut: false }
    }

    /// Counts an operation that ended in `second`.
    pub(super) fn record(&mut self, second: u64, operation: &str, ns: u64, failed: bool) {
        if self.open.front().is_some_and(|(first, _)| second < *first) && !self.is_open(second) {
            self.record_late(second, operation, ns, failed);
            return;
        }
        let at = self.open.iter().position(|(known, _)| *known >= second).unwrap_or(self.open.len());
        if self.open.get(at).is_none_or(|(known, _)| *known != second) {
            self.open.insert(at, (second, BTreeMap::new()));
        }
        if let Some((_, operations)) = self.open.get_mut(at) {
            if !operations.contains_key(operation) {
                operations.insert(operation.to_owned(), Counts::default());
            }
            if let Some(counts) = operations.get_mut(operation) {
                counts.failed += u64::from(failed);
                counts.max_ns = counts.max_ns.max(ns);
                counts.times.record(ns);
            }
        }
        while self.open.len() > OPEN_MAX {
            self.close_first();
        }
    }

    /// Whether `second`, which lies before all open seconds, may still be opened: no later second was closed.
    fn is_open(&self, second: u64) -> bool {
        self.open.len() < OPEN_MAX && self.closed.keys().next_back().is_none_or(|last| second > *last)
    }

    /// Adds a sample that came after its second was closed: to the counts and the maximum, because the
    /// percentiles are computed already.
    fn record_late(&mut self, second: u64, operation: &str, ns: u64, failed: bool) {
        self.late += 1;
        if let Some(line) = self.closed.get_mut(&second).and_then(|it| it.get_mut(operation)) {
            line.count += 1;
            line.failed += u64::from(failed);
            line.max_ns = line.max_ns.max(ns);
        }
    }

    fn close_first(&mut self) {
        let Some((second, operations)) = self.open.pop_front() else { return };
        if self.cut || self.lines + operations.len() > self.lines_max {
            self.cut = true;
            return;
        }
        self.lines += operations.len();
        let lines = operations.into_iter().map(|(name, counts)| (name, counts.line()));
        self.closed.insert(second, lines.collect());
    }

    /// All seconds, in order. The returned `Self` holds only the counters.
    pub(super) fn into_list(mut self) -> (Vec<Second>, Self) {
        while !self.open.is_empty() {
            self.close_first();
        }
        let closed = std::mem::take(&mut self.closed);
        let second = |(from_s, operations)| Second { from_s, operations };
        (closed.into_iter().map(second).collect(), self)
    }
}

impl Counts {
    fn line(&self) -> SecondLine {
        SecondLine {
            count: self.times.count(),
            failed: self.failed,
            p50_ns: self.times.at(50.0).min(self.max_ns),
            p99_ns: self.times.at(99.0).min(self.max_ns),
            max_ns: self.max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_out_of_order_find_their_second_and_very_late_ones_are_counted() {
        let mut seconds = Seconds::default();
        for second in [1, 0, 2, 1, 3, 4, 5, 6, 0] {
            seconds.record(second, "a", 1000, second == 1);
        }
        let (list, seconds) = seconds.into_list();
        let counts: Vec<_> =
            list.iter().map(|it| (it.from_s, it.operations["a"].count, it.operations["a"].failed)).collect();
        assert_eq!(counts, [(0, 2, 0), (1, 2, 2), (2, 1, 0), (3, 1, 0), (4, 1, 0), (5, 1, 0), (6, 1, 0)]);
        assert_eq!((seconds.late, seconds.cut), (1, false));
    }

    #[test]
    fn seconds_beyond_the_limit_are_cut_with_a_note() {
        let mut seconds = Seconds::of_at_most(3);
        (0..10).for_each(|second| seconds.record(second, "a", 1, false));
        let (list, seconds) = seconds.into_list();
        assert_eq!((list.len(), list[2].from_s, seconds.cut), (3, 2, true));
    }
}
