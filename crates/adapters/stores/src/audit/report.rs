//! Represents the result of an audit.

use serde::{Deserialize, Serialize};

/// The version of the file form.
pub const FORMAT: u32 = 1;
/// The largest number of examples of gaps, duplicates and strangers per partition. Others are only counted.
pub const EXAMPLES_MAX: usize = 100;

/// Represents the result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The version of this form: 1.
    pub format: u32,
    /// Documents or records read, including dead letters.
    pub documents: u64,
    /// Documents that are not identified by topic, partition and offset.
    pub foreign: u64,
    /// Documents of unexpected topics and partitions; records that are not events of the source.
    pub unexpected: u64,
    /// All expected partitions.
    pub partitions: Vec<PartitionReport>,
    /// The acknowledged records of each partition, if the audit had the ledger of their producer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broker: Vec<BrokerReport>,
}

/// The records of one partition that the broker acknowledged to their producer, compared with the topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerReport {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Acknowledged records.
    pub acknowledged: u64,
    /// Acknowledged records whose offset has no record.
    pub lost: u64,
    /// The first ranges of their offsets.
    pub gaps: Vec<Run>,
    /// The number of further ranges.
    pub gaps_left_out: u64,
    /// The first ranges of acknowledged offsets that have other records than the acknowledged ones.
    pub replaced: Vec<Run>,
    /// The number of further ranges.
    pub replaced_left_out: u64,
}

impl BrokerReport {
    /// Whether the topic has every acknowledged record.
    pub const fn holds(&self) -> bool {
        self.lost == 0 && self.replaced.is_empty()
    }
}

/// A range of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The first offset.
    pub first: u64,
    /// The last offset.
    pub last: u64,
}

/// The result for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionReport {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Events that should exist.
    pub expected: u64,
    /// Expected events that exist, each counted once.
    pub found: u64,
    /// The lowest offset among all documents of the partition, also those that the source does not have.
    /// `None` without documents.
    pub min: Option<u64>,
    /// The highest offset among all documents of the partition, also those that the source does not have.
    /// `None` without documents.
    pub max: Option<u64>,
    /// Missing events.
    pub missing: u64,
    /// The first ranges of missing offsets.
    pub gaps: Vec<Run>,
    /// The number of further ranges of missing offsets.
    pub gaps_left_out: u64,
    /// Copies beyond the first.
    pub duplicates: u64,
    /// Examples of their offsets.
    pub duplicate_examples: Vec<u64>,
    /// Documents with offsets that the source does not have.
    pub strangers: u64,
    /// Examples of their offsets.
    pub stranger_examples: Vec<u64>,
    /// Documents whose payload could not be read for the checksum.
    pub unreadable: u64,
    /// The checksums of the payloads, if one was expected.
    pub checksum: Option<Checksums>,
}

/// The checksums of the payloads in source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checksums {
    /// The checksum of the source.
    pub expected: u64,
    /// The checksum of the destination, over one copy of each event.
    pub found: u64,
}

/// The kinds of deviation that an audit can find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// Events are missing.
    Lost,
    /// Events exist more than once.
    Doubled,
    /// Documents without an event of the source.
    Strange,
    /// Payloads have changed.
    Altered,
}

impl PartitionReport {
    /// The deviations.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        let altered = self.unreadable > 0 || self.checksum.is_some_and(|sums| sums.expected != sums.found);
        let said = [
            (self.missing > 0, Mismatch::Lost),
            (self.duplicates > 0, Mismatch::Doubled),
            (self.strangers > 0, Mismatch::Strange),
            // With missing events the checksum has no meaning.
            (altered && self.missing == 0, Mismatch::Altered),
        ];
        said.into_iter().filter_map(|(holds, mismatch)| holds.then_some(mismatch)).collect()
    }
}

impl Report {
    /// Whether the broker kept every acknowledged record, and every event of the source exists once and unchanged. Documents
    /// without an identity are ignored.
    pub fn holds(&self) -> bool {
        self.destination_holds() && self.broker_holds()
    }

    /// Whether every event that the source has exists once and unchanged.
    pub fn destination_holds(&self) -> bool {
        self.unexpected == 0 && self.partitions.iter().all(|partition| partition.mismatches().is_empty())
    }

    /// Whether the broker kept every record of the ledger, if the audit had a ledger.
    pub fn broker_holds(&self) -> bool {
        self.broker.iter().all(BrokerReport::holds)
    }

    /// Acknowledged records that the broker no longer has at their offsets.
    pub fn lost_by_broker(&self) -> u64 {
        self.broker.iter().map(|partition| partition.lost).sum()
    }

    /// The number of missing events.
    pub fn lost(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.missing).sum()
    }

    /// Copies beyond the first.
    pub fn doubled(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.duplicates).sum()
    }
}
