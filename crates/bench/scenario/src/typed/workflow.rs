//! Defines the `workflow` section: the workflow engine under load, inside of this process; and the units of its loads.

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workflow engine under load, instead of a database. It runs inside of this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Workflow {
    /// The store of the instances. MongoDB is the server that `server` names.
    pub store: Store,
    /// The URI of a running PostgreSQL. Default: the run installs and starts one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<String>,
    /// The database of the instances in MongoDB.
    pub database: String,
    /// The way in which changes reach the store.
    pub mode: Mode,
    /// The number of workers of the engine. Each has its partitions and its share of the machine's cores.
    pub workers: u32,
    /// The moment when the workers begin.
    pub begin: Begin,
    /// The number of connections to the store.
    pub connections: u32,
    /// The number of partitions of a new store.
    pub partitions: u16,
}

impl Default for Workflow {
    fn default() -> Self {
        Self {
            store: Store::Mongodb,
            postgres: None,
            database: "plimsoll_workflow".to_owned(),
            mode: Mode::Batches,
            workers: 1,
            begin: Begin::BeforeLoad,
            connections: 6,
            partitions: 16,
        }
    }
}

/// The store of the instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// MongoDB.
    #[default]
    Mongodb,
    /// PostgreSQL.
    Postgres,
}

impl Store {
    /// The name, as in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mongodb => "mongodb",
            Self::Postgres => "postgres",
        }
    }
}

/// The way in which changes reach the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Many changes in one command, each by compare-and-set.
    #[default]
    Batches,
    /// One claim for each signal, and one transaction for each start and each change: for comparison with
    /// `batches`.
    Transactions,
}

impl Mode {
    /// The name, as in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batches => "batches",
            Self::Transactions => "transactions",
        }
    }
}

/// The moment when the workers begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// Before the load.
    #[default]
    BeforeLoad,
    /// After the load, so that the load builds a backlog.
    AfterLoad,
}

/// The unit of a load: the work of one operation. Steps of shipped units do nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Unit {
    /// A step, a signal and a step. The client sends the signal as soon as the instance's wait for it is
    /// durable.
    RoundTrip,
    /// Three steps in sequence.
    Steps,
    /// A timer of a second.
    Timer,
    /// Three signals in sequence. The client sends the last one first, and sends all without waiting between
    /// them.
    OutOfOrder,
    /// The start of three steps. The operation ends as soon as the start is durable.
    Start,
    /// A signal to an instance that waits for the next signal forever. The operation lasts from the request
    /// until the signal is applied durably.
    Signal {
        /// The instances that receive the signals in turn.
        #[serde(default = "receivers_default")]
        receivers: u32,
        /// The time after which the signal is due.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay: Option<Span>,
    },
    /// An instance of a definition: a file, relative to the scenario, or a shipped one (`quote-or-apl-cancel`,
    /// `quotation-confirm`, `external-resume`). The client sends each signal that the instance waits for, and completes its tasks.
    Definition(String),
}

const fn receivers_default() -> u32 {
    64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_a_word_or_a_map_and_reads_back() {
        for (text, unit) in [
            ("round_trip", Unit::RoundTrip),
            ("{signal: {receivers: 1}}", Unit::Signal { receivers: 1, delay: None }),
            ("{signal: {delay: 2s}}", Unit::Signal { receivers: 64, delay: Some(Span::from_secs(2)) }),
            ("{definition: flows/a.yaml}", Unit::Definition("flows/a.yaml".into())),
        ] {
            let read: Unit = serde_saphyr::from_str(text).unwrap();
            assert_eq!(read, unit);
            assert_eq!(
                serde_saphyr::from_str::<Unit>(&serde_saphyr::to_string(&unit).unwrap()).unwrap(),
                unit
            );
        }
    }

    #[test]
    fn an_empty_section_is_one_worker_on_mongodb() {
        let section: Workflow = serde_saphyr::from_str("{}").unwrap();
        assert_eq!((section.store, section.workers, section.mode), (Store::Mongodb, 1, Mode::Batches));
    }
}
