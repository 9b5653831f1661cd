//! Adds up the seconds of a phase: those of all workers of a process, and those of all shards of a run.

use std::collections::BTreeMap;

use plimsoll_measure::first_error::OperationError;
use plimsoll_measure::interval::Tally;
use serde::{Deserialize, Serialize};

use crate::due_second::DueSecond;
use crate::phase::Load;
use crate::worker::{Part, Slice, TENTH_NS, Tenth};

/// The entry in `silent_ns` for a worker that has ended: it no longer asks the server.
const NOT_REPORTED: u64 = u64::MAX;

/// One second of all workers together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Nanoseconds from the phase's start to the second's start.
    pub from_ns: u64,
    /// Nanoseconds from the phase's start to its end; the last second of a phase may be shorter.
    pub to_ns: u64,
    /// The tally of each operation, by its index.
    pub tallies: Vec<Tally>,
    /// Tallies by load, for operations that several loads send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The same time in tenths.
    pub tenths: Vec<Tenth>,
    /// CPU of each worker, in nanoseconds.
    pub cpu_ns: Vec<u64>,
    /// The number of times that the operating system switched the workers' threads away from their cores.
    pub switches: Option<u64>,
    /// Reconnects.
    pub reconnects: u64,
    /// The time since the server last answered each worker, in nanoseconds; 0 if it answered the last request.
    #[serde(default)]
    pub silent_ns: Vec<u64>,
    /// The first error of each operation and class that a worker met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_errors: Vec<OperationError>,
    /// Counts by due second, of any earlier second of the phase; only in a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due_seconds: Vec<DueSecond>,
}

/// A tenth of a second of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TenthLine {
    /// Tenths of a second since the phase's start.
    pub index: u64,
    /// Operations that succeeded.
    pub count: u64,
    /// Documents acknowledged.
    pub documents: u64,
    /// 99th percentile of their response time in nanoseconds, to two digits.
    pub p99_ns: u64,
    /// The end of the first of them, in nanoseconds from the phase's start.
    pub first_ok_ns: Option<u64>,
    /// The end of the last of them.
    pub last_ok_ns: Option<u64>,
    /// The end of the first failed operation.
    pub first_failed_ns: Option<u64>,
}

/// Adds up the seconds of several parts of a load: the workers of a process, or the shards of a run with
/// several workers each. A second is complete when every part has delivered it.
///
/// Parts are independent: each has its share of the schedule, its connections and its histograms. So the
/// result does not depend on whether workers are added up at once, or first by shard and then together.
#[derive(Debug, Default)]
pub struct Collector {
    seconds: BTreeMap<u64, Second>,
    parts: Vec<PartProgress>,
    workers: usize,
    next: u64,
    tenths: BTreeMap<u64, Tenth>,
    to_ns: u64,
}

/// The progress of one part.
#[derive(Clone, Copy, Debug)]
struct PartProgress {
    /// The index of the part's first worker.
    first: usize,
    seconds: u64,
    ended: bool,
}

impl Collector {
    /// A collector for the slices of `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self::of(&vec![1; workers])
    }

    /// A collector for the seconds of shards with this many workers each.
    pub fn of(workers: &[usize]) -> Self {
        let mut all = 0;
        let parts = workers.iter().map(|workers| {
            let first = all;
            all += workers;
            PartProgress { first, seconds: 0, ended: false }
        });
        let parts = parts.collect();
        Self { parts, workers: all, ..Self::default() }
    }

    /// Adds the next second of a part. A phase's last partial tenth must arrive with its last second, because
    /// complete seconds are passed on.
    pub fn add(&mut self, part: usize, second: impl Into<Second>) {
        let mut second = second.into();
        for tenth in std::mem::take(&mut second.tenths) {
            match self.tenths.get_mut(&tenth.index) {
                Some(sum) => sum.merge(&tenth),
                None => drop(self.tenths.insert(tenth.index, tenth)),
            }
        }
        if second.is_rest() {
            return;
        }
        let PartProgress { first, seconds, .. } = &mut self.parts[part];
        let index = *seconds;
        *seconds += 1;
        self.seconds.entry(index).or_default().merge(*first, self.workers, second);
    }

    /// Ends a part, which delivers no further second.
    pub fn end(&mut self, part: usize) {
        self.parts[part].ended = true;
    }

    /// The next second that every part has delivered.
    pub fn complete(&mut self) -> Option<Second> {
        let is_whole = self.parts.iter().all(|part| part.ended || part.seconds > self.next);
        if is_whole { self.take_next() } else { None }
    }

    /// The remaining seconds once every part has ended, perhaps a second apart. Leftover tenths are returned in a last second
    /// of length zero.
    pub fn finish(mut self) -> Vec<Second> {
        let mut rest = Vec::new();
        while !self.seconds.is_empty() {
            rest.extend(self.take_next());
        }
        if !self.tenths.is_empty() {
            let tenths = self.tenths.into_values().collect();
            rest.push(Second { from_ns: self.to_ns, to_ns: self.to_ns, tenths, ..Second::default() });
        }
        rest
    }

    fn take_next(&mut self) -> Option<Second> {
        let mut second = self.seconds.remove(&self.next)?;
        self.next += 1;
        self.to_ns = second.to_ns;
        // The next second may still add to an unfinished tenth.
        while let Some(entry) = self.tenths.first_entry().filter(|it| *it.key() < second.to_ns / TENTH_NS) {
            second.tenths.push(entry.remove());
        }
        Some(second)
    }
}

impl From<Slice> for Second {
    fn from(slice: Slice) -> Self {
        Self {
            from_ns: slice.from_ns,
            to_ns: slice.to_ns,
            tallies: slice.tallies,
            parts: slice.parts,
            tenths: slice.tenths,
            cpu_ns: vec![slice.cpu_ns],
            switches: slice.switches,
            reconnects: slice.reconnects,
            silent_ns: vec![slice.silent_ns],
            first_errors: slice.first_errors,
            due_seconds: slice.due_seconds,
        }
    }
}

impl Second {
    /// Adds the same second of another part, whose first worker is `first` among `workers`.
    fn merge(&mut self, first: usize, workers: usize, part: Self) {
        self.from_ns = part.from_ns;
        self.to_ns = self.to_ns.max(part.to_ns);
        self.reconnects += part.reconnects;
        self.cpu_ns.resize(workers, 0);
        self.cpu_ns[first..].iter_mut().zip(&part.cpu_ns).for_each(|(sum, part)| *sum += part);
        self.silent_ns.resize(workers, NOT_REPORTED);
        self.silent_ns[first..].iter_mut().zip(&part.silent_ns).for_each(|(sum, part)| *sum = *part);
        self.switches = added(self.switches, part.switches);
        self.first_errors.extend(part.first_errors);
        self.due_seconds.extend(part.due_seconds);
        self.tallies.resize_with(part.tallies.len(), Tally::default);
        self.tallies.iter_mut().zip(&part.tallies).for_each(|(sum, part)| sum.merge(part));
        if self.parts.is_empty() {
            self.parts = part.parts;
        } else {
            // Every worker has the same loads, so their parts have the same order.
            self.parts.iter_mut().zip(&part.parts).for_each(|(sum, part)| sum.tally.merge(&part.tally));
        }
    }

    /// The time for which no worker has had an answer, in nanoseconds.
    pub fn unreachable_ns(&self) -> u64 {
        self.silent_ns.iter().copied().filter(|ns| *ns != NOT_REPORTED).min().unwrap_or(0)
    }

    /// Whether it holds only the last tenth of a phase, and not a full second.
    pub fn is_rest(&self) -> bool {
        self.tallies.is_empty() && self.from_ns == self.to_ns
    }

    /// An operation's tally for one load of the phase; none without a count.
    pub fn of(&self, load: usize, operation: usize) -> Option<&Tally> {
        let apart = self.parts.iter().find(|part| (part.load, part.operation) == (load, operation));
        apart.map(|part| &part.tally).or_else(|| self.tallies.get(operation))
    }

    /// Restricts the second to one load of the phase, with all of its operations together.
    #[must_use]
    pub fn only(&self, index: usize, load: &Load) -> Self {
        let mut sum = Tally::default();
        let operations = load.mix.iter().filter_map(|(operation, _)| self.of(index, *operation));
        operations.for_each(|tally| sum.merge(tally));
        Self {
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            tallies: vec![sum],
            cpu_ns: self.cpu_ns.clone(),
            switches: self.switches,
            reconnects: self.reconnects,
            ..Self::default()
        }
    }
}

/// The earlier of two known moments.
fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// The sum of two known counts.
fn added(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0)))
}

impl Tenth {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.documents += other.documents;
        self.response.merge(&other.response);
        self.first_ok_ns = earlier(self.first_ok_ns, other.first_ok_ns);
        self.last_ok_ns = self.last_ok_ns.max(other.last_ok_ns);
        self.first_failed_ns = earlier(self.first_failed_ns, other.first_failed_ns);
    }

    /// The values that are kept to the end of a phase.
    pub(crate) fn line(&self) -> TenthLine {
        TenthLine {
            index: self.index,
            count: self.count,
            documents: self.documents,
            p99_ns: self.response.at(99.0),
            first_ok_ns: self.first_ok_ns,
            last_ok_ns: self.last_ok_ns,
            first_failed_ns: self.first_failed_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(from_ns: u64, to_ns: u64, due: u64) -> Second {
        let tally = Tally { due, ..Tally::default() };
        Second { from_ns, to_ns, tallies: vec![tally], cpu_ns: vec![due], ..Second::default() }
    }

    #[test]
    fn a_second_is_unreachable_for_the_shortest_silence_of_its_workers() {
        let mut sum = Second::default();
        for (worker, silent_ns) in [(1, 5), (0, 9)] {
            sum.merge(worker, 2, Second { silent_ns: vec![silent_ns], cpu_ns: vec![0], ..Second::default() });
        }
        assert_eq!((sum.silent_ns.as_slice(), sum.unreachable_ns()), (&[9, 5][..], 5));
        assert_eq!(Second::default().unreachable_ns(), 0);
        let mut one_ended = Second::default();
        one_ended.merge(1, 2, Second { silent_ns: vec![7], cpu_ns: vec![0], ..Second::default() });
        assert_eq!(one_ended.unreachable_ns(), 7);
    }

    #[test]
    fn a_second_is_complete_when_every_running_part_has_delivered_it() {
        let mut collector = Collector::of(&[1, 1]);
        collector.add(0, second(0, 10, 1));
        assert_eq!(collector.complete(), None);
        collector.add(1, second(0, 10, 2));
        let whole = collector.complete().unwrap();
        assert_eq!((whole.tallies[0].due, &whole.cpu_ns[..]), (3, &[1, 2][..]));
        collector.add(1, second(10, 20, 4));
        assert_eq!(collector.complete(), None);
        collector.end(0);
        assert_eq!(collector.complete().map(|it| (it.tallies[0].due, it.cpu_ns)), Some((4, vec![0, 4])));
        assert_eq!(collector.finish(), []);
    }

    #[test]
    fn the_leftover_tenths_of_one_shard_are_not_a_second_of_another() {
        let mut collector = Collector::of(&[1, 1]);
        collector.add(0, second(0, 10, 1));
        collector.add(0, Second { from_ns: 10, to_ns: 10, ..Second::default() });
        collector.end(0);
        collector.add(1, second(0, 10, 1));
        collector.add(1, second(10, 20, 5));
        let due: Vec<_> = collector.finish().iter().map(|it| (it.from_ns, it.tallies[0].due)).collect();
        assert_eq!(due, [(0, 2), (10, 5)]);
    }
}
