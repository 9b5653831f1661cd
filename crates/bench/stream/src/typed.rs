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

/// A pipeline: where events come from, what happens to them, where they go, and what is promised.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineFile {
    /// Its name: in metrics, and that under which its positions are kept. The file's name if left out.
    #[serde(default)]
    pub name: String,
    /// The question that running it answers.
    #[serde(default)]
    pub question: String,
    /// How often an event that was read arrives, whatever crashes.
    #[serde(default)]
    pub guarantee: GuaranteeConfig,
    /// Where events come from.
    pub source: SourceSection,
    /// Who may send what; everything is admitted if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<SecuritySettings>,
    /// What happens to events, in this order.
    #[serde(default)]
    pub transforms: Vec<TransformSection>,
    /// Where they go.
    pub sink: SinkSection,
    /// Where those go that cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<SinkSection>,
    /// When there are too many dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_limit: Option<DeadLetterLimitConfig>,
    /// Where positions are kept for sources that keep none themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<PositionsSection>,
    /// How often positions are committed.
    #[serde(default = "default_commit_every")]
    pub commit_every: Span,
    /// How much may be in flight.
    #[serde(default)]
    pub in_flight: LimitsConfig,
    /// Which threads transform and write.
    #[serde(default)]
    pub threads: ExecutorConfig,
    /// How failures are tried again.
    #[serde(default)]
    pub retry: RetryConfig,
}

const fn default_commit_every() -> Span {
    Span::from_secs(1)
}

/// Where events come from, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceSection {
    /// Made-up events.
    Generator(GeneratorConfig),
    /// A file of JSON lines or BSON documents.
    File(FileSettings),
    /// A topic of Kafka, as a member of a group.
    #[cfg(feature = "kafka")]
    Kafka(plimsoll_kafka::scenario::Source),
    /// A topic of Kafka, which this build lacks.
    #[cfg(not(feature = "kafka"))]
    #[serde(skip_serializing)]
    #[schemars(skip)]
    Kafka(crate::missing::NoKafka),
    /// The changes of a collection, a database or a deployment.
    ChangeStream(plimsoll_stores::scenario::ChangeStream),
    /// A collection, from its first `_id` to its last.
    Scan(plimsoll_stores::scenario::Scan),
}

/// What happens to events, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransformSection {
    /// Lets through what a program says yes to.
    Filter(FilterSettings),
    /// Makes another payload of a payload.
    Map(MapSettings),
    /// Lets a share of the events through.
    Sample(SampleSettings),
    /// Counts events in windows of time.
    Count(CountSettings),
    /// Puts each event into a binary envelope.
    Encode(Nothing),
    /// Takes each event out of its envelope.
    Decode(Nothing),
    /// Gives each event the vector of its text.
    #[cfg(feature = "embedding")]
    Embed(plimsoll_onnx::transform::Section),
    /// The vector of each event's text, which this build lacks.
    #[cfg(not(feature = "embedding"))]
    #[serde(skip_serializing)]
    #[schemars(skip)]
    Embed(crate::missing::NoEmbedding),
}

/// A section without settings: `{}`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Where events go, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinkSection {
    /// Nowhere: the ceiling of what comes before.
    Noop(Nothing),
    /// The end of a file.
    File(FileSinkSettings),
    /// A topic of Kafka.
    #[cfg(feature = "kafka")]
    Kafka(plimsoll_kafka::scenario::Sink),
    /// A topic of Kafka, which this build lacks.
    #[cfg(not(feature = "kafka"))]
    #[serde(skip_serializing)]
    #[schemars(skip)]
    Kafka(crate::missing::NoKafka),
    /// A collection that gets a document for each event.
    Insert(plimsoll_stores::scenario::Insert),
    /// A collection that holds the newest event of each key, with its vector.
    Vector(plimsoll_stores::scenario::Vector),
    /// A collection whose transactions keep the positions and the dead letters.
    Transactional(plimsoll_stores::scenario::Transactional),
}

/// Where positions are kept, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PositionsSection {
    /// A file, for one process at a time.
    File(PathBuf),
    /// A collection.
    Collection(plimsoll_stores::scenario::Positions),
}

impl SourceSection {
    /// Its kind, for metrics and words.
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
    /// How many events may be in flight if the file does not say.
    pub fn events_in_flight(&self) -> usize {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(typed) if typed.exactly_once.is_some() => {
                plimsoll_kafka::exactly_once::EVENTS_IN_FLIGHT
            }
            _ => Limits::default().events_max,
        }
    }

    /// Its kind, for metrics and words.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Noop(_) => "noop",
            Self::File(_) => "file",
            Self::Kafka(_) => "kafka",
            Self::Insert(_) => "mongodb_insert",
            Self::Vector(_) => "mongodb_vector",
            Self::Transactional(_) => "mongodb_transactional",
        }
    }
}
