//! A position that the topic does not reach: it was deleted and made anew, or its brokers lost what they had.
//!
//! The library would begin again without a word, and a destination that knows records by their offsets would take the new ones
//! for those it has. So a partition is looked at before it is read, and an offset that goes back ends the source. A topic that
//! was made anew and has grown past the old position cannot be told from the old one.

use std::thread;
use std::time::Duration;

use plimsoll_pipeline::{Partition, SourceError};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

use super::member::Member;

/// How long one question may take. Who does not answer is asked no more: the records are not refused for that.
const ASK: Duration = Duration::from_secs(5);
/// A broker that has just come back may not know its own end yet: it is asked so often, with a pause between.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);
/// What to do in every case.
pub(super) const REMEDY: &str = "What is made anew counts from zero again, so give the pipeline another group, another name and \
    another destination for it: the old ones would take its records for those they have";

/// Looks at partitions that come in; those in `list` without an offset begin where the group says.
///
/// # Errors
/// The partition whose position lies behind its end, and what to do.
pub(super) fn check(consumer: &BaseConsumer<Member>, list: &TopicPartitionList) -> Result<(), SourceError> {
    let Ok(positions) = positions(consumer, list) else { return Ok(()) };
    for (partition, next) in positions {
        let mut end = None;
        for attempt in 0..TRIES {
            let number = partition.index.cast_signed();
            let Ok((_, found)) = consumer.fetch_watermarks(&partition.topic, number, ASK) else {
                return Ok(());
            };
            end = u64::try_from(found).ok();
            if end.is_none_or(|end| next <= end) {
                break;
            }
            if attempt + 1 < TRIES {
                thread::sleep(PAUSE);
            }
        }
        if let Some(end) = end.filter(|end| next > *end) {
            return Err(refusal(&partition, next, end));
        }
    }
    Ok(())
}

/// Where each partition begins, if somebody kept that.
fn positions(
    consumer: &BaseConsumer<Member>,
    list: &TopicPartitionList,
) -> KafkaResult<Vec<(Partition, u64)>> {
    let mut unknown = TopicPartitionList::new();
    for one in list.elements().iter().filter(|one| number(one.offset()).is_none()) {
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
        Some((Partition::new(one.topic(), one.partition().unsigned_abs()), number(one.offset())?))
    };
    list.elements().iter().filter_map(known).collect()
}

fn number(offset: Offset) -> Option<u64> {
    match offset {
        Offset::Offset(next) => u64::try_from(next).ok(),
        _ => None,
    }
}

fn refusal(partition: &Partition, next: u64, end: u64) -> SourceError {
    SourceError::Failed(format!(
        "{partition} was read up to offset {next}, and it ends at {end}: the topic was deleted and made anew, or its brokers lost \
         records. {REMEDY}"
    ))
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
    fn a_refusal_says_what_happened_and_what_to_do() {
        let partition = Partition::new("t", 3);
        for error in [refusal(&partition, 900, 20), went_back(&partition, 900, 0)] {
            let words = error.to_string();
            assert!(
                words.contains("t/3") && words.contains("900") && words.contains("another group"),
                "{words}"
            );
        }
    }
}
