//! Defines the `transactional` section.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_deployment::Namespace;
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::insert::{CONNECTIONS, check_connections, connections, default_timeout, deployment, settled};
use super::{Refusal, TIMEOUT, timeout};
use crate::document::form::Form;
use crate::positions::{PositionCollection, Positions};
use crate::sink::transaction::TransactionSettings;
use crate::sink::transaction_buffer::BufferLimits;
use crate::sink::transactional::Transactions;
use crate::topics::Topics;

/// Writes events, the source's positions and dead letters in one transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transactional {
    /// The server: `mongodb://…`. It must be a member of a replica set, or a mongos.
    pub uri: String,
    /// `database.collection` of the events.
    pub collection: String,
    /// `database.collection` of the dead letters. Default: the collection's name with `_dead_letters`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<String>,
    /// `database.collection` of the positions. Default: `plimsoll_positions` in the same database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<String>,
    /// The form of documents.
    #[serde(default)]
    pub form: Form,
    /// The number of events that starts a commit.
    #[serde(default = "gather_events")]
    pub gather_events: usize,
    /// The time that a transaction waits for more events.
    #[serde(default = "gather_wait")]
    pub gather_wait: Span,
    /// Connections per worker, and so partitions with a transaction in flight at a time.
    #[serde(default = "connections")]
    pub connections: usize,
    /// The time limit of a command, after which its batches are retried.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// Configured numbers of topics, instead of those derived from their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, u32>,
}

/// Larger transactions no longer lower the cost per event.
fn gather_events() -> usize {
    2000
}

fn gather_wait() -> Span {
    Span::from_secs(1)
}

/// The largest number of batches per worker: batches may be small.
const BATCHES: usize = 64;
/// The largest number of events per transaction: the server holds all of them in its cache.
const GATHER_EVENTS_MAX: usize = 50_000;
/// The largest size of a transaction in bytes.
const GATHER_BYTES: usize = 14 << 20;
/// The default collection of positions.
pub const POSITIONS: &str = "plimsoll_positions";

impl Transactional {
    /// Creates a section with default settings.
    pub fn new(uri: impl Into<String>, collection: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            collection: collection.into(),
            dead_letters: None,
            positions: None,
            form: Form::default(),
            gather_events: gather_events(),
            gather_wait: gather_wait(),
            connections: CONNECTIONS,
            timeout: TIMEOUT,
            topics: BTreeMap::new(),
        }
    }

    /// Builds the factory of sinks for the pipeline of this name.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn build(&self, pipeline: &str) -> Result<Transactions, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let timeout = timeout(self.timeout)?;
        check_connections(self.connections)?;
        if !(1..=GATHER_EVENTS_MAX).contains(&self.gather_events) {
            return Err(Refusal(format!(
                "`gather_events` must be 1 to {GATHER_EVENTS_MAX}, not {}",
                self.gather_events
            )));
        }
        check_durable(&self.uri)?;
        let dead_letters = self.dead_letters_collection()?;
        let buffer = BufferLimits {
            events: self.gather_events,
            bytes: GATHER_BYTES,
            wait: Duration::from_nanos(self.gather_wait.as_ns()).min(timeout),
        };
        Ok(Transactions::new(TransactionSettings {
            deployment: deployment(&self.uri, timeout)?,
            position_collection: self.position_collection(pipeline)?,
            topics: Topics::of(&namespace, self.topics.clone()),
            namespace,
            dead_letters,
            form: self.form,
            buffer,
            connections: self.connections,
            batches: BATCHES,
        }))
    }

    pub(super) fn dead_letters_collection(&self) -> Result<Namespace, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        match &self.dead_letters {
            Some(name) => name.parse().map_err(Refusal::of),
            None => format!("{namespace}_dead_letters").parse().map_err(Refusal::of),
        }
    }

    /// The store of the positions that the transactions write. The pipeline claims its partitions there.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn positions(&self, pipeline: &str) -> Result<Positions, Refusal> {
        let timeout = timeout(self.timeout)?;
        Positions::new(&self.uri, self.position_collection(pipeline)?, timeout).map_err(Refusal::of)
    }

    fn position_collection(&self, pipeline: &str) -> Result<PositionCollection, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let namespace = match &self.positions {
            Some(name) => name.parse().map_err(Refusal::of)?,
            None => namespace.sibling(POSITIONS).to_string().parse().map_err(Refusal::of)?,
        };
        Ok(PositionCollection { namespace, pipeline: pipeline.to_owned() })
    }
}

/// Refuses an address with a weaker write concern than that of the transactions.
fn check_durable(uri: &str) -> Result<(), Refusal> {
    if settled(None, uri)?.is_durable() {
        return Ok(());
    }
    let words = "the address names a write concern, but the transactions commit with a journaled majority: remove `w` and \
                 `journal` from the address";
    Err(Refusal(words.into()))
}
