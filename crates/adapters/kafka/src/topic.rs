//! Creates, describes, empties and deletes topics.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use plimsoll_measure::clock;
use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication,
    TopicResult,
};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};

use crate::cluster::{Cluster, Watch};
use crate::error::{Error, describe, words};
use crate::metadata_client::MetadataClient;

/// The interval at which a topic under creation or removal is polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The limit of partitions: a larger number is a mistake.
pub const PARTITIONS_MAX: u16 = 1024;

/// The shape of a new topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// The number of partitions, between 1 and [`PARTITIONS_MAX`].
    pub partitions: u16,
    /// The number of replicas.
    pub replicas: u16,
    /// Its own properties: `retention.ms`, `message.timestamp.type`, `max.message.bytes` and others.
    pub properties: Vec<(String, String)>,
}

impl Topic {
    /// A topic with one replica and without properties.
    pub fn new(name: impl Into<String>, partitions: u16) -> Self {
        Self { name: name.into(), partitions, replicas: 1, properties: Vec::new() }
    }

    /// Adds a property.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }
}

/// The begin and end of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its number.
    pub partition: u32,
    /// The first available offset.
    pub begin: u64,
    /// The offset after the last record; with gaps there are fewer records than `end - begin`.
    pub end: u64,
}

/// A client that administers topics. All functions block, at most for the limit.
pub struct Admin {
    client: AdminClient<Watch>,
    metadata: MetadataClient,
    limit: Duration,
}

impl Admin {
    /// Creates a client of a cluster. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn of(cluster: &Cluster, limit: Duration) -> Result<Self, Error> {
        let client = cluster.config().create_with_context(Watch::default());
        let client = client.map_err(|error| Error::Config(words(&error)))?;
        Ok(Self { client, metadata: MetadataClient::of(cluster)?, limit })
    }

    /// Creates a topic and waits until every partition has a leader.
    ///
    /// # Errors
    /// [`Error::TopicExists`]; [`Error::Refused`], also when no broker answers.
    pub fn create(&self, topic: &Topic) -> Result<(), Error> {
        let partitions = i32::from(topic.partitions.clamp(1, PARTITIONS_MAX));
        let replicas = TopicReplication::Fixed(i32::from(topic.replicas));
        let mut new = NewTopic::new(&topic.name, partitions, replicas);
        for (name, value) in &topic.properties {
            new = new.set(name, value);
        }
        let made = wait(self.client.create_topics([&new], &self.options()));
        self.judge("making", &topic.name, made)?;
        self.until(
            "making",
            &topic.name,
            |found| matches!(found, Ok(count) if count == usize::from(topic.partitions)),
        )
    }

    /// Deletes a topic and waits until it is gone; a missing topic counts as gone.
    ///
    /// # Errors
    /// [`Error::Refused`], also when no broker answers.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        let removed = wait(self.client.delete_topics(&[name], &self.options()));
        match self.judge("removing", name, removed) {
            Err(Error::NoTopic { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.until("removing", name, |found| matches!(found, Err(Error::NoTopic { .. }))),
        }
    }

    /// Deletes and recreates a topic: its records are gone, and its offsets begin at zero.
    ///
    /// # Errors
    /// Those of [`Admin::delete`] and [`Admin::create`].
    pub fn reset(&self, topic: &Topic) -> Result<(), Error> {
        self.delete(&topic.name)?;
        // A broker may still be removing a topic that the cluster has already removed.
        let began = clock::now();
        loop {
            match self.create(topic) {
                Err(Error::TopicExists(_)) if !self.is_over(began) => thread::sleep(LOOK_EVERY),
                result => return result,
            }
        }
    }

    /// The begin and end of each partition of a topic, in order.
    ///
    /// # Errors
    /// [`Error::NoTopic`], [`Error::Unreachable`], [`Error::Refused`].
    pub fn describe(&self, name: &str) -> Result<Vec<Extent>, Error> {
        let extent = |number| {
            let (begin, end) = self.metadata.ends(name, number, self.limit)?;
            let [begin, end] = [begin, end].map(|offset| u64::try_from(offset).unwrap_or_default());
            Ok(Extent { partition: number.unsigned_abs(), begin, end })
        };
        self.metadata.partitions(name, self.limit)?.into_iter().map(extent).collect()
    }

    /// Reads the settings that recreate a topic: partitions, replicas, and its own properties, without those inherited from the
    /// brokers.
    ///
    /// # Errors
    /// [`Error::NoTopic`], [`Error::Unreachable`]; [`Error::Refused`], also when the broker does not return
    /// the properties.
    pub fn as_made(&self, name: &str) -> Result<Topic, Error> {
        let (partitions, replicas) = self.metadata.shape(name, self.limit)?;
        let refused = |reason| Error::Refused {
            action: format!("requesting the settings of the topic {name:?}"),
            reason,
        };
        let own = self.config(name).map_err(refused)?.entries.into_iter();
        let own = own.filter(|entry| entry.source == ConfigSource::DynamicTopic);
        let properties = own.filter_map(|entry| Some((entry.name, entry.value?))).collect();
        Ok(Topic { name: name.to_owned(), partitions, replicas, properties })
    }

    /// The topic's largest record in bytes, if the broker reports it.
    pub(crate) fn record_bytes_max(&self, name: &str) -> Option<usize> {
        self.config(name).ok()?.get("max.message.bytes")?.value.as_ref()?.parse().ok()
    }

    /// The properties of a topic, or the reason why the broker does not return them.
    fn config(&self, name: &str) -> Result<ConfigResource, String> {
        let asked = wait(self.client.describe_configs([&ResourceSpecifier::Topic(name)], &self.options()));
        let answer = asked.map_err(|error| words(&error))?.pop();
        answer.ok_or_else(|| "the broker returned nothing".to_owned())?.map_err(describe)
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.limit)).operation_timeout(Some(self.limit))
    }

    fn judge(&self, doing: &str, name: &str, answer: KafkaResult<Vec<TopicResult>>) -> Result<(), Error> {
        let refused = |reason| Error::Refused { action: format!("{doing} the topic {name:?}"), reason };
        match answer.map(|mut results| results.pop()) {
            Ok(Some(Ok(_))) => Ok(()),
            Ok(Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists)))) => {
                Err(Error::TopicExists(name.to_owned()))
            }
            Ok(Some(Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)))) => {
                Err(self.metadata.no_topic(name))
            }
            Ok(Some(Err((_, code)))) => Err(refused(describe(code))),
            Ok(None) => Err(refused("the broker returned nothing".to_owned())),
            Err(error) => Err(refused(words(&error))),
        }
    }

    /// Requests a topic's partitions until the answer is accepted.
    fn until(
        &self,
        doing: &str,
        name: &str,
        will_do: impl Fn(Result<usize, Error>) -> bool,
    ) -> Result<(), Error> {
        let began = clock::now();
        while !will_do(self.metadata.partitions(name, self.limit).map(|partitions| partitions.len())) {
            if self.is_over(began) {
                let reason = format!("not done within {} s", self.limit.as_secs());
                return Err(Error::Refused { action: format!("{doing} the topic {name:?}"), reason });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn is_over(&self, began: clock::Instant) -> bool {
        u128::from(clock::now().since(began)) >= self.limit.as_nanos()
    }
}

/// Waits for a future that another thread completes.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
