//! Runs the bare client library in a loop: the baseline of the pipeline benchmarks.

use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord};
use rdkafka::{Offset, TopicPartitionList};

use crate::backoff::{self, Backoff};
use crate::cluster::{Cluster, Watch};
use crate::error::{Error, words};
use crate::metadata_client::MetadataClient;

/// The timeout of one poll.
const POLL: Duration = Duration::from_millis(100);

/// The records that a loop moved, and the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// The time from the first record to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of this process meanwhile, in nanoseconds.
    pub cpu_ns: u64,
}

/// The version of the client library.
pub fn library() -> String {
    rdkafka::util::get_rdkafka_version().1
}

/// The record fields that a loop reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Reads only the length of the payload.
    Length,
    /// Reads everything that a source reads: key, payload, time and headers.
    All,
}

/// Reads a topic from its beginning until `records` were seen, or for `limit`, and discards them. The client
/// has the settings of a source's client.
///
/// # Errors
/// [`Error`] if the topic cannot be read.
pub fn consume(
    cluster: &Cluster,
    topic: &str,
    look: Fields,
    records: u64,
    limit: Duration,
) -> Result<Count, Error> {
    let partitions = MetadataClient::of(cluster)?.partitions(topic, limit)?;
    let mut config = crate::source::tuned(cluster);
    config.set("group.id", "plimsoll-bench").set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false");
    let made = config.create_with_context(Watch::default());
    let consumer: BaseConsumer<Watch> = made.map_err(|error| Error::Config(words(&error)))?;
    let mut assignment = TopicPartitionList::new();
    for partition in partitions {
        let added = assignment.add_partition_offset(topic, partition, Offset::Beginning);
        added.map_err(|error| Error::refused("reading from the beginning", &error))?;
    }
    consumer.assign(&assignment).map_err(|error| Error::refused(format!("reading {topic:?}"), &error))?;
    Ok(drain(&consumer, look, records, limit))
}

fn drain(consumer: &BaseConsumer<Watch>, look: Fields, records: u64, limit: Duration) -> Count {
    let (start, mut count) = (clock::now(), Count::default());
    let mut first: Option<(Instant, u64)> = None;
    while count.records < records && !is_over(start, limit) {
        if let Some(Ok(message)) = consumer.poll(POLL) {
            first.get_or_insert_with(|| (clock::now(), clock::process_cpu_ns()));
            count.records += 1;
            count.bytes += match look {
                Fields::Length => message.payload_len() as u64,
                Fields::All => all(&message),
            };
        }
    }
    if let Some((began, cpu_ns)) = first {
        count.elapsed_ns = clock::now().since(began);
        count.cpu_ns = clock::process_cpu_ns() - cpu_ns;
    }
    count
}

/// Reads everything; returns the length of the payload.
fn all(message: &BorrowedMessage<'_>) -> u64 {
    let (place, payload) = ((message.partition(), message.offset()), message.payload());
    std::hint::black_box((place, message.timestamp(), message.key(), payload, message.headers()));
    payload.map_or(0, |payload| payload.len() as u64)
}

/// Writes records to a topic, idempotently and acknowledged by all replicas, with keys that spread them;
/// `make` appends each payload.
///
/// # Errors
/// [`Error::Refused`] with the first refused record.
pub fn produce(
    cluster: &Cluster,
    topic: &str,
    records: u64,
    make: &mut dyn FnMut(u64, &mut Vec<u8>),
) -> Result<Count, Error> {
    let mut config = cluster.config();
    config.set("enable.idempotence", "true").set("linger.ms", "5");
    let producer: BaseProducer = config.create().map_err(|error| Error::Config(words(&error)))?;
    let (start, cpu_ns) = (clock::now(), clock::process_cpu_ns());
    let (mut count, mut payload) = (Count { records, ..Count::default() }, Vec::new());
    for number in 0..records {
        payload.clear();
        make(number, &mut payload);
        count.bytes += payload.len() as u64;
        send(&producer, topic, number, &payload)?;
    }
    backoff::drain(&producer);
    count.elapsed_ns = clock::now().since(start);
    count.cpu_ns = clock::process_cpu_ns() - cpu_ns;
    Ok(count)
}

fn send(producer: &BaseProducer, topic: &str, number: u64, payload: &[u8]) -> Result<(), Error> {
    let key = number.to_be_bytes();
    let mut record = BaseRecord::to(topic).key(&key[..]).payload(payload);
    let mut backoff = Backoff::new();
    loop {
        match producer.send(record) {
            Ok(()) => break,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                producer.poll(Duration::ZERO);
                backoff.sleep(Duration::MAX);
            }
            Err((error, _)) => return Err(Error::refused(format!("writing to {topic:?}"), &error)),
        }
    }
    if number.is_multiple_of(1024) {
        producer.poll(Duration::ZERO);
    }
    Ok(())
}

fn is_over(start: Instant, limit: Duration) -> bool {
    u128::from(clock::now().since(start)) >= limit.as_nanos()
}
