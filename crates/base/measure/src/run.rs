//! The summary of a run: `run.json`, format 1.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, ServerFacts};
use crate::inspection::Collection;
use crate::integrity::Integrity;
use crate::ladder::Ladder;
use crate::line::{Line, NotSeen, Suspect};

mod answers;
mod cost;
mod operation;
mod phase;

pub use answers::{Answers, Check};
pub use cost::{Client, ServerCost};
pub use operation::{Operation, SecondsSpread};
pub use phase::{PhaseFacts, WarmUp};

/// The version of the file's form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// What the run as a whole is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that had to hold did hold.
    Pass,
    /// An expectation or the integrity did not hold.
    Fail,
    /// The numbers do not say what they seem to say; `reasons` tells why.
    #[default]
    Invalid,
}

/// The whole summary of a run. Latencies are in nanoseconds; what cannot be known is absent or null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of this form: 1.
    pub format: u32,
    /// The run's identity, 14 hex digits; every receipt of the run starts with it.
    pub id: String,
    /// `run` or `line`.
    pub command: String,
    /// When it started, in UTC (RFC 3339).
    pub started: String,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
    /// When the load was to begin, in milliseconds since 1970; absent where it began as soon as everything was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ms: Option<u64>,
    /// When the load began, in milliseconds since 1970; absent where none did, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<u64>,
    /// The shards that it was joined from; absent where one process measured all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    /// How long the load lasted, in seconds.
    pub duration_s: f64,
    /// What the run as a whole is worth.
    pub verdict: Verdict,
    /// Why the verdict is not `pass`.
    pub reasons: Vec<String>,
    /// Whether a signal or a lost server ended it early.
    pub interrupted: bool,
    /// Why the scenario itself ended it early: a threshold that broke, or a rate that was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<String>,
    /// What was run.
    pub scenario: ScenarioFacts,
    /// Against what.
    pub server: ServerFacts,
    /// On what machine.
    pub environment: Environment,
    /// The phases in order.
    pub phases: Vec<PhaseFacts>,
    /// What each operation did, by name.
    pub operations: BTreeMap<String, Operation>,
    /// What a service answered, by operation: its statuses, and the checks of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answers>,
    /// What each server had of the load, where it was spread over several.
    #[serde(default)]
    pub spread: Vec<ServerShare>,
    /// What was done to the server on the way, and what that did to the load.
    #[serde(default)]
    pub faults: Vec<FaultFacts>,
    /// Whether what was promised is there.
    pub integrity: Option<Integrity>,
    /// What the tool itself cost, and whether it held the load back.
    pub client: Client,
    /// What the server cost.
    pub server_cost: ServerCost,
    /// The collection before the load, as the server told; of several servers the first one's.
    #[serde(default)]
    pub collection_before: Option<Collection>,
    /// The same after the audit.
    #[serde(default)]
    pub collection_after: Option<Collection>,
    /// The collections of the database behind a service that was started for the run, before the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections_before: Vec<Collection>,
    /// The same after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections_after: Vec<Collection>,
    /// What had to hold.
    pub expectations: Vec<Expectation>,
    /// The load line, for `line`.
    pub line: Option<Line>,
    /// Resources at their limit in the last phase: of a closed-loop `run`, or of one that missed its rate.
    #[serde(default, alias = "held_back", skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// Throughput at rising concurrency, for `ladder`.
    #[serde(default)]
    pub ladder: Option<Ladder>,
    /// What it all says, in plain sentences.
    pub conclusions: Vec<String>,
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioFacts {
    /// The file's stem.
    pub name: String,
    /// Its title.
    pub title: String,
    /// SHA-256 of the scenario as resolved, in hex.
    pub hash: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Shard as `i/n`.
    pub shard: String,
    /// `lean` or `driver`.
    pub client: String,
    /// Collections that the load went to.
    pub collections: Vec<String>,
}

/// Resources at their limit in a phase. A resource at its limit need not be the bottleneck: only `line` proves that, by
/// comparing with a rate that holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// The phase.
    pub phase: String,
    /// Why it was not looked at; absent where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What stood at its limit, from the client to the disk.
    pub at_limit: Vec<Suspect>,
    /// What did not.
    pub below: Vec<Suspect>,
    /// What could not be looked at.
    pub not_seen: Vec<NotSeen>,
}

/// The shards that a run was joined from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// By how much the first of them began before the last, in seconds, each by its own machine's clock.
    pub apart_s: f64,
    /// The same of the phase in which that was most: only the first begins at a moment that all know.
    pub phases_apart_s: f64,
    /// Every shard, in order.
    pub shards: Vec<ShardFacts>,
}

/// One shard of a run that was joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardFacts {
    /// Shard as `i/n`.
    pub shard: String,
    /// Its run directory, as it was named.
    pub directory: String,
    /// When its load began, in milliseconds since 1970.
    pub began_ms: u64,
    /// Operations acknowledged to it.
    pub operations: u64,
    /// Documents acknowledged to it.
    pub documents: u64,
    /// What it was worth by itself.
    pub verdict: Verdict,
    /// The machine that it ran on.
    pub environment: Environment,
}

/// What one of several servers had of the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerShare {
    /// `host:port`.
    pub address: String,
    /// Operations sent to it.
    pub operations: u64,
    /// Documents that it acknowledged.
    pub documents: u64,
    /// Operations of which something failed.
    pub failed: u64,
    /// Operations whose turn it was, and that went to the next server because it was away.
    pub passed_over: u64,
    /// Why it was away the last time; absent if it never was.
    pub away: Option<String>,
}

impl ServerShare {
    /// Adds what another worker sent to the same server.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.documents += other.documents;
        self.failed += other.failed;
        self.passed_over += other.passed_over;
        if self.away.is_none() {
            self.away.clone_from(&other.away);
        }
    }
}

/// One fault that was injected. Moments are seconds from the run's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultFacts {
    /// What it was, such as `kill`.
    pub name: String,
    /// The phase that it happened in.
    pub phase: String,
    /// When it began.
    pub from_s: f64,
    /// When it was undone and the server could work again; absent where that failed.
    pub to_s: Option<f64>,
    /// What went wrong with the fault itself.
    pub error: Option<String>,
    /// The longest stretch without a success after it began; zero where none stands out from the load before.
    pub outage_s: f64,
    /// The last success before that stretch.
    pub last_success_s: Option<f64>,
    /// The first failure after it began.
    pub first_error_s: Option<f64>,
    /// The first success after that stretch; absent where there was none.
    pub first_success_s: Option<f64>,
    /// Start of the first three seconds in a row in which the objective held again; absent where it did not.
    pub held_again_s: Option<f64>,
    /// Operations that failed from its beginning to the next fault, or to the phase's end, by class.
    pub errors: BTreeMap<String, u64>,
}

/// One thing that had to hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// The metric, such as `insert.response`.
    pub metric: String,
    /// The expression, such as `p(99)<50ms`.
    pub expression: String,
    /// What was measured; absent where it could not be known.
    pub value: Option<f64>,
    /// Whether it held. What could not be known did not hold.
    pub held: bool,
    /// Why it could not be known.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_from_before_there_were_shards_to_join_is_read() {
        let mut file = serde_json::to_value(Run::default()).unwrap();
        let keys = file.as_object_mut().unwrap();
        assert!(["start_at_ms", "began_ms", "joined"].iter().all(|key| !keys.contains_key(*key)));
        assert_eq!(serde_json::from_value::<Run>(file).unwrap(), Run::default());
    }
    #[test]
    fn renamed_keys_are_read_under_their_old_names() {
        let mut file = serde_json::to_value(Run {
            bottleneck: Some(Bottleneck { phase: "load".into(), ..Bottleneck::default() }),
            client: Client {
                calibration_ping_ns: vec![7],
                calibration_null_per_s: vec![5.0],
                ..Client::default()
            },
            ..Run::default()
        })
        .unwrap();
        let expected: Run = serde_json::from_value(file.clone()).unwrap();
        let rename = |object: &mut serde_json::Value, new: &str, old: &str| {
            let object = object.as_object_mut().unwrap();
            let value = object.remove(new).unwrap();
            object.insert(old.to_owned(), value);
        };
        rename(&mut file, "bottleneck", "held_back");
        rename(&mut file["client"], "calibration_ping_ns", "canary_ping_ns");
        rename(&mut file["client"], "calibration_null_per_s", "canary_null_per_s");
        assert_eq!(serde_json::from_value::<Run>(file).unwrap(), expected);
    }
}
