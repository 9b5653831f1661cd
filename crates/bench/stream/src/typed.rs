//! Defines the pipeline file. Each crate owns its section.

use std::path::PathBuf;

use plimsoll_measure::duration::Span;
use plimsoll_pipeline::Limits;
use plimsoll_pipeline::config::{
    DeadLetterLimitConfig, ExecutorConfig, GeneratorConfig, GuaranteeConfig, LimitsConfig, RetryConfig,
};
use plimsoll_pipeline::security::SecuritySettings;
use plimsoll_pipeline::sink::FileSinkSettings;
use plimsoll_pipeline::source::FileSettings;
use plimsoll_pipeline::transform::{CountSettings, FilterSettings, MapSettings, SampleSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pipeline: a source, transforms, a sink and a guarantee.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineFile {
    /// The name, in metrics and in the position store; by default the file's name.
    #[serde(default)]
    pub name: String,
    /// The question that a run answers.
    #[serde(default)]
    pub question: String,
    /// The delivery guarantee.
    #[serde(default)]
    pub guarantee: GuaranteeConfig,
    /// The source of the events.
    pub source: SourceSection,
    /// The rules that admit events; by default all events are admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<SecuritySettings>,
    /// The transforms, in order.
    #[serde(default)]
    pub transforms: Vec<TransformSection>,
    /// The sink of the events.
    pub sink: SinkSection,
    /// The sink of rejected events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<SinkSection>,
    /// The limit of dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_limit: Option<DeadLetterLimitConfig>,
    /// The position store for sources that keep no positions themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<PositionsSection>,
    /// The interval at which positions are committed.
    #[serde(default = "default_commit_every")]
    pub commit_every: Span,
    /// The limits of events in flight.
    #[serde(default)]
    pub in_flight: LimitsConfig,
    /// The threads that transform and write.
    #[serde(default)]
    pub threads: ExecutorConfig,
    /// The retries of failures.
    #[serde(default)]
    pub retry: RetryConfig,
}

const fn default_commit_every() -> Span {
    Span::from_secs(1)
}

/// The source of the events, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceSection {
    /// Generated events.
    Generator(GeneratorConfig),
    /// A file of JSON lines or BSON documents.
    File(FileSettings),
    /// A Kafka topic, read as a member of a group.
    #[cfg(feature = "kafka")]
    Kafka(plimsoll_kafka::scenario::Source),
    /// A Kafka topic, which this build lacks.
    #[cfg(not(feature = "kafka"))]
    #[serde(skip_serializing)]
    #[schemars(skip)]
    Kafka(crate::missing::NoKafka),
    /// The changes of a collection, a database or a deployment.
    ChangeStream(plimsoll_stores::scenario::ChangeStream),
    /// A collection, from its first `_id` to its last.
    Scan(plimsoll_stores::scenario::Scan),
}

/// A transform, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransformSection {
    /// Keeps the events that a program selects.
    Filter(FilterSettings),
    /// Replaces the payload.
    Map(MapSettings),
    /// Keeps a share of the events.
    Sample(SampleSettings),
    /// Counts events in time windows.
    Count(CountSettings),
    /// Puts each event into a binary envelope.
    Encode(Nothing),
    /// Opens the envelope of each event.
    Decode(Nothing),
    /// Adds the vector of each event's text.
    #[cfg(feature = "embedding")]
    Embed(plimsoll_onnx::transform::Section),
    /// Adds the vector of each event's text, which this build lacks.
    #[cfg(not(feature = "embedding"))]
    #[serde(skip_serializing)]
    #[schemars(skip)]
    Embed(crate::missing::NoEmbedding),
}

/// A section without settings: `{}`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A sink, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinkSection {
    /// No sink: measures the ceiling of the source and the transforms.
    Noop(Nothing),
    /// A file, appended to.
    File(FileSinkSettings),
    /// A Kafka topic.
    #[cfg(feature = "kafka")]
    Kafka(plimsoll_kafka::scenario::Sink),
    /// A Kafka topic, which this build lacks.
    #[cfg(not(feature = "kafka"))]
    #[serde(skip_serializing)]
    #[schemars(skip)]
    Kafka(crate::missing::NoKafka),
    /// A collection with a document for each event.
    Insert(plimsoll_stores::scenario::Insert),
    /// A collection with the newest document of each `_id`.
    Keyed(plimsoll_stores::scenario::Keyed),
    /// A collection with the newest event of each key and its vector.
    Vector(plimsoll_stores::scenario::Vector),
    /// A collection whose transactions store the positions and the dead letters.
    Transactional(plimsoll_stores::scenario::Transactional),
}

/// A position store, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PositionsSection {
    /// A file, for one process at a time.
    File(PathBuf),
    /// A collection.
    Collection(plimsoll_stores::scenario::Positions),
}

impl SourceSection {
    /// The kind, for metrics and messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Generator(_) => "generator",
            Self::File(_) => "file",
            Self::Kafka(_) => "kafka",
            Self::ChangeStream(_) => "mongodb_change_stream",
            Self::Scan(_) => "mongodb_scan",
        }
    }
}

impl SinkSection {
    /// The default limit of events in flight.
    pub fn events_in_flight(&self) -> usize {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(typed) if typed.exactly_once.is_some() => {
                plimsoll_kafka::exactly_once::EVENTS_IN_FLIGHT
            }
            _ => Limits::default().events_max,
        }
    }

    /// The kind, for metrics and messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Noop(_) => "noop",
            Self::File(_) => "file",
            Self::Kafka(_) => "kafka",
            Self::Insert(_) => "mongodb_insert",
            Self::Keyed(_) => "mongodb_keyed",
            Self::Vector(_) => "mongodb_vector",
            Self::Transactional(_) => "mongodb_transactional",
        }
    }
}
