//! Adds up the measurements of operations, second by second.

use std::collections::BTreeMap;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::expectation;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::run::{Operation, SecondsSpread, WarmUp};

use super::Current;
use crate::phase::{Load, Phase};
use crate::second::Second;

/// The sums of one operation, or of several together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) whole: Tally,
    /// Time under load in the phases that have ended.
    load_ns: u64,
    /// Time under load in the current phase.
    current_ns: u64,
    /// In open loads, the completed operations that were due before the end of their load and had ended by then or
    /// were in flight, and all operations that were due before that end.
    in_time: u64,
    due: u64,
    /// Operations of the current phase that completed after the end of their load.
    late: u64,
    /// Operations of the current phase that are counted as due after the end of their load, because a waiting
    /// lane took them late.
    due_late: u64,
    open: bool,
    /// Documents in each full second.
    seconds: Vec<u64>,
    steady_documents: u64,
    steady_ns: u64,
    /// CPU of the workers, and operations, in phases with only this operation.
    alone_cpu_ns: u64,
    alone_count: u64,
}

/// The time range of some loads of a phase, in nanoseconds from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    from_ns: u64,
    /// The end of the last load; `u64::MAX` if a load ends with its phase.
    to_ns: u64,
    /// The time from which no operation is due; `u64::MAX` if time does not end a load.
    due_to_ns: u64,
    /// Whether one of the loads is open.
    open: bool,
    /// The connections of the loads: at most this many operations are in flight when the loads end.
    connections: u64,
}

impl Cover {
    /// The time range of one load.
    pub(super) fn of(load: &Load, phase: &Phase) -> Self {
        let own = load.timing.stop.duration.and(load.end(phase.stop));
        Self {
            from_ns: load.timing.start.as_ns(),
            to_ns: own.map_or(u64::MAX, |end| end.as_ns()),
            due_to_ns: load.end(phase.stop).map_or(u64::MAX, |end| end.as_ns()),
            open: load.arrivals.is_open(),
            connections: u64::from(load.arrivals.connections()),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            from_ns: self.from_ns.min(other.from_ns),
            to_ns: self.to_ns.max(other.to_ns),
            due_to_ns: self.due_to_ns.max(other.due_to_ns),
            open: self.open || other.open,
            connections: self.connections + other.connections,
        }
    }

    /// Each operation of a phase once, with the time range of its loads.
    pub(super) fn all(phase: &Phase) -> BTreeMap<usize, Self> {
        let mut all: BTreeMap<usize, Self> = BTreeMap::new();
        for load in &phase.loads {
            let cover = Self::of(load, phase);
            for (operation, _) in &load.mix {
                all.entry(*operation).and_modify(|known| *known = known.and(cover)).or_insert(cover);
            }
        }
        all
    }

    /// The time that the loads have run at `at_ns` of the phase.
    fn until_ns(&self, at_ns: u64) -> u64 {
        at_ns.min(self.to_ns).saturating_sub(self.from_ns)
    }

    fn holds(&self, from_ns: u64, to_ns: u64) -> bool {
        from_ns >= self.from_ns && to_ns <= self.to_ns
    }
}

impl Sum {
    /// Adds a part of one second.
    pub(super) fn add(&mut self, tally: &Tally, second: &Second, cover: &Cover) {
        self.whole.merge(tally);
        self.lasts(second.to_ns, cover);
        self.open |= cover.open;
        if second.to_ns <= cover.due_to_ns {
            self.in_time += tally.completed();
            self.due += tally.due;
        } else {
            self.late += tally.completed();
            self.due_late += tally.due;
        }
    }

    /// Records the elapsed part of the current phase.
    pub(super) fn lasts(&mut self, at_ns: u64, cover: &Cover) {
        self.current_ns = cover.until_ns(at_ns);
    }

    /// Ends a phase of this length.
    pub(super) fn end(&mut self, to_ns: u64, cover: &Cover) {
        self.load_ns += cover.until_ns(to_ns);
        self.current_ns = 0;
        self.open |= cover.open;
        // At most one late operation per connection was in flight at the end, so it was sent in time. The other late operations
        // were sent late, after a wait for a connection.
        self.in_time += std::mem::take(&mut self.late).min(cover.connections);
        self.due += std::mem::take(&mut self.due_late);
    }

    /// Adds the single seconds of a phase that has ended, for operation `index`.
    pub(super) fn spread(&mut self, current: &Current, index: usize, warm_up: &WarmUp, cover: &Cover) {
        let steady_from_ns = match warm_up {
            WarmUp::Steady { from_s } => (from_s * 1e9) as u64,
            _ => u64::MAX,
        };
        for second in &current.seconds {
            let (from_ns, to_ns) = (second.seen.from_ns, second.seen.to_ns);
            let documents = second.documents.get(index).copied().unwrap_or(0);
            if !cover.holds(from_ns, to_ns) {
                continue;
            }
            if to_ns - from_ns == SECOND_NS {
                self.seconds.push(documents);
            }
            if from_ns >= steady_from_ns {
                self.steady_documents += documents;
                self.steady_ns += to_ns - from_ns;
            }
        }
    }

    /// Ends a phase that had no other operation.
    pub(super) const fn alone(&mut self, cpu_ns: u64, count: u64) {
        self.alone_cpu_ns += cpu_ns;
        self.alone_count += count;
    }

    /// Time under load so far, in nanoseconds.
    pub(super) const fn under_load_ns(&self) -> u64 {
        self.load_ns + self.current_ns
    }

    fn under_load_s(&self) -> f64 {
        seconds(self.under_load_ns()).max(f64::MIN_POSITIVE)
    }

    /// The values for the judgement of expectations.
    pub(super) fn measured(&self) -> expectation::Operation<'_> {
        let (tally, seconds, achieved) = (&self.whole, self.under_load_s(), self.achieved());
        expectation::Operation { tally, seconds, achieved, checks: None }
    }

    fn achieved(&self) -> Option<f64> {
        (self.open && self.due > 0).then(|| self.in_time as f64 / self.due as f64)
    }

    /// The values for the summary of the run.
    pub(super) fn operation(&self) -> Operation {
        let whole = &self.whole;
        let under_load_s = self.under_load_s();
        let failed = whole.errors.total() + whole.skipped;
        Operation {
            count: whole.count,
            documents: whole.documents,
            due: whole.due,
            rate_per_s: whole.count as f64 / under_load_s,
            documents_per_s: whole.documents as f64 / under_load_s,
            steady_documents_per_s: (self.steady_ns >= SECOND_NS)
                .then(|| self.steady_documents as f64 / seconds(self.steady_ns)),
            documents_in_a_second: spread(&self.seconds),
            achieved: self.achieved(),
            skipped: whole.skipped,
            retries: whole.retries,
            response_ns: whole.response.latency(),
            response_with_failures_ns: (failed > 0).then(|| whole.response.latency_among(failed)),
            service_ns: whole.service.latency(),
            wake_ns: whole.wake.latency(),
            wait_ns: whole.wait.latency(),
            failed_response_ns: whole.failed_response.latency(),
            errors: named(whole.errors.by_class()),
            document_errors: named(whole.document_errors.by_class()),
            first_errors: BTreeMap::new(),
            bytes_sent: whole.bytes_sent,
            bytes_received: whole.bytes_received,
            cpu_us_per_operation: micros_per(self.alone_cpu_ns, self.alone_count),
        }
    }
}

/// Counts by class, by their names.
pub(super) fn named(classes: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    classes.map(|(name, count)| (name.to_owned(), count)).collect()
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

/// Microseconds for each of `count`; none for zero.
pub(super) fn micros_per(ns: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| ns as f64 / 1000.0 / count as f64)
}

/// Percentiles of single seconds by nearest rank.
fn spread(documents: &[u64]) -> Option<SecondsSpread> {
    let mut sorted = documents.to_vec();
    sorted.sort_unstable();
    let rank = |p: f64| sorted[((sorted.len() as f64 * p).ceil() as usize).clamp(1, sorted.len()) - 1] as f64;
    (!sorted.is_empty()).then(|| SecondsSpread {
        seconds: sorted.len() as u64,
        min: rank(0.0),
        p1: rank(0.01),
        p50: rank(0.5),
        max: rank(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_show_in_the_spread_of_seconds() {
        let mut seconds = vec![1000; 99];
        seconds.push(0);
        let spread = spread(&seconds).unwrap();
        assert_eq!(
            (spread.seconds, spread.min, spread.p1, spread.p50, spread.max),
            (100, 0.0, 0.0, 1000.0, 1000.0)
        );
    }
}
