//! A position that the topic does not have: behind its end, because it was deleted and made anew or its brokers lost what they
//! had, or before its beginning, because its retention removed what nobody had read.
//!
//! The library would begin again without a word: records would be missing in silence, and a destination that knows records by
//! their offsets would take the new ones for those it has. So a partition is looked at before it is read, and an offset that goes
//! back ends the source. So is one that goes on after it was on hold: meanwhile retention may have overtaken it. A topic that was made
//! anew and has grown past the old position cannot be told from the old one.

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

/// How long one question may take. Who does not answer is asked no more: the records are not refused for that.
const ASK: Duration = Duration::from_secs(5);
/// A broker that has just come back may not know its own end yet: it is asked so often, with a pause between.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);
/// What to do where the topic is not the one it was.
pub(super) const REMEDY: &str = "What is made anew counts from zero again, so give the pipeline another group, another name and \
    another destination for it: the old ones would take its records for those they have";

/// Looks at partitions that come in; those in `list` without an offset begin where the group says.
///
/// # Errors
/// The partition that does not have its position, and what to do.
pub(super) fn check(
    consumer: &BaseConsumer<Member>,
    group: &str,
    list: &TopicPartitionList,
) -> Result<(), SourceError> {
    let Ok(positions) = positions(consumer, list) else { return Ok(()) };
    look(consumer, group, positions)
}

/// Looks whether partitions have their positions.
///
/// # Errors
/// The first that does not have it, and what to do.
pub(super) fn look(
    consumer: &BaseConsumer<Member>,
    group: &str,
    positions: Vec<(Partition, u64)>,
) -> Result<(), SourceError> {
    for (partition, next) in positions {
        let mut judged = Ok(());
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let Ok(extent) = extent(consumer, &partition) else { return Ok(()) };
            judged = judge(&partition, group, next, extent);
            // What is gone stays gone; an end may still be found.
            if judged.is_ok() || next < extent.begin {
                break;
            }
        }
        judged?;
    }
    Ok(())
}

fn extent(consumer: &BaseConsumer<Member>, partition: &Partition) -> KafkaResult<Extent> {
    let (begin, end) = consumer.fetch_watermarks(&partition.topic, number(partition), ASK)?;
    let [begin, end] = [begin, end].map(|offset| u64::try_from(offset).unwrap_or_default());
    Ok(Extent { partition: partition.index, begin, end })
}

/// Whether a partition has a position.
fn judge(partition: &Partition, group: &str, next: u64, extent: Extent) -> Result<(), SourceError> {
    let Extent { begin, end, .. } = extent;
    let Partition { topic, index } = partition;
    let words = if next > end {
        format!(
            "{partition} was read up to offset {next}, and it ends at {end}: the topic was deleted and made anew, or its brokers \
             lost records. {REMEDY}"
        )
    } else if next < begin {
        let gone = begin - next;
        format!(
            "{partition} was read up to offset {next}, and it begins at {begin}: {gone} offsets are gone that nobody has read \
             (records, or only marks of transactions), removed by the topic's retention or by hand. To go on without them, move the group there (`kafka-consumer-groups \
             --group {group} --topic {topic}:{index} --reset-offsets --to-offset {begin} --execute`); where the destination keeps \
             the positions, give the pipeline another one"
        )
    } else {
        return Ok(());
    };
    Err(SourceError::Failed(words))
}

/// Where each partition begins, if somebody kept that.
fn positions(
    consumer: &BaseConsumer<Member>,
    list: &TopicPartitionList,
) -> KafkaResult<Vec<(Partition, u64)>> {
    let mut unknown = TopicPartitionList::new();
    for one in list.elements().iter().filter(|one| kept(one.offset()).is_none()) {
        unknown.add_partition(one.topic(), one.partition());
    }
    let mut all = known(list);
    if unknown.count() > 0 {
        all.extend(known(&consumer.committed_offsets(unknown, ASK)?));
    }
    Ok(all)
}

fn known(list: &TopicPartitionList) -> Vec<(Partition, u64)> {
    let known = |one: &TopicPartitionListElem<'_>| {
        Some((Partition::new(one.topic(), one.partition().unsigned_abs()), kept(one.offset())?))
    };
    list.elements().iter().filter_map(known).collect()
}

fn kept(offset: Offset) -> Option<u64> {
    match offset {
        Offset::Offset(next) => u64::try_from(next).ok(),
        _ => None,
    }
}

/// An offset that came behind `next`, within one assignment.
pub(super) fn went_back(partition: &Partition, next: u64, offset: u64) -> SourceError {
    SourceError::Failed(format!(
        "{partition} began again: offset {offset} came after {next} had been reached. The topic was deleted and made anew while it \
         was read, or its brokers lost records. {REMEDY}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_offsets_that_somebody_kept_are_positions() {
        let mut list = TopicPartitionList::new();
        list.add_partition("t", 0);
        list.add_partition_offset("t", 1, Offset::Offset(7)).unwrap();
        list.add_partition_offset("t", 2, Offset::Beginning).unwrap();
        assert_eq!(known(&list), [(Partition::new("t", 1), 7)]);
    }

    #[test]
    fn a_position_lies_between_the_first_record_and_behind_the_last() {
        let partition = Partition::new("t", 3);
        let of = |next| judge(&partition, "g", next, Extent { partition: 3, begin: 10, end: 20 });
        for inside in [10, 15, 20] {
            assert!(of(inside).is_ok(), "{inside}");
        }
        let words = of(4).unwrap_err().to_string();
        let mend = "--group g --topic t:3 --reset-offsets --to-offset 10 --execute";
        assert!(
            words.contains("t/3") && words.contains("6 offsets are gone") && words.contains(mend),
            "{words}"
        );
        for error in [of(900).unwrap_err(), went_back(&partition, 900, 0)] {
            let words = error.to_string();
            assert!(
                words.contains("t/3") && words.contains("900") && words.contains("another group"),
                "{words}"
            );
        }
    }
}
