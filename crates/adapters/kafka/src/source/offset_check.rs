//! Checks that a topic still has the stored position. The position may lie past the end, because the topic
//! was recreated or its brokers lost records, or before the beginning, because retention removed unread
//! records.
//!
//! The client library would silently restart at another offset. Records would be missing, and a destination
//! that identifies records by their offsets would take new records for existing ones. So each partition is
//! checked before it is read and after a pause, and an offset lower than the one before ends the source. A recreated
//! topic that has grown past the old position cannot be detected.

use std::thread;
use std::time::Duration;

use plimsoll_pipeline::{Partition, SourceError};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

use super::member::Member;
use super::positions::number;
use crate::topic::Extent;

/// The time limit of one request. If no broker answers, the check is skipped: missing brokers do not cause a
/// refusal.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// The number of attempts, with pauses: a broker that has just restarted may not know its own end yet.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);
/// The remedy if the topic was recreated.
pub(super) const REMEDY: &str = "The offsets of a recreated topic start at zero, so give the pipeline another group, name and \
    destination: the existing ones would mistake its records for older ones";

/// Checks newly assigned partitions; those in `list` without an offset begin at the group's offset.
///
/// # Errors
/// The partition without its position, and the remedy.
pub(super) fn check(
    consumer: &BaseConsumer<Member>,
    group: &str,
    list: &TopicPartitionList,
) -> Result<(), SourceError> {
    let Ok(positions) = positions(consumer, list) else { return Ok(()) };
    check_positions(consumer, group, positions)
}

/// Checks that partitions have their positions.
///
/// # Errors
/// The first partition without its position, and the remedy.
pub(super) fn check_positions(
    consumer: &BaseConsumer<Member>,
    group: &str,
    positions: Vec<(Partition, u64)>,
) -> Result<(), SourceError> {
    for (partition, next) in positions {
        let mut judged = Ok(());
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let Ok(extent) = extent(consumer, &partition) else { return Ok(()) };
            judged = check_position(&partition, group, next, extent);
            // Removed records stay removed; a missing end may still appear.
            if judged.is_ok() || next < extent.begin {
                break;
            }
        }
        judged?;
    }
    Ok(())
}

fn extent(consumer: &BaseConsumer<Member>, partition: &Partition) -> KafkaResult<Extent> {
    let (begin, end) = consumer.fetch_watermarks(&partition.topic, number(partition), REQUEST_LIMIT)?;
    let [begin, end] = [begin, end].map(|offset| u64::try_from(offset).unwrap_or_default());
    Ok(Extent { partition: partition.index, begin, end })
}

/// Checks one position.
fn check_position(partition: &Partition, group: &str, next: u64, extent: Extent) -> Result<(), SourceError> {
    let Extent { begin, end, .. } = extent;
    let Partition { topic, index } = partition;
    let words = if next > end {
        format!(
            "{partition} was read up to offset {next}, and it ends at {end}: the topic was deleted and recreated, or its \
             brokers lost records. {REMEDY}"
        )
    } else if next < begin {
        let gone = begin - next;
        format!(
            "{partition} was read up to offset {next}, and it begins at {begin}: {gone} unread offsets are gone \
             (records, or only transaction markers), removed by the topic's retention or by hand. To continue without them, move \
             the group there (`kafka-consumer-groups --group {group} --topic {topic}:{index} --reset-offsets --to-offset {begin} \
             --execute`); if the destination stores the positions, give the pipeline another destination"
        )
    } else {
        return Ok(());
    };
    Err(SourceError::Failed(words))
}

/// The stored position of each partition, if it has one.
fn positions(
    consumer: &BaseConsumer<Member>,
    list: &TopicPartitionList,
) -> KafkaResult<Vec<(Partition, u64)>> {
    let mut unknown = TopicPartitionList::new();
    for one in list.elements().iter().filter(|one| stored_offset(one.offset()).is_none()) {
        unknown.add_partition(one.topic(), one.partition());
    }
    let mut all = known(list);
    if unknown.count() > 0 {
        all.extend(known(&consumer.committed_offsets(unknown, REQUEST_LIMIT)?));
    }
    Ok(all)
}

fn known(list: &TopicPartitionList) -> Vec<(Partition, u64)> {
    let known = |one: &TopicPartitionListElem<'_>| {
        Some((Partition::new(one.topic(), one.partition().unsigned_abs()), stored_offset(one.offset())?))
    };
    list.elements().iter().filter_map(known).collect()
}

fn stored_offset(offset: Offset) -> Option<u64> {
    match offset {
        Offset::Offset(next) => u64::try_from(next).ok(),
        _ => None,
    }
}

/// The error of an offset below `next` within one assignment.
pub(super) fn offset_went_back(partition: &Partition, next: u64, offset: u64) -> SourceError {
    SourceError::Failed(format!(
        "{partition} restarted: offset {offset} followed {next}. The topic was deleted and recreated during the read, or its \
         brokers lost records. {REMEDY}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stored_offsets_are_positions() {
        let mut list = TopicPartitionList::new();
        list.add_partition("t", 0);
        list.add_partition_offset("t", 1, Offset::Offset(7)).unwrap();
        list.add_partition_offset("t", 2, Offset::Beginning).unwrap();
        assert_eq!(known(&list), [(Partition::new("t", 1), 7)]);
    }

    #[test]
    fn a_position_lies_between_the_first_record_and_the_end() {
        let partition = Partition::new("t", 3);
        let of = |next| check_position(&partition, "g", next, Extent { partition: 3, begin: 10, end: 20 });
        for inside in [10, 15, 20] {
            assert!(of(inside).is_ok(), "{inside}");
        }
        let words = of(4).unwrap_err().to_string();
        let remedy = "--group g --topic t:3 --reset-offsets --to-offset 10 --execute";
        assert!(
            words.contains("t/3") && words.contains("6 unread offsets are gone") && words.contains(remedy),
            "{words}"
        );
        for error in [of(900).unwrap_err(), offset_went_back(&partition, 900, 0)] {
            let words = error.to_string();
            assert!(
                words.contains("t/3") && words.contains("900") && words.contains("another group"),
                "{words}"
            );
        }
    }
}
