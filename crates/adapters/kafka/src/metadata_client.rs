//! Requests metadata from a cluster: a topic's partitions, and the begin and end of each.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::Assignments;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{IsError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;

use crate::cluster::{Cluster, Watch};
use crate::error::{Error, describe, words};

/// The time limit of one request before the retry.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);
/// The time that the client is polled for its own errors between two requests.
const POLL: Duration = Duration::from_millis(100);

/// A client for metadata. It is a consumer without a group, because such a client never creates a topic by a
/// request.
pub(crate) struct MetadataClient {
    client: BaseConsumer<Watch>,
    cluster: Cluster,
    /// The assignments of the pipeline that waits for the answer, if any.
    assignments: Option<Arc<Assignments>>,
}

impl MetadataClient {
    /// Creates a client of a cluster; it connects with the first request.
    pub(crate) fn of(cluster: &Cluster) -> Result<Self, Error> {
        let made = cluster.config().create_with_context(Watch::default());
        let client = made.map_err(|error| Error::Config(words(&error)))?;
        Ok(Self { client, cluster: cluster.clone(), assignments: None })
    }

    /// Stops retrying once this pipeline is aborted.
    #[must_use]
    pub(crate) fn of_pipeline(self, assignments: &Arc<Assignments>) -> Self {
        Self { assignments: Some(Arc::clone(assignments)), ..self }
    }

    /// The numbers of a topic's partitions, in order.
    ///
    /// # Errors
    /// [`Error::NoTopic`]; [`Error::Unreachable`] when no broker answers within `limit`; [`Error::Refused`].
    pub(crate) fn partitions(&self, topic: &str, limit: Duration) -> Result<Vec<i32>, Error> {
        let metadata = self.metadata(topic, limit)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let mut numbers: Vec<i32> =
            found.into_iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id()).collect();
        numbers.sort_unstable();
        if numbers.is_empty() { Err(self.no_topic(topic)) } else { Ok(numbers) }
    }

    /// The number of a topic's partitions, and its largest number of replicas.
    ///
    /// # Errors
    /// Those of [`MetadataClient::partitions`].
    pub(crate) fn shape(&self, topic: &str, limit: Duration) -> Result<(u16, u16), Error> {
        let metadata = self.metadata(topic, limit)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let partitions = found.map_or(&[][..], |topic| topic.partitions());
        let replicas = partitions.iter().map(|partition| partition.replicas().len()).max();
        let [partitions, replicas] = [Some(partitions.len()), replicas]
            .map(|count| u16::try_from(count.unwrap_or_default()).unwrap_or(u16::MAX));
        if partitions == 0 { Err(self.no_topic(topic)) } else { Ok((partitions, replicas)) }
    }

    /// The first offset of a partition, and the offset after its last record.
    ///
    /// # Errors
    /// [`Error::Refused`] when no broker answers within `limit`.
    pub(crate) fn ends(&self, topic: &str, partition: i32, limit: Duration) -> Result<(i64, i64), Error> {
        let began = clock::now();
        loop {
            let left = limit.saturating_sub(Duration::from_nanos(clock::now().since(began)));
            match self.client.fetch_watermarks(topic, partition, left.max(POLL)) {
                Ok(ends) => return Ok(ends),
                // A new partition's leader may not know its role yet.
                Err(error) if error.rdkafka_error_code().is_some_and(is_transient) && !left.is_zero() => {
                    drop(self.client.poll(POLL));
                }
                Err(error) => {
                    return Err(Error::refused(format!("requesting the end of {topic}/{partition}"), &error));
                }
            }
        }
    }

    fn metadata(&self, topic: &str, limit: Duration) -> Result<Metadata, Error> {
        let began = clock::now();
        loop {
            let left = limit.saturating_sub(Duration::from_nanos(clock::now().since(began)));
            let asked = self.client.fetch_metadata(Some(topic), left.min(REQUEST_LIMIT));
            let code = match &asked {
                Ok(metadata) => first_error(metadata),
                Err(error) => Some(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)),
            };
            match (code, asked) {
                (None, Ok(metadata)) => return Ok(metadata),
                (Some(RDKafkaErrorCode::UnknownTopicOrPartition), _) => return Err(self.no_topic(topic)),
                (Some(code), _) if !is_transient(code) => return Err(refused(topic, code)),
                _ if left.is_zero() || self.is_over() => return Err(self.unreachable(limit)),
                // No broker listens, or a leader election is running.
                _ => drop(self.client.poll(POLL)),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.assignments.as_ref().is_some_and(|assignments| assignments.is_over())
    }

    pub(crate) fn no_topic(&self, topic: &str) -> Error {
        Error::NoTopic { topic: topic.to_owned(), brokers: self.cluster.brokers().to_owned() }
    }

    fn unreachable(&self, limit: Duration) -> Error {
        let reason = self.client.context().last().unwrap_or_else(|| "it does not answer".to_owned());
        Error::Unreachable { brokers: self.cluster.brokers().to_owned(), seconds: limit.as_secs(), reason }
    }
}

fn refused(topic: &str, code: RDKafkaErrorCode) -> Error {
    Error::Refused { action: format!("requesting the topic {topic:?}"), reason: describe(code) }
}

/// The first error of a topic or of its partitions in the answer.
fn first_error(metadata: &Metadata) -> Option<RDKafkaErrorCode> {
    let of_topics = metadata.topics().iter().filter_map(|topic| topic.error());
    let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
    let of_partitions = partitions.filter_map(|partition| partition.error());
    of_topics.chain(of_partitions).find(|error| error.is_error()).map(RDKafkaErrorCode::from)
}

/// Whether a retry may succeed.
fn is_transient(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::RequestTimedOut
            | Code::NetworkException
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::Resolve
            | Code::WaitingForCoordinator
            | Code::Authentication
            | Code::SSL
    )
}
