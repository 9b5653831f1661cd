//! Where a partition that comes in begins: at the place that the group kept, or, if it kept none and may, at its first record.
//!
//! The library would begin again without a word at a place that is gone: what retention removed would be missing in silence,
//! and a destination that knows records by their offsets would take those of a topic made anew for those it has. So it is
//! told never to do that, and a partition is looked at before it is read. An offset that goes back ends the source as well. A
//! topic that was made anew and has grown past the old position cannot be told from the old one.

use std::thread;
use std::time::Duration;

use plimsoll_pipeline::{Partition, SourceError};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

use super::member::Member;
use super::positions::{failed, number};
use crate::scenario::Start;
use crate::topic::Extent;

/// How long one question may take.
const ASK: Duration = Duration::from_secs(5);
/// A broker that has just come back may not know its own end yet: it is asked so often, with a pause between.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);
/// What to do when the topic is another one than it was.
pub(super) const REMEDY: &str = "what is made anew counts from zero again, so give the pipeline another group, another name and \
    another destination for it: the old ones would take its records for those they have";
/// What to do when records are gone that nobody has read.
pub(super) const GO_ON: &str = "to go on without them, move the group to the first record that is there \
    (`kafka-consumer-groups --reset-offsets --to-earliest`), or give the pipeline another destination where that one keeps the \
    positions";

/// How a group begins.
pub(super) struct Beginning {
    pub(super) group: String,
    /// Where it begins in a partition in which it has kept nothing.
    pub(super) start: Start,
}

impl Beginning {
    /// Sets where the partitions of `list` begin that have no offset yet. False if nobody says what the group kept: it is to
    /// be asked again.
    ///
    /// # Errors
    /// A partition that cannot be begun, and what to do.
    pub(super) fn settle(
        &self,
        consumer: &BaseConsumer<Member>,
        list: &mut TopicPartitionList,
    ) -> Result<bool, SourceError> {
        let Ok(kept) = kept(consumer, list) else {
            thread::sleep(PAUSE);
            return Ok(false);
        };
        for (partition, next) in kept {
            match next {
                Some(next) => check(consumer, &partition, next)?,
                None if self.start == Start::Refuse => return Err(self.is_new(&partition)),
                None => {
                    let at =
                        list.set_partition_offset(&partition.topic, number(&partition), Offset::Beginning);
                    failed("beginning at the first record", at)?;
                }
            }
        }
        Ok(true)
    }

    fn is_new(&self, partition: &Partition) -> SourceError {
        let group = &self.group;
        SourceError::Failed(format!(
            "the group {group:?} has kept no offset for {partition}: it is new, or its offsets are gone; say `start: earliest` to \
             begin at the first record that is there (if the topic was made anew, with another destination too)"
        ))
    }
}

/// The place in each partition, if there is one: those of `list`, and what the group has kept for the others.
fn kept(
    consumer: &BaseConsumer<Member>,
    list: &TopicPartitionList,
) -> KafkaResult<Vec<(Partition, Option<u64>)>> {
    let mut unknown = TopicPartitionList::new();
    for one in list.elements().iter().filter(|one| offset(one).is_none()) {
        unknown.add_partition(one.topic(), one.partition());
    }
    let mut all: Vec<_> = list.elements().iter().map(place).filter(|(_, next)| next.is_some()).collect();
    if unknown.count() > 0 {
        let committed = consumer.committed_offsets(unknown, ASK)?;
        for one in committed.elements() {
            one.error()?;
            all.push(place(&one));
        }
    }
    Ok(all)
}

fn place(at: &TopicPartitionListElem<'_>) -> (Partition, Option<u64>) {
    (Partition::new(at.topic(), at.partition().unsigned_abs()), offset(at))
}

fn offset(at: &TopicPartitionListElem<'_>) -> Option<u64> {
    match at.offset() {
        Offset::Offset(next) => u64::try_from(next).ok(),
        _ => None,
    }
}

/// Looks whether a partition still has the place where it was left. Who does not answer is asked no more: the library refuses
/// what is not there, with fewer words.
fn check(consumer: &BaseConsumer<Member>, partition: &Partition, next: u64) -> Result<(), SourceError> {
    let mut found = Ok(());
    for attempt in 0..TRIES {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        let Ok((begin, end)) = consumer.fetch_watermarks(&partition.topic, number(partition), ASK) else {
            return Ok(());
        };
        let [begin, end] = [begin, end].map(|offset| u64::try_from(offset).unwrap_or_default());
        found = judge(partition, next, Extent { partition: partition.index, begin, end });
        if found.is_ok() || next < begin {
            break;
        }
    }
    found
}

/// Whether a place lies within a partition.
fn judge(partition: &Partition, next: u64, Extent { begin, end, .. }: Extent) -> Result<(), SourceError> {
    let words = if next < begin {
        let gone = begin - next;
        format!(
            "{partition} was read up to offset {next}, and it begins at {begin}: {gone} offsets are gone that nobody has read, \
             removed by the topic's retention or by hand; {GO_ON}"
        )
    } else if next > end {
        format!(
            "{partition} was read up to offset {next}, and it ends at {end}: the topic was deleted and made anew, or its brokers \
             lost records: {REMEDY}"
        )
    } else {
        return Ok(());
    };
    Err(SourceError::Failed(words))
}

/// An offset that came behind `next`, within one assignment.
pub(super) fn went_back(partition: &Partition, next: u64, offset: u64) -> SourceError {
    SourceError::Failed(format!(
        "{partition} began again: offset {offset} came after {next} had been reached. The topic was deleted and made anew while it \
         was read, or its brokers lost records: {REMEDY}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_offsets_that_somebody_kept_are_places() {
        let mut list = TopicPartitionList::new();
        list.add_partition("t", 0);
        list.add_partition_offset("t", 1, Offset::Offset(7)).unwrap();
        list.add_partition_offset("t", 2, Offset::Beginning).unwrap();
        let places: Vec<_> = list.elements().iter().map(offset).collect();
        assert_eq!(places, [None, Some(7), None]);
    }

    #[test]
    fn a_place_lies_between_the_first_record_and_behind_the_last() {
        let partition = Partition::new("t", 3);
        let of = |next| judge(&partition, next, Extent { partition: 3, begin: 10, end: 20 });
        for inside in [10, 15, 20] {
            assert!(of(inside).is_ok(), "{inside}");
        }
        let words = of(4).unwrap_err().to_string();
        assert!(
            words.contains("t/3") && words.contains("6 offsets are gone") && words.contains("--to-earliest"),
            "{words}"
        );
        for error in [of(21).unwrap_err(), went_back(&partition, 21, 0)] {
            let words = error.to_string();
            assert!(
                words.contains("t/3") && words.contains("21") && words.contains("another group"),
                "{words}"
            );
        }
    }

    #[test]
    fn a_group_without_a_place_is_told_how_to_begin() {
        let beginning = Beginning { group: "g".to_owned(), start: Start::Refuse };
        let words = beginning.is_new(&Partition::new("t", 3)).to_string();
        assert!(
            words.contains("\"g\"") && words.contains("t/3") && words.contains("start: earliest"),
            "{words}"
        );
    }
}
