//! Provides brokers, topics, pipelines on threads, and readers that share no code with the crate.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_host::Cache;
use plimsoll_kafka::broker::{Broker, Settings as BrokerSettings};
use plimsoll_kafka::topic::{Admin, Extent, Topic};
use plimsoll_kafka::{Cluster, Membership, Source, exactly_once, scenario, sink};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{
    Control, Ended, Error, Executor, Limits, Parts, Pipeline, Settings, SinkFactory, Source as Port,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::OwnedMessage;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// The time limit of every wait.
pub const LONG: Duration = Duration::from_secs(400);

/// The broker that tests share unless they disturb it.
pub fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(own_broker)
}

/// A broker for one test.
pub fn own_broker() -> Broker {
    let settings = BrokerSettings { heap_bytes_max: 256 << 20, ..BrokerSettings::default() };
    let cache = Cache::locate().unwrap();
    Broker::start(cache.root(), settings).unwrap_or_else(|error| panic!("{error}"))
}

pub fn admin(brokers: &str) -> Admin {
    Admin::of(&Cluster::at(brokers), LONG).unwrap()
}

/// Creates a topic for one test.
pub fn topic(brokers: &str, name: &str, partitions: u16) -> String {
    admin(brokers).reset(&Topic::new(name, partitions)).unwrap();
    name.to_owned()
}

pub fn ends(brokers: &str, topic: &str) -> Vec<Extent> {
    admin(brokers).describe(topic).unwrap()
}

/// The settings of a source, as typed.
pub fn from(brokers: &str, topic: &str, group: &str) -> scenario::Source {
    let typed = serde_json::json!({
        "brokers": brokers, "topic": topic, "group": group, "start": "earliest", "settle_limit": "20s",
        "properties": {"session.timeout.ms": 10000},
    });
    serde_json::from_value(typed).unwrap()
}

/// The settings of a sink, as typed.
pub fn to(brokers: &str, topic: &str) -> scenario::Sink {
    let typed = serde_json::json!({"brokers": brokers, "topic": topic, "placing": "same"});
    serde_json::from_value(typed).unwrap()
}

/// Adds transactions.
pub fn once(id: &str, dead_letters: Option<&str>) -> scenario::ExactlyOnce {
    let typed = serde_json::json!({"transactional_id": id, "dead_letters": dead_letters, "age_max": "100ms"});
    serde_json::from_value(typed).unwrap()
}

/// A pipeline on its own thread.
pub struct Running {
    pub control: Arc<Control>,
    pub pipeline: JoinHandle<Result<Ended, Error>>,
}

impl Running {
    /// Drains the pipeline.
    pub fn end(self) -> Result<Ended, Error> {
        self.control.drain();
        self.pipeline.join().unwrap()
    }
}

pub const SMALL: Limits =
    Limits { events_max: 4000, bytes_max: 16 << 20, batch_events_max: 200, event_bytes_max: 1 << 20 };

pub fn settings(guarantee: Guarantee) -> Settings {
    Settings {
        guarantee,
        limits: SMALL,
        executor: Executor::Pool(2),
        commit_every: Duration::from_millis(200),
        ..Settings::default()
    }
}

pub fn parts(source: Box<dyn Port>, sink: Box<dyn SinkFactory>) -> Parts {
    Parts { sources: vec![source], transforms: Vec::new(), sink, dead_letters: None, positions: None }
}

pub fn start(parts: Parts, settings: Settings) -> Running {
    let control = Arc::new(Control::default());
    let pipeline =
        Pipeline::build(parts, settings, Arc::clone(&control)).unwrap_or_else(|error| panic!("{error}"));
    Running { control, pipeline: thread::spawn(move || pipeline.run()) }
}

/// Copies a topic to a topic, at least once.
pub fn copy(source: &scenario::Source, sink: &scenario::Sink) -> Running {
    let parts = parts(Box::new(Source::build(source).unwrap()), Box::new(sink::Topic::build(sink).unwrap()));
    start(parts, settings(Guarantee::AtLeastOnce))
}

/// Copies a topic to a topic, exactly once.
pub fn copy_once(source: &scenario::Source, sink: &scenario::Sink, once: &scenario::ExactlyOnce) -> Running {
    let membership = Arc::new(Membership::default());
    let source = Source::build(source).unwrap().with_membership(Arc::clone(&membership));
    let sink = exactly_once::Topic::build(sink, once, Arc::clone(&membership)).unwrap();
    let parts = Parts { positions: Some(membership), ..parts(Box::new(source), Box::new(sink)) };
    start(parts, settings(Guarantee::EffectivelyOnce))
}

/// Writes `each` numbered records to each partition, with the bare client.
pub fn fill(brokers: &str, topic: &str, partitions: u16, each: u64) {
    let producer = producer(brokers);
    for number in 0..each {
        for partition in 0..partitions {
            let text = format!("{partition}-{number}");
            put(
                &producer,
                BaseRecord::to(topic).partition(partition.into()).key(text.as_str()).payload(text.as_str()),
            );
        }
    }
    producer.flush(LONG).unwrap();
}

pub fn producer(brokers: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("linger.ms", "5");
    config.create().unwrap()
}

pub fn put(producer: &BaseProducer, record: BaseRecord<'_, str, str>) {
    let mut record = record;
    while let Err((error, back)) = producer.send(record) {
        assert_eq!(error.rdkafka_error_code(), Some(rdkafka::types::RDKafkaErrorCode::QueueFull));
        producer.poll(Duration::from_millis(1));
        record = back;
    }
}

/// Reads all committed records, partition by partition, with the bare client.
pub fn read(brokers: &str, topic: &str) -> Vec<OwnedMessage> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "reader").set("enable.auto.commit", "false");
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    let extents = ends(brokers, topic);
    for extent in &extents {
        list.add_partition_offset(topic, extent.partition as i32, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut found, mut open) = (Vec::new(), extents.len());
    while open > 0 {
        match consumer.poll(LONG).expect("the topic can be read") {
            Ok(message) => found.push(message.detach()),
            Err(rdkafka::error::KafkaError::PartitionEOF(_)) => open -= 1,
            Err(error) => panic!("{error}"),
        }
    }
    found
}

/// Counts each payload with Kafka's own console consumer, which shares no code with the crate.
pub fn read_with_kafkas_own(brokers: &str, topic: &str) -> BTreeMap<String, u32> {
    let mut java = kafkas_own("consumer.ConsoleConsumer", brokers);
    java.args([
        "--topic",
        topic,
        "--from-beginning",
        "--isolation-level",
        "read_committed",
        "--timeout-ms",
        "15000",
    ]);
    let output = java.output().unwrap();
    let mut counts = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// Removes the records of a partition before an offset, as retention does, with Kafka's own tool.
pub fn remove_before(brokers: &str, topic: &str, partition: u32, offset: u64) {
    let place = serde_json::json!({"topic": topic, "partition": partition, "offset": offset});
    let places = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&places, &serde_json::json!({"partitions": [place], "version": 1})).unwrap();
    let mut java = kafkas_own("DeleteRecordsCommand", brokers);
    let output = java.arg("--offset-json-file").arg(places.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The command of a Kafka tool.
fn kafkas_own(tool: &str, brokers: &str) -> Command {
    let cache = Cache::locate().unwrap();
    let jars = cache.root().join(format!("kafka-{}/*", plimsoll_kafka::broker::VERSION));
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error").arg("-cp").arg(jars);
    java.arg(format!("org.apache.kafka.tools.{tool}")).args(["--bootstrap-server", brokers]);
    java
}

/// The payloads that [`fill`] writes.
pub fn expected(partitions: u16, each: u64) -> impl Iterator<Item = String> {
    (0..partitions).flat_map(move |partition| (0..each).map(move |number| format!("{partition}-{number}")))
}

/// The missing payloads, and those found more than once.
pub fn audit(counts: &BTreeMap<String, u32>, partitions: u16, each: u64) -> (Vec<String>, Vec<String>) {
    let missing = expected(partitions, each).filter(|text| !counts.contains_key(text)).collect();
    let doubled = counts.iter().filter(|(_, count)| **count > 1).map(|(text, _)| text.clone()).collect();
    (missing, doubled)
}

pub fn counts(messages: &[OwnedMessage]) -> BTreeMap<String, u32> {
    use rdkafka::Message;
    let mut counts = BTreeMap::new();
    for message in messages {
        let mut text = String::new();
        write!(text, "{}", String::from_utf8_lossy(message.payload().unwrap_or_default())).unwrap();
        *counts.entry(text).or_default() += 1;
    }
    counts
}

/// The committed offsets of a group, by partition.
pub fn committed(brokers: &str, topic: &str, group: &str) -> BTreeMap<u32, u64> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", group);
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    ends(brokers, topic).iter().for_each(|extent| {
        list.add_partition(topic, extent.partition as i32);
    });
    // A busy or moving coordinator refuses the request, which is then repeated.
    let mut found = Err(rdkafka::error::KafkaError::Canceled);
    until("the group's offsets", || {
        found = consumer.committed_offsets(list.clone(), LONG);
        found.is_ok()
    });
    let found = found.unwrap();
    let offset = |at: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match at.offset() {
        Offset::Offset(offset) => Some((at.partition() as u32, offset as u64)),
        _ => None,
    };
    found.elements().into_iter().filter_map(offset).collect()
}

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = plimsoll_measure::clock::now();
    while !holds() {
        let waited = plimsoll_measure::clock::now().since(began);
        assert!(u128::from(waited) < LONG.as_nanos(), "{what} did not come within {LONG:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a topic has this many records, transaction markers included.
pub fn until_written(brokers: &str, topic: &str, records: u64) {
    until("the records", || {
        ends(brokers, topic).iter().map(|extent| extent.end - extent.begin).sum::<u64>() >= records
    });
}

/// Whether a group has committed everything in a topic.
pub fn is_committed(brokers: &str, topic: &str, group: &str) -> bool {
    let all: BTreeMap<_, _> =
        ends(brokers, topic).iter().map(|extent| (extent.partition, extent.end)).collect();
    committed(brokers, topic, group) == all
}

/// Waits until a group has committed everything in a topic.
pub fn until_committed(brokers: &str, topic: &str, group: &str) {
    until("the commit", || is_committed(brokers, topic, group));
}
