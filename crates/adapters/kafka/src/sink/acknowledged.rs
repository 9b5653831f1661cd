//! Keeps the ledger of a producer: the records that the broker acknowledged.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use plimsoll_measure::stream::{Produced, checksum};
use rdkafka::message::{BorrowedMessage, Message};

/// The acknowledged records of a topic since the last call of [`Acknowledged::take`]. All workers of a sink share it.
#[derive(Debug, Default)]
pub struct Acknowledged(Mutex<Partitions>);

#[derive(Debug, Default)]
struct Partitions {
    ranges: BTreeMap<u32, Vec<Produced>>,
    /// For each partition, the offset after the last record of a batch without a valid base.
    invalid: BTreeMap<u32, i64>,
    without_offset: u64,
}

/// The acknowledged records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Their ranges, by partition and offset.
    pub ranges: Vec<Produced>,
    /// The number of records whose offset the broker did not report. They are in no range.
    pub without_offset: u64,
}

impl Acknowledged {
    /// Adds an acknowledged record.
    pub(crate) fn add(&self, message: &BorrowedMessage<'_>) {
        let partition = message.partition().unsigned_abs();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offset) = all.valid(partition, message.offset()) {
            let checksum = checksum(offset, message.payload().map(|payload| [payload]));
            all.add(message.topic(), partition, offset, checksum);
        }
    }

    /// Takes the acknowledged records.
    pub fn take(&self) -> Taken {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = std::mem::take(&mut all.ranges).into_values().flat_map(joined).collect();
        Taken { ranges, without_offset: std::mem::take(&mut all.without_offset) }
    }
}

impl Partitions {
    /// The offset, or `None` for a record of a batch without a valid base. The client derives later offsets
    /// from such a base, so a later record of the batch may have an offset that looks valid.
    fn valid(&mut self, partition: u32, offset: i64) -> Option<u64> {
        let is_invalid = offset < 0 || self.invalid.get(&partition) == Some(&offset);
        if is_invalid {
            self.without_offset += 1;
            self.invalid.insert(partition, offset + 1);
            return None;
        }
        u64::try_from(offset).ok()
    }

    fn add(&mut self, topic: &str, partition: u32, offset: u64, checksum: u64) {
        let ranges = self.ranges.entry(partition).or_default();
        match ranges.last_mut() {
            Some(last) if last.last + 1 == offset => {
                last.last = offset;
                last.checksum = last.checksum.wrapping_add(checksum);
            }
            _ => {
                let topic = topic.to_owned();
                ranges.push(Produced { topic, partition, first: offset, last: offset, checksum });
            }
        }
    }
}

/// Joins adjacent ranges of a partition: several workers may have written it in turns.
fn joined(mut ranges: Vec<Produced>) -> Vec<Produced> {
    ranges.sort_unstable_by_key(|range| range.first);
    let mut all: Vec<Produced> = Vec::new();
    for range in ranges {
        if !all.last_mut().is_some_and(|last| last.append(&range)) {
            all.push(range);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_without_a_valid_base_is_counted_and_in_no_range() {
        let mut all = Partitions::default();
        let offsets = [-2, -1, 0, 1, 40, 2, 41].map(|offset| all.valid(0, offset));
        assert_eq!(offsets, [None, None, None, None, Some(40), None, Some(41)]);
        assert_eq!((all.valid(1, 0), all.without_offset), (Some(0), 5));
    }

    #[test]
    fn ranges_of_several_workers_are_joined() {
        let range = |first, last| Produced { topic: "t".into(), partition: 0, first, last, checksum: 1 };
        let all = joined(vec![range(5, 9), range(0, 4), range(20, 21), range(10, 12)]);
        assert_eq!(all, [Produced { checksum: 3, ..range(0, 12) }, range(20, 21)]);
    }
}
