//! Checks that the broker kept every acknowledged record of a topic, by the ledger of the producer.

use std::collections::BTreeMap;

use plimsoll_measure::stream::Produced;

use super::report::{BrokerReport, EXAMPLES_MAX, Run};

/// A fold over the records of a topic, partition by partition in the order of their offsets.
#[derive(Debug, Default)]
pub struct Kept(BTreeMap<u32, Vec<Range>>);

/// A range of the ledger, and the records found in it.
#[derive(Debug)]
struct Range {
    ledger: Produced,
    /// The largest last offset of this range and those before it.
    reach: u64,
    /// The offset after the last record found.
    next: u64,
    sum: u64,
    /// The first gaps, at most `EXAMPLES_MAX`.
    gaps: Vec<Run>,
    gaps_left_out: u64,
    /// The number of missing records.
    lost: u64,
}

impl Kept {
    /// A fold for a ledger. Ranges may overlap: a broker that loses records reuses their offsets.
    pub fn new(mut ledger: Vec<Produced>) -> Self {
        ledger.sort_unstable_by_key(|range| (range.partition, range.first));
        let mut partitions: BTreeMap<u32, Vec<Range>> = BTreeMap::new();
        for ledger in ledger {
            let ranges = partitions.entry(ledger.partition).or_default();
            let reach = ranges.last().map_or(0, |before| before.reach).max(ledger.last);
            ranges.push(Range {
                reach,
                next: ledger.first,
                sum: 0,
                gaps: Vec::new(),
                gaps_left_out: 0,
                lost: 0,
                ledger,
            });
        }
        Self(partitions)
    }

    /// Adds a record of the topic, with its [`plimsoll_measure::stream::checksum`].
    pub fn see(&mut self, partition: u32, offset: u64, checksum: u64) {
        let Some(ranges) = self.0.get_mut(&partition) else { return };
        let behind = ranges.partition_point(|range| range.ledger.first <= offset);
        let near = ranges[..behind].iter_mut().rev().take_while(|range| range.reach >= offset);
        near.filter(|range| range.ledger.last >= offset).for_each(|range| range.see(offset, checksum));
    }

    /// The report of each partition of the ledger.
    pub fn finish(self) -> Vec<BrokerReport> {
        self.0.into_values().map(|ranges| ranges.into_iter().fold(BrokerReport::default(), add)).collect()
    }
}

impl Range {
    fn see(&mut self, offset: u64, checksum: u64) {
        self.close_gap(offset);
        self.next = offset + 1;
        self.sum = self.sum.wrapping_add(checksum);
    }

    /// Notes missing records before an offset.
    fn close_gap(&mut self, offset: u64) {
        if self.next < offset {
            let gap = Run { first: self.next, last: offset - 1 };
            self.lost += offset - self.next;
            note(&mut self.gaps, &mut self.gaps_left_out, [gap]);
        }
    }
}

/// Adds a range to the report of its partition.
fn add(mut report: BrokerReport, mut range: Range) -> BrokerReport {
    range.close_gap(range.ledger.last + 1);
    let Produced { first, last, checksum, .. } = range.ledger;
    report.acknowledged += range.ledger.records();
    // With missing records the checksum has no meaning.
    let is_replaced = range.lost == 0 && range.sum != checksum;
    report.lost += range.lost;
    report.gaps_left_out += range.gaps_left_out;
    note(&mut report.gaps, &mut report.gaps_left_out, range.gaps);
    note(&mut report.replaced, &mut report.replaced_left_out, is_replaced.then_some(Run { first, last }));
    (report.topic, report.partition) = (range.ledger.topic, range.ledger.partition);
    report
}

fn note(examples: &mut Vec<Run>, left_out: &mut u64, runs: impl IntoIterator<Item = Run>) {
    for run in runs {
        if examples.len() < EXAMPLES_MAX {
            examples.push(run);
        } else {
            *left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range whose records have the checksum 1 each.
    fn range(partition: u32, first: u64, last: u64) -> Produced {
        Produced { topic: "t".into(), partition, first, last, checksum: last - first + 1 }
    }

    fn found(ledger: &[Produced], records: impl IntoIterator<Item = (u64, u64)>) -> BrokerReport {
        let mut kept = Kept::new(ledger.to_vec());
        records.into_iter().for_each(|(offset, checksum)| kept.see(7, offset, checksum));
        kept.finish().remove(0)
    }

    fn runs(runs: &[Run]) -> Vec<(u64, u64)> {
        runs.iter().map(|run| (run.first, run.last)).collect()
    }

    #[test]
    fn a_topic_with_every_acknowledged_record_holds_also_with_others_between() {
        let ledger = [range(7, 20, 29), range(7, 0, 9)];
        let report = found(&ledger, (0..40).map(|offset| (offset, 1)));
        assert!(report.holds(), "{report:?}");
        assert_eq!((report.topic.as_str(), report.partition, report.acknowledged), ("t", 7, 20));
    }

    #[test]
    fn missing_records_are_counted_wherever_they_are() {
        let ledger = [range(7, 0, 9), range(7, 10, 19)];
        let report = found(&ledger, [3, 4, 8, 12, 13].map(|offset| (offset, 1)));
        assert_eq!((report.acknowledged, report.lost), (20, 15));
        assert_eq!(runs(&report.gaps), [(0, 2), (5, 7), (9, 9), (10, 11), (14, 19)]);
        let empty = found(&ledger, []);
        assert_eq!((empty.lost, runs(&empty.gaps)), (20, vec![(0, 9), (10, 19)]));
    }

    #[test]
    fn other_records_at_acknowledged_offsets_are_found() {
        let ledger = [range(7, 0, 9), range(7, 10, 19)];
        let report = found(&ledger, (0..20).map(|offset| (offset, if offset == 15 { 99 } else { 1 })));
        assert_eq!((report.lost, runs(&report.replaced), report.holds()), (0, vec![(10, 19)], false));
    }

    #[test]
    fn an_offset_that_was_acknowledged_twice_is_found() {
        // The second range repeats offsets of the first: its records have the checksum 5.
        let second = Produced { checksum: 15, ..range(7, 4, 6) };
        let records = (0..10).map(|offset| (offset, if (4..7).contains(&offset) { 5 } else { 1 }));
        let report = found(&[range(7, 0, 9), second], records);
        assert_eq!((report.acknowledged, runs(&report.replaced)), (13, vec![(0, 9)]));
    }

    #[test]
    fn more_examples_than_the_limit_are_counted() {
        let mut kept = Kept::new(vec![range(7, 0, 999)]);
        (0..500).for_each(|half| kept.see(7, 2 * half, 1));
        let report = kept.finish().remove(0);
        assert_eq!((report.lost, report.gaps.len(), report.gaps_left_out), (500, EXAMPLES_MAX, 400));
        let mut kept = Kept::new(vec![range(7, 0, 999)]);
        (0..500).for_each(|half| kept.see(7, 2 * half, 1));
        assert_eq!(kept.0[&7][0].gaps.len(), EXAMPLES_MAX, "the fold keeps no more either");
    }
}
