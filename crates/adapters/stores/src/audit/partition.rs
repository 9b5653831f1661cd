//! Compares one partition with the source, with one bit per event.

use std::ops::Range;

use plimsoll_measure::stream::checksum;

use super::report::{Checksums, EXAMPLES_MAX, PartitionReport, Run};

/// Maximum offsets in one partition; they take 1 GiB of memory.
const OFFSETS_MAX: u64 = 8 << 30;

/// The events of one partition in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The topic.
    pub topic: String,
    /// The topic's number ([`crate::topics`]).
    pub number: u32,
    /// The partition.
    pub partition: u32,
    /// The range of offsets.
    pub offsets: Range<u64>,
    /// Offsets in the range that the source does not have: markers of transactions, compacted records, filtered events.
    pub holes: Vec<Range<u64>>,
    /// The sum of [`checksum`] over all payloads, if known.
    pub checksum: Option<u64>,
}

/// The payload of a found document.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Its bytes, in pieces.
    Pieces(&'a [&'a [u8]]),
    /// A tombstone.
    Null,
    /// A payload that cannot be read.
    Unreadable,
    /// Not read, because no checksum is needed.
    Unread,
}

/// The state of one partition.
#[derive(Debug)]
pub struct Partition {
    expected: Expected,
    /// One bit per offset, from the first expected one.
    seen: Vec<u64>,
    report: PartitionReport,
    sum: u64,
}

/// A partition with too many offsets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{topic}/{partition} has {offsets} offsets, and at most 8,589,934,592 can be audited at once: audit it in ranges"
)]
pub struct TooLong {
    topic: String,
    partition: u32,
    offsets: u64,
}

impl Partition {
    /// Creates a partition without findings.
    ///
    /// # Errors
    /// [`TooLong`] if it has too many offsets.
    pub fn new(expected: Expected) -> Result<Self, TooLong> {
        let offsets = expected.offsets.end.saturating_sub(expected.offsets.start);
        if offsets > OFFSETS_MAX {
            return Err(TooLong { topic: expected.topic, partition: expected.partition, offsets });
        }
        let seen = vec![0; usize::try_from(offsets.div_ceil(64)).unwrap_or(usize::MAX)];
        let (topic, partition) = (expected.topic.clone(), expected.partition);
        Ok(Self {
            expected,
            seen,
            report: PartitionReport { topic, partition, ..PartitionReport::default() },
            sum: 0,
        })
    }

    /// Whether payloads are needed.
    pub fn wants_payload(&self) -> bool {
        self.expected.checksum.is_some()
    }

    /// Adds one document.
    pub fn see(&mut self, offset: u64, payload: Payload<'_>) {
        let report = &mut self.report;
        report.min = Some(report.min.map_or(offset, |min| min.min(offset)));
        report.max = Some(report.max.map_or(offset, |max| max.max(offset)));
        let is_hole = self.expected.holes.iter().any(|hole| hole.contains(&offset));
        if is_hole || !self.expected.offsets.contains(&offset) {
            report.strangers += 1;
            example(&mut report.stranger_examples, offset);
            return;
        }
        let place = offset - self.expected.offsets.start;
        let (word, bit) = ((place / 64) as usize, 1 << (place % 64));
        if self.seen[word] & bit != 0 {
            report.duplicates += 1;
            example(&mut report.duplicate_examples, offset);
            return;
        }
        self.seen[word] |= bit;
        report.found += 1;
        match payload {
            Payload::Pieces(pieces) => {
                self.sum = self.sum.wrapping_add(checksum(offset, Some(pieces.iter().copied())));
            }
            Payload::Null => self.sum = self.sum.wrapping_add(checksum(offset, None::<[&[u8]; 0]>)),
            Payload::Unreadable => report.unreadable += 1,
            Payload::Unread => {}
        }
    }

    /// The report of found and missing offsets.
    pub fn finish(mut self) -> PartitionReport {
        self.fill_holes();
        let all = self.expected.offsets.clone();
        let mut gap: Option<Run> = None;
        for offset in all.clone() {
            let place = offset - all.start;
            let word = self.seen[(place / 64) as usize];
            if word & (1 << (place % 64)) != 0 {
                self.close(gap.take());
            } else {
                self.report.missing += 1;
                gap = Some(Run { first: gap.map_or(offset, |gap| gap.first), last: offset });
            }
        }
        self.close(gap);
        self.report.expected = self.report.found + self.report.missing;
        self.report.checksum = self.expected.checksum.map(|expected| Checksums { expected, found: self.sum });
        self.report
    }

    /// Marks offsets that the source does not have, so that they are not missing.
    fn fill_holes(&mut self) {
        let all = self.expected.offsets.clone();
        for hole in std::mem::take(&mut self.expected.holes) {
            for offset in hole.start.max(all.start)..hole.end.min(all.end) {
                let place = offset - all.start;
                self.seen[(place / 64) as usize] |= 1 << (place % 64);
            }
        }
    }

    fn close(&mut self, gap: Option<Run>) {
        match gap {
            Some(gap) if self.report.gaps.len() < EXAMPLES_MAX => self.report.gaps.push(gap),
            Some(_) => self.report.gaps_left_out += 1,
            None => {}
        }
    }
}

fn example(examples: &mut Vec<u64>, offset: u64) {
    if examples.len() < EXAMPLES_MAX {
        examples.push(offset);
    }
}
