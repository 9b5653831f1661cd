//! Scans a topic record by record, so that an audit can compare a destination with it.

use std::time::Duration;

use plimsoll_measure::clock;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::cluster::{Cluster, Watch};
use crate::error::{Error, words};
use crate::topic::{Admin, Extent};

/// The timeout of one poll.
const POLL: Duration = Duration::from_millis(100);

/// A record of the topic.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// Its payload; a tombstone has none.
    pub payload: Option<&'a [u8]>,
}

/// Reads a topic from its beginning to its current end, and passes each committed record to `see`; returns
/// the begin and end of each partition. It joins no group and commits nothing.
///
/// # Errors
/// [`Error::NoTopic`], [`Error::Unreachable`], [`Error::Refused`]; also when no record arrives for `silence`.
pub fn scan(
    cluster: &Cluster,
    topic: &str,
    silence: Duration,
    see: &mut dyn FnMut(Record<'_>),
) -> Result<Vec<Extent>, Error> {
    let extents = Admin::of(cluster, silence)?.describe(topic)?;
    let consumer = reader(cluster, topic, &extents)?;
    let mut open: Vec<_> =
        extents.iter().filter(|extent| extent.end > extent.begin).map(|one| one.partition).collect();
    let mut heard = clock::now();
    while !open.is_empty() {
        match consumer.poll(POLL) {
            Some(Ok(record)) => {
                heard = clock::now();
                let (partition, offset) = (record.partition().unsigned_abs(), record.offset().unsigned_abs());
                let extent = extents.iter().find(|extent| extent.partition == partition);
                // Records written after the start are left for a later scan.
                if extent.is_some_and(|extent| offset < extent.end) {
                    see(Record { partition, offset, key: record.key(), payload: record.payload() });
                } else {
                    open.retain(|one| *one != partition);
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.retain(|one| *one != partition.unsigned_abs())
            }
            Some(Err(error)) if is_over(heard, silence) => {
                return Err(Error::refused(format!("reading {topic:?}"), &error));
            }
            None if is_over(heard, silence) => return Err(silent(topic, silence)),
            Some(Err(_)) | None => {}
        }
    }
    Ok(extents)
}

fn reader(cluster: &Cluster, topic: &str, extents: &[Extent]) -> Result<BaseConsumer<Watch>, Error> {
    let mut config = crate::source::tuned(cluster);
    config
        .set("group.id", "plimsoll-scan")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed");
    let made = config.create_with_context(Watch::default());
    let consumer: BaseConsumer<Watch> = made.map_err(|error| Error::Config(words(&error)))?;
    let mut assignment = TopicPartitionList::new();
    for extent in extents {
        let added = assignment.add_partition_offset(topic, extent.partition.cast_signed(), Offset::Beginning);
        added.map_err(|error| Error::refused("reading from the beginning", &error))?;
    }
    consumer.assign(&assignment).map_err(|error| Error::refused(format!("reading {topic:?}"), &error))?;
    Ok(consumer)
}

fn is_over(heard: clock::Instant, silence: Duration) -> bool {
    u128::from(clock::now().since(heard)) > silence.as_nanos()
}

fn silent(topic: &str, silence: Duration) -> Error {
    let reason = format!("no record for {} s", silence.as_secs());
    Error::Refused { action: format!("reading {topic:?}"), reason }
}
