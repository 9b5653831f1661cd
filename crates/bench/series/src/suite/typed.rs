//! Defines the suite file: its tests and the keys of a row.

use std::str::FromStr;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use serde::{Deserialize, Serialize};

use super::fill::Fill;

/// A suite in the form of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Its title. Default: its name.
    #[serde(default)]
    pub title: Option<String>,
    /// The question that it answers.
    #[serde(default)]
    pub question: Option<String>,
    /// The values of columns that a row does not set.
    #[serde(default)]
    pub defaults: Row,
    /// The tests in the order of the cost stack: each is compared with the one above it.
    pub tests: Vec<Row>,
}

/// A test in the form of its row: one value per column. An unset column keeps the scenario's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// Its name: letters, digits and `-`, `_`, `.`
    pub name: Option<String>,
    /// Its scenario: a file, relative to the suite's, or the name of a shipped scenario.
    pub scenario: Option<String>,
    /// Its pipeline, instead of a scenario.
    pub pipeline: Option<String>,
    /// The duration of a pipeline's run, or of the last phase in place of its other limits.
    pub duration: Option<Span>,
    /// The length of a warm-up: the same load into its own collection, which is dropped.
    pub warm_up: Option<Span>,
    /// Replaced values of the scenario or the pipeline: `path=value`, as `--set` takes them; in CSV separated by `;`.
    pub overrides: Vec<String>,
    /// The maximum number of operations in flight: the writers of a closed load, the connections of any other load, the events
    /// of a pipeline.
    pub in_flight: Option<u32>,
    /// Its number of runs.
    pub repetitions: Option<u32>,
    /// The number of worker threads.
    pub threads: Option<u32>,
    /// The distribution of work over threads: `thread-per-worker` for a scenario; `pool` or `per_partition` for a pipeline.
    pub executor: Option<String>,
    /// The CPUs of the load, such as `0-3,6`.
    pub client_cpus: Option<String>,
    /// The CPUs of a server that the suite starts.
    pub server_cpus: Option<String>,
    /// The server of the load, or of a pipeline's MongoDB parts: a mongodb:// URI, `mongod`, `embedded` or `embedded:relaxed`.
    /// The last three start a new server for each run.
    pub server: Option<String>,
    /// The storage engine's cache of a server that the suite starts.
    pub cache: Option<Bytes>,
    /// The brokers of a pipeline's Kafka parts: `installed`, a new broker for each run, or `host:port`.
    pub broker: Option<String>,
    /// The fill of the topic that a pipeline reads: `2_000_000 of 64B`, `5_000 of 14 words`.
    pub fill: Option<Fill>,
    /// The number of partitions of created topics.
    pub partitions: Option<u32>,
    /// The rule for a collection or a topic that is not empty.
    pub existing: Option<Existing>,
    /// The longest time of the load and its audit.
    pub timeout: Option<Span>,
    /// A published rate to compare with this test's, per second.
    #[serde(alias = "beside")]
    pub reference: Option<u64>,
    /// The source of the published rate: author, machine and date.
    #[serde(alias = "beside_of")]
    pub reference_of: Option<String>,
}

/// The rule for a collection or a topic that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// The test does not start.
    Refuse,
    /// The collection is dropped first, the topic is recreated.
    Drop,
}

impl FromStr for Existing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Refuse, Self::Drop].into_iter().find(|rule| rule.name() == text);
        found.ok_or_else(|| format!("existing {text}: use refuse or drop"))
    }
}

impl Existing {
    /// Its name in suites and scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Drop => "drop",
        }
    }
}
