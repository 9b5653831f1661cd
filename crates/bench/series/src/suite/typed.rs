//! Defines the suite file: its tests and the keys of a row.

use std::str::FromStr;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use serde::{Deserialize, Serialize};

use super::fill::Fill;

/// A suite, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// What it is, in a few words; its name if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What rows mean where they say nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defaults: Row,
    /// The tests in the order of the cost stack: each is held against the one above it.
    pub tests: Vec<Row>,
}

/// A test, as typed: one value a column. What is left out is as the scenario says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// Its name: letters, digits and `-`, `_`, `.`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The scenario that it runs: a file, which starts at the suite's, or the name of a shipped one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The pipeline that it runs instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// How long the last phase is measured, whatever else would end it; after how long a pipeline ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long the same load is sent before, into a collection of its own that is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Span>,
    /// Values of the scenario or the pipeline that are replaced: `path=value`, as `--set` takes them; in CSV separated by `;`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Operations in flight at most: the writers of a closed load, the connections of any other, the events of a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// How often it is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// Worker threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// How work is spread over threads: `thread-per-worker` is what a scenario has; `pool` or `per_partition` for a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// The CPUs that the load may use, such as `0-3,6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpus: Option<String>,
    /// The CPUs that a server that is started may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpus: Option<String>,
    /// Where the load, or everything of a pipeline that is MongoDB, goes: a mongodb:// URI, `mongod`, `embedded` or
    /// `embedded:relaxed`. One that is started is started for each run anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The storage engine's cache of a server that is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
    /// Where everything of a pipeline that is Kafka goes: `installed`, a broker that is started for each run anew, or
    /// `host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// What the topic that a pipeline reads is filled with before: `2_000_000 of 64B`, `5_000 of 14 words`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// Partitions of topics that are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// What happens to a collection or a topic that is not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<Existing>,
    /// How long the load may take, its audit included, before it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// A figure to show beside this test's, a second: of somebody else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<u64>,
    /// Whose that is: of which machine, of when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside_of: Option<String>,
}

/// What happens to a collection or a topic that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// The test is not begun.
    Refuse,
    /// The collection is dropped first, the topic made anew.
    Drop,
}

impl FromStr for Existing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Refuse, Self::Drop].into_iter().find(|rule| rule.name() == text);
        found.ok_or_else(|| format!("existing {text}: say refuse or drop"))
    }
}

impl Existing {
    /// Its name, as a suite and a scenario write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Drop => "drop",
        }
    }
}

fn is_default(row: &Row) -> bool {
    *row == Row::default()
}
