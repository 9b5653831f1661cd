//! Resets a group's committed offsets, so that it reads a topic from its beginning.

use std::thread;
use std::time::Duration;

use plimsoll_measure::clock;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use crate::cluster::{Cluster, Watch};
use crate::error::{Error, words};
use crate::topic::Extent;

/// The pause between two attempts.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// Sets a group's offsets on a topic to the beginning of its partitions; its offsets on other topics stay. A
/// broker may keep offsets after the topic is deleted; a group would then skip records of a new topic with
/// the same name. Waits for members that have not left yet, at most for `limit`.
///
/// # Errors
/// [`Error::Config`]; [`Error::Refused`] when the group still has members, or no broker answers.
pub fn rewind(
    cluster: &Cluster,
    group: &str,
    topic: &str,
    extents: &[Extent],
    limit: Duration,
) -> Result<(), Error> {
    let refused = |error: &KafkaError| Error::Refused {
        action: format!("resetting the offsets of the group {group:?} on the topic {topic:?}"),
        reason: format!("{}; has every process of the group ended?", words(error)),
    };
    let mut config = cluster.config();
    config.set("group.id", group).set("enable.auto.commit", "false");
    let made = config.create_with_context(Watch::default());
    let consumer: BaseConsumer<Watch> = made.map_err(|error| Error::Config(words(&error)))?;
    let mut begins = TopicPartitionList::new();
    for extent in extents {
        let (partition, begin) = (extent.partition.cast_signed(), extent.begin.cast_signed());
        let added = begins.add_partition_offset(topic, partition, Offset::Offset(begin));
        added.map_err(|error| refused(&error))?;
    }
    let began = clock::now();
    loop {
        match consumer.commit(&begins, CommitMode::Sync) {
            Ok(()) => return Ok(()),
            Err(error) if u128::from(clock::now().since(began)) >= limit.as_nanos() => {
                return Err(refused(&error));
            }
            // The coordinator is not known yet, or a killed member still counts as alive.
            Err(_) => thread::sleep(TRY_EVERY),
        }
    }
}
