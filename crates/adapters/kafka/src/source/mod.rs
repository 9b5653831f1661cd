//! Reads a topic as a source: one member of a consumer group, on the engine's thread.
//!
//! Partitions are assigned and revoked only at the beginning of [`Source::read`]: earlier batches are then
//! with the workers, so a revoked partition can wait for them. Only settled offsets are committed.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_pipeline::{Assignments, Intake, Last, Partition, Position, Read, Replay, Source, SourceError};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::cluster::Cluster;
use crate::error::{Error, words};
use crate::membership::Membership;
use crate::metadata_client::MetadataClient;
use crate::scenario::{self, Isolation, Start};

use member::Member;
use session::{Reading, Revocation};

pub use dead_letters::Letters;
pub(crate) use positions::offsets;

mod session;

mod dead_letters;
mod offset_check;

mod fetch;
mod member;
mod positions;
mod read_error;

/// The longest wait for batches in flight when a partition is revoked; after that the group would expel this
/// member.
const SETTLE_MAX: Duration = Duration::from_secs(240);

/// A topic that is read as a member of a group.
pub struct Topic {
    name: Arc<str>,
    cluster: Cluster,
    group: String,
    start: Start,
    isolation: Isolation,
    connect_limit: Duration,
    giving: Revocation,
    reading: Option<Reading>,
}

impl Topic {
    /// Builds the source from typed settings.
    ///
    /// # Errors
    /// [`Error::Owned`], [`Error::Config`].
    pub fn build(typed: &scenario::Source) -> Result<Self, Error> {
        Ok(Self {
            name: typed.topic.as_str().into(),
            cluster: Cluster::build(&typed.brokers, &typed.properties)?,
            group: typed.group.clone(),
            start: typed.start,
            isolation: typed.isolation,
            connect_limit: Duration::from_nanos(typed.connect_limit.as_ns()),
            giving: Revocation {
                settle_limit: Duration::from_nanos(typed.settle_limit.as_ns()).min(SETTLE_MAX),
                membership: None,
            },
            reading: None,
        })
    }

    /// Adds a membership for a sink whose transactions store the offsets of this group.
    #[must_use]
    pub fn with_membership(mut self, membership: Arc<Membership>) -> Self {
        self.giving.membership = Some(membership);
        self
    }

    fn consumer(&self) -> Result<BaseConsumer<Member>, Error> {
        let mut config = tuned(&self.cluster);
        config.set("group.id", &self.group);
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        config.set("partition.assignment.strategy", "cooperative-sticky");
        config.set("auto.offset.reset", if self.start == Start::Earliest { "earliest" } else { "error" });
        let committed = self.isolation == Isolation::ReadCommitted;
        config.set("isolation.level", if committed { "read_committed" } else { "read_uncommitted" });
        config.create_with_context(Member::default()).map_err(|error| Error::Config(words(&error)))
    }
}

/// The time after which the group excludes a silent member, in milliseconds; a property of the pipeline replaces it.
const SESSION_MS: &str = "10000";

/// The settings of a fast consumer. By default the library waits a second after its queue was full, buffers
/// 64 MB that the engine does not count, and skips the checksums that Kafka's own clients verify.
pub(crate) fn tuned(cluster: &Cluster) -> rdkafka::ClientConfig {
    cluster.config_with(&[
        ("check.crcs", "true"),
        ("fetch.queue.backoff.ms", "5"),
        ("queued.max.messages.kbytes", "32768"),
        // After kill -9 no member reads the partitions of the killed member until its session ends. The
        // library's default is 45 s.
        ("session.timeout.ms", SESSION_MS),
    ])
}

impl Source for Topic {
    /// The group stores the source's offsets. With a membership the sink's transactions store them.
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, lanes: &Arc<Assignments>) -> Result<(), SourceError> {
        let refused = |error: Error| SourceError::Refused(error.to_string());
        MetadataClient::of(&self.cluster)
            .and_then(|client| client.of_pipeline(lanes).partitions(&self.name, self.connect_limit))
            .map_err(refused)?;
        let consumer = self.consumer().map_err(refused)?;
        let subscribed = consumer.subscribe(&[&self.name]);
        subscribed.map_err(|error| refused(Error::refused(format!("reading {:?}", self.name), &error)))?;
        let (group, lanes, name) = (self.group.clone(), Arc::clone(lanes), Arc::clone(&self.name));
        self.reading = Some(Reading::new(consumer, group, lanes, name, self.giving.clone()));
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(reading) = &mut self.reading else { return Ok(Read::End) };
        reading.make_changes()?;
        reading.note_commits()?;
        match reading.take(intake)? {
            Ok(0) => {
                if let Some(reason) = reading.waiting() {
                    intake.note_trouble(reason);
                }
                Ok(Read::Idle)
            }
            Ok(_) => Ok(Read::Some),
            Err(error) => {
                read_error::classify(&error, &self.name, &self.group)?;
                intake.note_trouble(format!("{:?} cannot be read: {}", self.name, words(&error)));
                Ok(Read::Idle)
            }
        }
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        let Some(reading) = &mut self.reading else { return Ok(()) };
        reading.commit(reached, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Properties, Property};

    #[test]
    fn the_group_excludes_a_silent_member_after_ten_seconds_or_after_the_property_of_the_pipeline() {
        let limit = |properties: &[(&str, &str)]| {
            let named = |(name, value): &(&str, &str)| ((*name).to_owned(), Property((*value).to_owned()));
            let properties = Properties(properties.iter().map(named).collect());
            let cluster = Cluster::build("127.0.0.1:9092", &properties).unwrap();
            tuned(&cluster).get("session.timeout.ms").map(str::to_owned)
        };
        assert_eq!(limit(&[]).as_deref(), Some("10000"));
        assert_eq!(limit(&[("session.timeout.ms", "6000")]).as_deref(), Some("6000"));
    }
}
