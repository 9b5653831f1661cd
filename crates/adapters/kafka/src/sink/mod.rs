//! Writes a topic at least once: an idempotent writer with many batches in flight.
//!
//! An acknowledged record is on every in-sync replica. A repeated event is written again.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_pipeline::{Identity, Order, Promise, Sink, SinkError, SinkFactory};

use crate::cluster::Cluster;
use crate::error::{Error, words};
use crate::metadata_client::MetadataClient;
use crate::scenario::{self, Placing};
use crate::topic::Admin;

pub use acknowledged::{Acknowledged, Taken};
pub(crate) use record::Target;
use record::request_bytes;
pub(crate) use reports::{Producer, Reports};
use writer::Writer;

mod acknowledged;
mod pending;
mod writer;

pub(crate) mod error_class;
pub(crate) mod partition_throttle;
pub(crate) mod record;
pub(crate) mod reports;

/// The largest record if the broker does not report a limit: Kafka's default.
const RECORD_BYTES_MAX: usize = 1_048_588;
/// The largest number of batches in flight per worker.
const BATCHES_MAX: u16 = 512;

/// Defaults, which the user's properties override: keys select the same partitions as Java's clients, and
/// memory is bounded.
const DEFAULTS: &[(&str, &str)] = &[
    ("partitioner", "murmur2_random"),
    // Twice the time in which a round of records is queued (`partition_throttle`).
    ("linger.ms", "2"),
    ("queue.buffering.max.kbytes", "65536"),
    ("queue.buffering.max.messages", "100000"),
];

/// A topic to write.
pub struct Topic {
    cluster: Cluster,
    to: Target,
    batches_max: u16,
    delivery_timeout: Duration,
    ledger: Option<Arc<Acknowledged>>,
}

impl Topic {
    /// Builds the sink; asks the cluster for the topic and its largest record.
    ///
    /// # Errors
    /// [`Error::NoTopic`], [`Error::Unreachable`], and those of the settings.
    pub fn build(typed: &scenario::Sink) -> Result<Self, Error> {
        let cluster = Cluster::build(&typed.brokers, &typed.properties)?;
        let limit = Duration::from_nanos(typed.connect_limit.as_ns());
        Ok(Self {
            to: target(&cluster, &typed.topic, typed.placing, limit)?,
            cluster,
            batches_max: typed.batches_max.clamp(1, BATCHES_MAX),
            delivery_timeout: Duration::from_nanos(typed.delivery_timeout.as_ns()),
            ledger: None,
        })
    }

    /// Adds every acknowledged record to a ledger.
    #[must_use]
    pub fn with_ledger(self, ledger: Arc<Acknowledged>) -> Self {
        Self { ledger: Some(ledger), ..self }
    }
}

impl SinkFactory for Topic {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: Identity::Copies, order: Order::Kept, writes_dead_letters: false }
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let make = {
            let (cluster, bytes, timeout) = (self.cluster.clone(), self.to.bytes_max, self.delivery_timeout);
            let ledger = self.ledger.clone();
            move || producer(&cluster, &[bytes], timeout, &[], Reports::with_ledger(ledger.clone()))
        };
        let writer = Writer::new(Box::new(make), self.to.clone(), usize::from(self.batches_max));
        Ok(Box::new(writer.map_err(|error| SinkError::Refused(error.to_string()))?))
    }
}

/// An existing topic and its limits.
pub(crate) fn target(
    cluster: &Cluster,
    topic: &str,
    placing: Placing,
    limit: Duration,
) -> Result<Target, Error> {
    let partitions = MetadataClient::of(cluster)?.partitions(topic, limit)?.len();
    let configured = Admin::of(cluster, limit)?.record_bytes_max(topic);
    let bytes_max = configured.unwrap_or(RECORD_BYTES_MAX);
    Ok(Target { topic: topic.to_owned(), placing, bytes_max, partitions })
}

/// Creates a producer for topics with this largest record. No set of records exceeds the smallest limit: a
/// broker refuses a larger set as a whole.
pub(crate) fn producer(
    cluster: &Cluster,
    bytes_max: &[usize],
    timeout: Duration,
    more: &[(&str, &str)],
    reports: Reports,
) -> Result<Producer, Error> {
    let least = request_bytes(bytes_max.iter().min().copied().unwrap_or(RECORD_BYTES_MAX));
    let most = bytes_max.iter().max().copied().unwrap_or(RECORD_BYTES_MAX).clamp(1000, 1_000_000_000);
    let mut config = cluster.config_with(DEFAULTS);
    config.set("enable.idempotence", "true").set("acks", "all");
    config.set("batch.size", least.to_string()).set("message.max.bytes", most.to_string());
    config.set("message.timeout.ms", timeout.as_millis().max(1000).to_string());
    for (name, value) in more {
        config.set(*name, *value);
    }
    config.create_with_context(reports).map_err(|error| Error::Config(words(&error)))
}
