//! Defines the summary of a run: `run.json`, format 1.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock_offset::ServerClock;
use crate::environment::{Environment, ServerFacts};
use crate::first_error::FirstError;
use crate::histogram::Latency;
use crate::inspection::Collection;
use crate::integrity::Integrity;
use crate::ladder::Ladder;
use crate::line::{Candidate, Line, Unchecked};
use crate::workflow::Workflow;

/// The version of the file's form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// The verdict of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every expectation and the integrity held.
    Pass,
    /// An expectation or the integrity did not hold.
    Fail,
    /// The numbers are misleading; see `reasons`.
    #[default]
    Invalid,
}

/// The summary of a run. Latencies are in nanoseconds; unknown values are absent or null.
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
    /// The planned start of the load, in milliseconds since 1970; absent if it started as soon as everything was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ms: Option<u64>,
    /// The start of the load, in milliseconds since 1970; absent without a load, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<u64>,
    /// Whether it was the warm-up of a test of a suite, which has no verdict; absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_up: bool,
    /// The shards it was merged from; absent if one process measured the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    /// The length of the load, in seconds.
    pub duration_s: f64,
    /// The verdict of a run.
    pub verdict: Verdict,
    /// Why the verdict is not `pass`.
    pub reasons: Vec<String>,
    /// Whether a signal or a lost server ended it early.
    pub interrupted: bool,
    /// Why the scenario ended it early: a failed threshold, or a missed rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<String>,
    /// The scenario.
    pub scenario: ScenarioFacts,
    /// The server.
    pub server: ServerFacts,
    /// The machine.
    pub environment: Environment,
    /// The phases in order.
    pub phases: Vec<PhaseFacts>,
    /// The figures of each operation, by name.
    pub operations: BTreeMap<String, Operation>,
    /// The answers of a service, by operation: statuses and checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answers>,
    /// The share of each server, if there were several.
    #[serde(default)]
    pub spread: Vec<ServerShare>,
    /// The injected faults and their effects.
    #[serde(default)]
    pub faults: Vec<FaultFacts>,
    /// The result of the audit.
    pub integrity: Option<Integrity>,
    /// The cost of the tool, and whether it limited the load.
    pub client: Client,
    /// The cost of the server.
    pub server_cost: ServerCost,
    /// The collection before the load, as the first server reports it.
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
    /// The expectations.
    pub expectations: Vec<Expectation>,
    /// The load line, of `line`.
    pub line: Option<Line>,
    /// Resources at their limit in the last phase: of a closed-loop `run`, or of one that missed its rate.
    #[serde(default, alias = "held_back", skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// Throughput at rising concurrency, of `ladder`.
    #[serde(default)]
    pub ladder: Option<Ladder>,
    /// The figures of the workflow engine, if the load went to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Workflow>,
    /// The conclusions, in sentences.
    pub conclusions: Vec<String>,
}

/// The scenario.
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
    /// The collections of the load.
    pub collections: Vec<String>,
}

/// Resources at their limit in a phase. A resource at its limit need not be the bottleneck: only `line` proves that, by
/// comparing with a rate that holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// The phase's name.
    pub phase: String,
    /// Why it was not assessed; absent if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Resources at their limit, from the client to the disk.
    pub at_limit: Vec<Candidate>,
    /// Resources below their limit.
    pub below: Vec<Candidate>,
    /// Resources that were not checked.
    #[serde(alias = "not_seen")]
    pub unchecked: Vec<Unchecked>,
}

/// The shards that a run was merged from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// The seconds between the first and the last start of the load: by the server's clock if `clock_bound_ms` is there, else each by
    /// its own machine's clock.
    pub apart_s: f64,
    /// The largest error of a shard's start on the server's clock, in milliseconds; absent if the shards' clocks could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_bound_ms: Option<u64>,
    /// The same for the phase with the largest difference: only the first phase has a common start.
    pub phases_apart_s: f64,
    /// Every shard, in order.
    pub shards: Vec<ShardFacts>,
}

/// A shard of a merged run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardFacts {
    /// Shard as `i/n`.
    pub shard: String,
    /// Its run directory, as the user gave it.
    pub directory: String,
    /// When its load began, in milliseconds since 1970.
    pub began_ms: u64,
    /// Operations acknowledged to it.
    pub operations: u64,
    /// Documents acknowledged to it.
    pub documents: u64,
    /// Its own verdict.
    pub verdict: Verdict,
    /// Its machine.
    pub environment: Environment,
}

/// The share of one of several servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerShare {
    /// `host:port`.
    pub address: String,
    /// Operations sent to it.
    pub operations: u64,
    /// Documents that it acknowledged.
    pub documents: u64,
    /// Operations with a failure.
    pub failed: u64,
    /// Operations that went to the next server because this one was unavailable.
    #[serde(rename = "passed_over")]
    pub skipped: u64,
    /// Why it was last unavailable; absent if it never was.
    #[serde(rename = "away")]
    pub unavailable: Option<String>,
}

impl ServerShare {
    /// Adds what another worker sent to the same server.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.documents += other.documents;
        self.failed += other.failed;
        self.skipped += other.skipped;
        if self.unavailable.is_none() {
            self.unavailable.clone_from(&other.unavailable);
        }
    }
}

/// An injected fault. Moments are seconds from the run's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultFacts {
    /// Its name, such as `kill`.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// Its start.
    pub from_s: f64,
    /// The moment at which it was undone; absent if that failed.
    pub to_s: Option<f64>,
    /// The error of the fault itself.
    pub error: Option<String>,
    /// The longest time without a success after its start; zero if earlier gaps were as long.
    pub outage_s: f64,
    /// The last success before the outage.
    pub last_success_s: Option<f64>,
    /// The first failure after the fault began.
    pub first_error_s: Option<f64>,
    /// The first success after the outage; absent if none followed.
    pub first_success_s: Option<f64>,
    /// The start of the first three seconds in a row in which the objective held again; absent if it did not.
    pub held_again_s: Option<f64>,
    /// Operations that failed between its start and the next fault or the end of the phase, by class.
    pub errors: BTreeMap<String, u64>,
}

/// An expectation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// The metric, such as `insert.response`.
    pub metric: String,
    /// The expression, such as `p(99)<50ms`.
    pub expression: String,
    /// The measured value; absent if unknown.
    pub value: Option<f64>,
    /// Whether it held. An unknown value does not hold.
    pub held: bool,
    /// Why the value is unknown; for a default expectation, the remedy.
    pub reason: Option<String>,
    /// Whether it is a default, which applies because the scenario does not bound these errors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
}

/// The figures of one operation over all phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Operations acknowledged (one batch is one operation).
    pub count: u64,
    /// Documents acknowledged.
    pub documents: u64,
    /// Operations that became due.
    pub due: u64,
    /// Operations acknowledged per second of the time it was under load.
    pub rate_per_s: f64,
    /// Documents acknowledged per second of the time it was under load.
    pub documents_per_s: f64,
    /// Documents per second in the steady part; absent where none was found.
    pub steady_documents_per_s: Option<f64>,
    /// Throughput of single seconds in documents: 1st percentile, median and maximum of the full seconds.
    pub documents_in_a_second: Option<SecondsSpread>,
    /// Completed ÷ due, for open arrivals.
    pub achieved: Option<f64>,
    /// Overdue operations given up.
    pub skipped: u64,
    /// Further attempts at operations that had failed.
    #[serde(default)]
    pub retries: u64,
    /// done − due.
    pub response_ns: Latency,
    /// done − due of all operations, if some failed or were skipped: those count as infinitely slow, as in expectations. A
    /// percentile that lies among them is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_with_failures_ns: Option<Latency>,
    /// done − sent.
    pub service_ns: Latency,
    /// awake − due: the tool's own delay.
    pub wake_ns: Latency,
    /// sent − awake: no connection was free.
    pub wait_ns: Latency,
    /// Response time of the operations that failed.
    pub failed_response_ns: Latency,
    /// Operations that failed, by class.
    pub errors: BTreeMap<String, u64>,
    /// Documents that failed, by class.
    pub document_errors: BTreeMap<String, u64>,
    /// The first error of each class, with the server's code and message.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub first_errors: BTreeMap<String, FirstError>,
    /// Bytes sent to the server.
    pub bytes_sent: u64,
    /// Bytes received from it.
    pub bytes_received: u64,
    /// CPU of the workers ÷ operations, in microseconds, over the phases with this operation alone; absent without such
    /// a phase.
    #[serde(default)]
    pub cpu_us_per_operation: Option<f64>,
}

/// The throughput of single seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondsSpread {
    /// Full seconds measured.
    pub seconds: u64,
    /// Smallest.
    pub min: f64,
    /// 1st percentile (nearest rank).
    pub p1: f64,
    /// Median.
    pub p50: f64,
    /// Largest.
    pub max: f64,
}

/// The figures of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseFacts {
    /// Its name.
    pub name: String,
    /// The arrivals of its operations as text, by the load's name.
    pub arrivals: BTreeMap<String, String>,
    /// Whether operations are due before they are sent: false for closed arrivals, which hide saturation.
    pub open: bool,
    /// Seconds from the run's start to the phase's start.
    pub from_s: f64,
    /// Seconds from the run's start to the phase's end.
    pub to_s: f64,
    /// Why it ended: `duration`, `operations`, `documents`, `not_reached`, `threshold`, `unreachable`, `interrupted`.
    pub ended_by: String,
    /// The start of the steady state.
    pub warm_up: WarmUp,
    /// Full checkpoints of the storage engine in the phase; absent if not reported.
    pub checkpoints: Option<u64>,
    /// Operations acknowledged in it.
    #[serde(default)]
    pub operations: u64,
    /// Documents acknowledged in it.
    #[serde(default)]
    pub documents: u64,
    /// Documents per second over all of it.
    #[serde(default)]
    pub documents_per_s: f64,
    /// Response time of all its operations.
    #[serde(default)]
    pub response_ns: Latency,
    /// Failed operations.
    #[serde(default)]
    pub errors: u64,
    /// CPU of the workers ÷ operations, in microseconds; absent if too few operations support it.
    #[serde(default)]
    pub cpu_us_per_operation: Option<f64>,
}

/// Whether and where a steady state was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum WarmUp {
    /// Fewer than 30 intervals of 100 ms.
    #[default]
    NotAssessed,
    /// Steady from this many seconds after the phase's start.
    Steady {
        /// Seconds after the phase's start.
        from_s: f64,
    },
    /// Throughput or p99 kept changing to the end.
    NotSteady {
        /// The change.
        reason: String,
    },
}

/// The answers to one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answers {
    /// The operation.
    pub operation: String,
    /// Answers by status; 0 counts requests without an answer. Retries count as well.
    pub statuses: BTreeMap<u16, u64>,
    /// Every check of the scenario, in its order.
    pub checks: Vec<Check>,
}

/// The results of one check of answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Its name, such as `status 201`.
    pub name: String,
    /// The number of answers that passed.
    pub passed: u64,
    /// The number of answers that failed.
    pub failed: u64,
}

impl Answers {
    /// Adds the answers of another shard to the same operation.
    pub fn merge(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for check in &other.checks {
            match self.checks.iter_mut().find(|own| own.name == check.name) {
                Some(own) => {
                    (own.passed, own.failed) = (own.passed + check.passed, own.failed + check.failed)
                }
                None => self.checks.push(check.clone()),
            }
        }
    }
}

/// The cost of the tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Client {
    /// Worker threads.
    pub workers: u32,
    /// Connections.
    pub connections: u32,
    /// CPU of the workers ÷ operations, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// CPU of the workers ÷ documents, in microseconds.
    pub cpu_us_per_document: Option<f64>,
    /// CPU of the busiest worker, 0 to 1.
    pub cpu_busiest_worker: f64,
    /// Context switches of the workers' threads ÷ operations; absent if the system does not report them.
    pub switches_per_operation: Option<f64>,
    /// Bytes sent and received ÷ documents.
    pub wire_bytes_per_document: Option<f64>,
    /// Largest resident memory of this process, in bytes.
    pub rss_bytes_max: u64,
    /// The tool's throughput against the null server, in operations per second; absent if not measured.
    pub null_server_per_s: Option<f64>,
    /// That ceiling ÷ the achieved throughput.
    pub headroom: Option<f64>,
    /// Response times of the same open load against the null server, while other threads use as many cores as the server did;
    /// absent for a closed load, and if not measured.
    #[serde(default)]
    pub floor_ns: Option<Latency>,
    /// The lowest bound on a response time that the floor is compared with, in nanoseconds; absent without such a bound.
    #[serde(default)]
    pub floor_bound_ns: Option<u64>,
    /// Whether the tool, not the server, limited the load.
    pub limited: bool,
    /// Whether the pacer spun just before each due time.
    pub spin: bool,
    /// Reconnections after a connection was lost.
    pub reconnects: u64,
    /// Median round trip of an empty command before and after the load, in nanoseconds.
    #[serde(alias = "canary_ping_ns")]
    pub calibration_ping_ns: Vec<u64>,
    /// Throughput of the tool against the null server before and after the load, in operations per second.
    #[serde(default, alias = "canary_null_per_s")]
    pub calibration_null_per_s: Vec<f64>,
    /// The server's clock compared with this machine's, for a shard of a run on a MongoDB server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_clock: Option<ServerClock>,
}

/// Above this share of a bound on response times, the tool's own p99 decides whether the bound holds.
const FLOOR_SHARE_MAX: f64 = 0.10;

impl Client {
    /// A percentile of the tool's own response times with its name, and the bound of the run, both in
    /// nanoseconds, if the percentile is a relevant part of the bound. The percentile is p99, or the highest
    /// one that is known.
    pub fn high_floor(&self) -> Option<(&'static str, u64, u64)> {
        let floor = self.floor_ns.as_ref()?;
        let known = [("p99", floor.p99), ("p95", floor.p95), ("p90", floor.p90)];
        let (name, ns) = known.into_iter().find_map(|(name, ns)| Some((name, ns?)))?;
        let bound_ns = self.floor_bound_ns?;
        (ns as f64 > bound_ns as f64 * FLOOR_SHARE_MAX).then_some((name, ns, bound_ns))
    }
}

/// The cost of the server. CPU and memory are known for local servers only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCost {
    /// CPU of the server's process ÷ operations, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// CPU of the server's process ÷ documents, in microseconds.
    pub cpu_us_per_document: Option<f64>,
    /// Cores it used on average under load.
    pub cores: Option<f64>,
    /// Largest resident memory in bytes.
    pub rss_bytes_max: Option<u64>,
    /// Bytes that the storage engine wrote to disk ÷ documents; absent if not reported.
    pub written_bytes_per_document: Option<f64>,
    /// Bytes that it wrote to its journal ÷ documents.
    pub journal_bytes_per_document: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_older_than_shards_is_read() {
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

    #[test]
    fn answers_of_two_shards_add_up_by_status_and_check() {
        let answers = |statuses: &[(u16, u64)], passed: u64, failed: u64| Answers {
            operation: "post".into(),
            statuses: statuses.iter().copied().collect(),
            checks: vec![Check { name: "status 201".into(), passed, failed }],
        };
        let mut sum = answers(&[(201, 7), (503, 1)], 7, 1);
        sum.merge(&answers(&[(201, 5), (0, 2)], 5, 2));
        assert_eq!(sum, answers(&[(0, 2), (201, 12), (503, 1)], 12, 3));
    }
}
