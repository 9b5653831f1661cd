//! What an audit of a destination found.

use serde::{Deserialize, Serialize};

/// The version of the file form.
pub const FORMAT: u32 = 1;
/// Gaps, duplicates and strangers that are named, of each partition; the others are counted.
pub const EXAMPLES_MAX: usize = 100;

/// What an audit of a destination found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The version of this form: 1.
    pub format: u32,
    /// Documents or records that were read, dead letters included.
    pub documents: u64,
    /// Documents that are not named by topic, partition and offset.
    pub foreign: u64,
    /// Documents of topics and partitions that nobody expected; records that are no event of the source.
    pub unexpected: u64,
    /// Every partition that was expected.
    pub partitions: Vec<PartitionReport>,
}

/// A run of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// What is there of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionReport {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Events that should be there.
    pub expected: u64,
    /// Of these, events that are there, each counted once.
    pub found: u64,
    /// The first offset that is there.
    pub min: Option<u64>,
    /// The last offset that is there.
    pub max: Option<u64>,
    /// Events that are not there.
    pub missing: u64,
    /// Where they are missing: the first runs of offsets.
    pub gaps: Vec<Run>,
    /// Runs of missing offsets that are not named.
    pub gaps_left_out: u64,
    /// Copies beyond the first.
    pub duplicates: u64,
    /// Offsets of some of them.
    pub duplicate_examples: Vec<u64>,
    /// Documents with offsets that the source does not have.
    pub strangers: u64,
    /// Offsets of some of them.
    pub stranger_examples: Vec<u64>,
    /// Documents whose payload could not be read back for the checksum.
    pub unreadable: u64,
    /// The sum over the payloads, where one was expected.
    pub checksum: Option<Checksums>,
}

/// What the source says of its payloads, and what the destination holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checksums {
    /// Of the source.
    pub expected: u64,
    /// Of the destination, over one copy of each event.
    pub found: u64,
}

/// What an audit can hold against a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// Events are missing.
    Lost,
    /// Events are there more than once.
    Doubled,
    /// Documents of no event of the source.
    Strange,
    /// Payloads are not what they were.
    Altered,
}

impl PartitionReport {
    /// What does not hold.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        let altered = self.unreadable > 0 || self.checksum.is_some_and(|sums| sums.expected != sums.found);
        let said = [
            (self.missing > 0, Mismatch::Lost),
            (self.duplicates > 0, Mismatch::Doubled),
            (self.strangers > 0, Mismatch::Strange),
            // The sum over what is there says nothing more where something is missing.
            (altered && self.missing == 0, Mismatch::Altered),
        ];
        said.into_iter().filter_map(|(holds, mismatch)| holds.then_some(mismatch)).collect()
    }
}

impl Report {
    /// Whether everything that the source has is there, once, and as it was. Documents that no pipeline named are left out of
    /// account.
    pub fn holds(&self) -> bool {
        self.unexpected == 0 && self.partitions.iter().all(|partition| partition.mismatches().is_empty())
    }

    /// Events that are missing.
    pub fn lost(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.missing).sum()
    }

    /// Copies beyond the first.
    pub fn doubled(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.duplicates).sum()
    }
}
