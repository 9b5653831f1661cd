//! Reads a dead-letter topic as a source: from the last replayed letter to its current end.
//!
//! Partitions are assigned by number, and the group only stores their offsets. So only one process may replay
//! at a time: a second one would read the same letters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::replay::{DeadLetter, LetterBatcher};
use plimsoll_pipeline::{
    Assignment, Assignments, Intake, Last, Partition, Position, Read, Replay, Source, SourceError,
};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::positions::{failed, number, offsets};
use super::{fetch, read_error, tuned};
use crate::cluster::{Cluster, Watch};
use crate::error::{Error, words};
use crate::membership::Membership;
use crate::topic::{Admin, Extent};

/// The time limit of the last commit.
const LAST_MAX: Duration = Duration::from_secs(45);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// The dead letters of a topic.
pub struct Letters {
    name: Arc<str>,
    cluster: Cluster,
    group: String,
    connect_limit: Duration,
    /// The number of letters that may still be read.
    left: u64,
    membership: Option<Arc<Membership>>,
    reading: Option<Reading>,
}

/// The state of an open source.
struct Reading {
    consumer: BaseConsumer<Watch>,
    /// The partitions that still have letters, by number.
    open: BTreeMap<u32, Open>,
    /// Settled positions whose commit is not confirmed.
    uncommitted: BTreeMap<Partition, Position>,
}

/// A partition that is being read.
struct Open {
    lane: Arc<Assignment>,
    /// The end of the partition when the replay began; another replay reads later records.
    end: u64,
}

impl Letters {
    /// Reads at most `limit` letters of a topic; `group` stores the replayed offsets.
    pub fn new(cluster: Cluster, topic: &str, group: &str, connect_limit: Duration, limit: u64) -> Self {
        Self {
            name: topic.into(),
            cluster,
            group: group.to_owned(),
            connect_limit,
            left: limit,
            membership: None,
            reading: None,
        }
    }

    /// Adds a membership for a sink whose transactions store the offsets of this group.
    #[must_use]
    pub fn with_membership(mut self, membership: Arc<Membership>) -> Self {
        self.membership = Some(membership);
        self
    }

    fn consumer(&self) -> Result<BaseConsumer<Watch>, Error> {
        let mut config = tuned(&self.cluster);
        config
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed");
        config.create_with_context(Watch::default()).map_err(|error| Error::Config(words(&error)))
    }

    /// The begin and end of each partition with new letters.
    fn extents(&self, consumer: &BaseConsumer<Watch>) -> Result<Vec<Extent>, Error> {
        let mut extents = Admin::of(&self.cluster, self.connect_limit)?.describe(&self.name)?;
        let mut list = TopicPartitionList::new();
        extents.iter().for_each(|extent| {
            list.add_partition(&self.name, extent.partition.cast_signed());
        });
        let kept = consumer.committed_offsets(list, self.connect_limit);
        let kept = kept.map_err(|error| {
            Error::refused(format!("requesting the replayed offsets of {:?}", self.name), &error)
        })?;
        for extent in &mut extents {
            let found = kept.find_partition(&self.name, extent.partition.cast_signed());
            if let Some(Offset::Offset(next)) = found.map(|at| at.offset()) {
                extent.begin = extent.begin.max(u64::try_from(next).unwrap_or_default());
            }
        }
        extents.retain(|extent| extent.begin < extent.end);
        Ok(extents)
    }
}

impl Source for Letters {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, lanes: &Arc<Assignments>) -> Result<(), SourceError> {
        let refused = |error: Error| SourceError::Refused(error.to_string());
        let consumer = self.consumer().map_err(refused)?;
        let extents = self.extents(&consumer).map_err(refused)?;
        let (mut open, mut list) = (BTreeMap::new(), TopicPartitionList::new());
        for Extent { partition, begin, end } in extents {
            let (lane, _) = lanes.open(Partition::new(Arc::clone(&self.name), partition))?;
            let begin = Offset::Offset(i64::try_from(begin).unwrap_or(i64::MAX));
            let added = list.add_partition_offset(&self.name, number(lane.partition()), begin);
            failed("naming an offset", added)?;
            open.insert(partition, Open { lane, end });
        }
        failed("assigning partitions", consumer.assign(&list))?;
        if let Some(membership) = &self.membership {
            membership.renew(consumer.group_metadata());
        }
        self.reading = Some(Reading { consumer, open, uncommitted: BTreeMap::new() });
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(Reading { consumer, open, .. }) = &mut self.reading else { return Ok(Read::End) };
        let mut wait = intake.wait();
        let mut returned = LetterBatcher::new(intake);
        while returned.has_room() && self.left > 0 && !open.is_empty() {
            match consumer.poll(wait) {
                Some(Ok(record)) => self.left -= u64::from(take(&record, open, &mut returned)?),
                Some(Err(KafkaError::PartitionEOF(number))) => drop(open.remove(&number.unsigned_abs())),
                Some(Err(error)) => {
                    read_error::classify(&error, &self.name, &self.group)?;
                    break;
                }
                None => break,
            }
            wait = Duration::ZERO;
        }
        let ended = self.left == 0 || open.is_empty();
        Ok(match (returned.finish(), ended) {
            (0, true) => Read::End,
            (0, false) => Read::Idle,
            _ => Read::Some,
        })
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        let Some(Reading { consumer, uncommitted, .. }) = &mut self.reading else { return Ok(()) };
        uncommitted.extend(reached.iter().cloned());
        if uncommitted.is_empty() {
            return Ok(());
        }
        let list = offsets(&*uncommitted)?;
        if last == Last::No {
            // Only the last commit is confirmed: each commit names all positions again.
            let _ = consumer.commit(&list, CommitMode::Async);
            return Ok(());
        }
        let began = clock::now();
        while let Err(error) = consumer.commit(&list, CommitMode::Sync) {
            if u128::from(clock::now().since(began)) >= LAST_MAX.as_nanos() {
                return failed("storing the replayed offsets", Err(error));
            }
            std::thread::sleep(PAUSE);
        }
        uncommitted.clear();
        Ok(())
    }
}

/// Takes a record; returns whether it was a valid letter.
fn take(
    record: &BorrowedMessage<'_>,
    open: &mut BTreeMap<u32, Open>,
    returned: &mut LetterBatcher<'_, '_>,
) -> Result<bool, SourceError> {
    let (partition, offset) = (record.partition().unsigned_abs(), record.offset().unsigned_abs());
    let Some(Open { lane, end }) = open.get(&partition) else { return Ok(false) };
    if offset >= *end {
        open.remove(&partition);
        return Ok(false);
    }
    let headers = record.headers().and_then(fetch::headers).unwrap_or_default();
    let (appended_ms, _) = fetch::origin(record.timestamp());
    let letter = DeadLetter { appended_ms, key: record.key(), payload: record.payload(), headers };
    let taken = returned.take(lane, &letter, Position::at(offset + 1));
    taken.map(|_| true).map_err(|error| {
        let place = lane.partition();
        SourceError::Failed(format!(
            "record {offset} of {place} {error}: a topic of dead letters may contain only dead letters"
        ))
    })
}
