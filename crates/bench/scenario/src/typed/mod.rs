//! Defines the scenario file, composed of the sections of each crate.

use std::collections::BTreeMap;

use plimsoll_document::{IdForm, Template};
use plimsoll_host::PowerLoss;
use plimsoll_host::fault::Fault as Injection;
use plimsoll_http::Request;
use plimsoll_load::fault::Spacing;
use plimsoll_load::k6::{Time, Typed};
use plimsoll_load::mix::By;
use plimsoll_load::phase::Overdue;
use plimsoll_load::rate_floor::RateFloor;
use plimsoll_load::retry::Retry;
use plimsoll_load::stop::Stop;
use plimsoll_load::think::Think;
use plimsoll_measure::duration::Span;
use plimsoll_measure::metric::Tags;
use plimsoll_measure::rule::{Rule, by_metric};
use plimsoll_measure::size::Bytes;
use plimsoll_mongo::scenario::{
    Audit, Client, Connections, DocumentFile, Operation, ReadPreference, Section, Stamp, WriteConcern,
};
use plimsoll_mongo::sharding::Sharding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod alias;
mod builtin;
mod matrix;
mod mistaken;
mod overrides;
mod oversize_number;
mod read;
mod redacted_errors;
mod service_spec;
mod workflow;

pub use builtin::{Builtin, all as builtins, pipelines, suites};
pub use matrix::{Axis, Bounds, LeaveOut, Matrix, Names};
pub use mistaken::{Kind, mistaken_name, mistaken_text};
pub use overrides::{assigned, put};
pub(crate) use oversize_number::read_untyped;
pub use plimsoll_mongo::scenario::Existing;
pub use plimsoll_yaml::{in_our_words, nearest};
pub use read::{Loaded, Text, load, load_text, parse_with};
pub use redacted_errors::{of_tree, rendered};
pub use service_spec::ServiceSpec;
pub use workflow::{Begin, Mode, Store, Unit, Workflow};

/// A scenario, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = alias::of_scenario)]
pub struct Scenario {
    /// A short title.
    pub title: String,
    /// The question that the scenario answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The server unless the command line names another: a mongodb:// URI, `mongod`, `embedded` or `embedded:relaxed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Several independent servers to spread the load over: URIs or host:port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// The storage engine's cache of a server that Plimsoll starts. Default: the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
    /// `database.collection`. Default: the scenario's name in the database `plimsoll`.
    #[serde(default)]
    pub collection: String,
    /// The treatment of a collection that is not empty.
    #[serde(default)]
    pub existing: Existing,
    /// The document to insert: a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Template>,
    /// A file of documents to insert, instead of `document`. Relative paths start at the scenario's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents_from: Option<DocumentFile>,
    /// The form of `_id`.
    #[serde(default)]
    pub id: IdForm,
    /// Whether each document carries its stamp.
    #[serde(default)]
    pub stamp: Stamp,
    /// The sharding of the collection before the load. Requires a mongos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Sharding>,
    /// The write concern of writes without their own. Default: the URI's, else the server's.
    #[serde(default)]
    pub write_concern: WriteConcern,
    /// Level of the read concern of reads without their own. Default: the URI's, else the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The members of a replica set that answer reads without their own preference. Default: the URI's, else the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_preference: Option<ReadPreference>,
    /// The connections of the clients.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connections: Connections,
    /// A service that the run starts, on the database that `server` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,
    /// The service under load over HTTP, instead of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<plimsoll_http::Section>,
    /// The workflow engine under load, instead of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Workflow>,
    /// The client that sends the operations.
    #[serde(default)]
    pub client: Client,
    /// The time limit of an operation. Its outcome is unknown after that.
    #[serde(default = "timeout_default")]
    pub timeout: Span,
    /// The checks of the audit beyond reading every document.
    #[serde(default, skip_serializing_if = "is_default")]
    pub audit: Audit,
    /// The time without any connection after which a run ends.
    #[serde(default = "unreachable_default")]
    pub unreachable_for: Span,
    /// Whether failed operations are sent again. Default: `driver` on a replica set of several members or a sharded cluster, unless the
    /// URI says `retryWrites=false` (writes) or `retryReads=false` (reads); otherwise `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Seed of all randomness.
    #[serde(default)]
    pub seed: u64,
    /// The number of worker threads. Default: as many as the machine has spare cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// The phases, one after the other.
    pub phases: Vec<Phase>,
    /// The expectations at the end, by metric: `insert.response: ["p(99)<50ms"]`, `response{load:feed}: […]`.
    #[serde(default, alias = "thresholds", deserialize_with = "by_metric")]
    #[schemars(with = "BTreeMap<String, Vec<Rule>>")]
    pub expect: BTreeMap<String, Vec<Rule>>,
    /// The objective of the load line.
    #[serde(default)]
    pub line: Line,
    /// Runs of this scenario with different values, for the command `run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
}

/// One phase, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name. Default: its number, such as `phase 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Concurrent loads, by name.
    pub load: BTreeMap<String, Load>,
    /// Indexes to create before its load starts, by their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Template>,
    /// The condition that ends it. Default: the end of its last load, if every load has an end.
    #[serde(default)]
    pub stop: Stop,
    /// The time limit for sending overdue operations after the end of their load.
    #[serde(default = "drain_default")]
    pub drain: Span,
    /// The condition that ends the run if an open load misses its rate. A load can set its own.
    #[serde(default, alias = "reach", skip_serializing_if = "Option::is_none")]
    pub rate_floor: Option<RateFloor>,
    /// The faults during the phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// A planned fault of the server or the service, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The time of its first start, from the phase's start.
    pub at: Span,
    /// The time between the starts of its repetitions. Default: no repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// The largest number of occurrences. Default: one without repetition, else as many as fit into the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Whether repetitions are evenly spaced or random.
    #[serde(default)]
    pub spacing: Spacing,
    /// The victim of the fault.
    #[serde(default, skip_serializing_if = "Victim::is_server")]
    pub victim: Victim,
    /// The index of the faulty server, from 0, for a load that is spread over several.
    #[serde(default)]
    pub server: usize,
    /// The fault.
    pub inject: Injection,
}

/// The victim of a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The database: its process, or the network to it.
    #[default]
    Server,
    /// The service that Plimsoll started: its process, or the network from the load to it.
    Service,
}

impl Victim {
    fn is_server(&self) -> bool {
        *self == Self::Server
    }
}

/// One stream of operations, as typed: a single operation, or a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = alias::of_load)]
pub struct Load {
    /// The operation. It has the load's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The request, instead of an operation, if the load goes to a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The unit, instead of an operation, if the load goes to the workflow engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Several operations by name and weight.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mix: BTreeMap<String, Weighted>,
    /// The unit of the mix's weights: the number of operations, or, with closed arrivals, time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mix_by: By,
    /// The arrivals of operations: in Plimsoll's form, or as one of k6's executors.
    pub arrivals: Typed,
    /// Its connections. Default: the scenario's `connections`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<LoadConnections>,
    /// The treatment of overdue operations.
    #[serde(default)]
    pub overdue: Overdue,
    /// The delay of its start after its phase's start. Default: none.
    #[serde(default, alias = "startTime", skip_serializing_if = "Option::is_none")]
    pub start: Option<Time>,
    /// The condition that ends it, from its own start. Default: the end of its phase. Document limits are per phase.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop: Stop,
    /// The time after its end in which operations may still be sent and completed. Default: the phase's `drain` for sending, and
    /// each operation's own time limit for completion.
    #[serde(default, alias = "gracefulStop", skip_serializing_if = "Option::is_none")]
    pub graceful_stop: Option<Time>,
    /// The pause of a closed writer between two operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// The condition that ends the run if the load misses its rate.
    #[serde(default, alias = "reach", skip_serializing_if = "Option::is_none")]
    pub rate_floor: Option<RateFloor>,
    /// Tags of its operations, for metrics such as `response{kind:write}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: Tags,
}

/// The connections of one load, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadConnections {
    /// Whether each operation opens a connection and closes it.
    pub per_operation: bool,
}

/// An operation in a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weighted {
    /// The weight. The operation's share is its weight divided by the sum of all weights.
    pub weight: f64,
    /// The operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The request, instead of an operation, if the load goes to a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The unit, instead of an operation, if the load goes to the workflow engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Its tags, in addition to those of its load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: Tags,
}

/// The settings of `plimsoll line`, as typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// The load of the last phase whose rate is searched. Required if that phase has several loads. The others continue in the
    /// background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// The objective, by metric (`response`, `service`, `errors`). Default: p99 response under 50 ms and no errors.
    pub objective: BTreeMap<String, Vec<String>>,
    /// The number of connections of the constant arrivals. Default: those of the scenario, at least 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// The first rate to try, in operations per second. Default: a third of the rate that closed arrivals reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn drain_default() -> Span {
    plimsoll_load::phase::DRAIN
}

const fn unreachable_default() -> Span {
    plimsoll_load::phase::UNREACHABLE_FOR
}

fn timeout_default() -> Span {
    Section::default().timeout
}

impl Scenario {
    /// Whether a fault cuts the power of a server.
    pub fn power_loss(&self) -> PowerLoss {
        let mut faults = self.phases.iter().flat_map(|phase| &phase.faults);
        match faults.any(|fault| fault.inject.needs_power_loss()) {
            true => PowerLoss::Possible,
            false => PowerLoss::Impossible,
        }
    }

    /// The section of MongoDB.
    pub fn section(&self) -> Section {
        Section {
            collection: self.collection.clone(),
            existing: self.existing,
            document: self.document.clone(),
            documents_from: self.documents_from.clone(),
            id: self.id,
            stamp: self.stamp,
            write_concern: self.write_concern.clone(),
            read_concern: self.read_concern.clone(),
            read_preference: self.read_preference.clone(),
            connections: self.connections,
            client: self.client,
            timeout: self.timeout,
            retry: self.retry,
            audit: self.audit,
        }
    }
}
