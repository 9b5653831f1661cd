//! Keeps the ledger of a producer: the records that the broker acknowledged.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use plimsoll_measure::stream::{Produced, checksum};
use rdkafka::message::{BorrowedMessage, Message};

/// The acknowledged records of a topic since the last call of [`Acknowledged::take`]. All workers of a sink share it.
#[derive(Debug, Default)]
pub struct Acknowledged(Mutex<BTreeMap<u32, Vec<Produced>>>);

impl Acknowledged {
    /// Adds an acknowledged record.
    pub(crate) fn add(&self, message: &BorrowedMessage<'_>) {
        let Ok(offset) = u64::try_from(message.offset()) else { return };
        let checksum = checksum(offset, message.payload().map(|payload| [payload]));
        let partition = message.partition().unsigned_abs();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = all.entry(partition).or_default();
        match ranges.last_mut() {
            Some(last) if last.last + 1 == offset => {
                last.last = offset;
                last.checksum = last.checksum.wrapping_add(checksum);
            }
            _ => {
                let topic = message.topic().to_owned();
                ranges.push(Produced { topic, partition, first: offset, last: offset, checksum });
            }
        }
    }

    /// Takes the ranges of acknowledged records, by partition and offset.
    pub fn take(&self) -> Vec<Produced> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_values().flat_map(joined).collect()
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
    fn ranges_of_several_workers_are_joined() {
        let range = |first, last| Produced { topic: "t".into(), partition: 0, first, last, checksum: 1 };
        let all = joined(vec![range(5, 9), range(0, 4), range(20, 21), range(10, 12)]);
        assert_eq!(all, [Produced { checksum: 3, ..range(0, 12) }, range(20, 21)]);
    }
}
