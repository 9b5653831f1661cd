//! The transactional sink, as typed.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_deployment::Namespace;
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sink::{CONNECTIONS, check_connections, connections, default_timeout, deployment};
use super::{Refusal, TIMEOUT, timeout};
use crate::document::form::Form;
use crate::positions::{Positions, Shelf};
use crate::sink::transactional::{Common, Gather, Transactions};
use crate::topics::Topics;

/// Writes events, the source's positions and dead letters in one transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transactional {
    /// The server: `mongodb://…`. It must be a member of a replica set, or a mongos.
    pub uri: String,
    /// `database.collection` of the events.
    pub collection: String,
    /// `database.collection` of the dead letters; otherwise the collection's name and `_dead_letters`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<String>,
    /// `database.collection` of the positions; otherwise `plimsoll_positions` in the same database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<String>,
    /// What events look like as documents.
    #[serde(default)]
    pub form: Form,
    /// Events that are worth a transaction.
    #[serde(default = "gather_events")]
    pub gather_events: usize,
    /// How long a transaction waits for more events.
    #[serde(default = "gather_wait")]
    pub gather_wait: Span,
    /// Connections of each worker: so many partitions are in a transaction at once.
    #[serde(default = "connections")]
    pub connections: usize,
    /// How long a command may take before its batches come again.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// Numbers of topics, where the ones made from their names are not to be taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, u32>,
}

/// Fewer events have no effect on a transaction's price.
fn gather_events() -> usize {
    2000
}

fn gather_wait() -> Span {
    Span::from_secs(1)
}

/// Batches of one transaction's events in hand at most: batches may be small.
const BATCHES: usize = 64;
/// Events of one transaction at most: the server holds all of them in its cache.
const GATHER_EVENTS_MAX: usize = 50_000;
/// Bytes of one transaction.
const GATHER_BYTES: usize = 14 << 20;
/// The collection of positions when the file names none.
pub const POSITIONS: &str = "plimsoll_positions";

impl Transactional {
    /// Transactions on a collection of a server, all else as it is by default.
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

    /// What makes the sinks of the pipeline of this name.
    ///
    /// # Errors
    /// What cannot be meant, as a sentence.
    pub fn build(&self, pipeline: &str) -> Result<Transactions, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let timeout = timeout(self.timeout)?;
        check_connections(self.connections)?;
        if !(1..=GATHER_EVENTS_MAX).contains(&self.gather_events) {
            return Err(Refusal(format!(
                "`gather_events` is 1 to {GATHER_EVENTS_MAX}, not {}",
                self.gather_events
            )));
        }
        let dead_letters = self.dead_letters_collection()?;
        let gather = Gather {
            events: self.gather_events,
            bytes: GATHER_BYTES,
            wait: Duration::from_nanos(self.gather_wait.as_ns()).min(timeout),
        };
        Ok(Transactions::new(Common {
            deployment: deployment(&self.uri, timeout)?,
            shelf: self.shelf(pipeline)?,
            topics: Topics::of(&namespace, self.topics.clone()),
            namespace,
            dead_letters,
            form: self.form,
            gather,
            connections: self.connections,
            batches: BATCHES,
        }))
    }

    /// The collection of its dead letters.
    pub(super) fn dead_letters_collection(&self) -> Result<Namespace, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        match &self.dead_letters {
            Some(name) => name.parse().map_err(Refusal::of),
            None => Ok(namespace.sibling(&format!("{}_dead_letters", namespace.collection))),
        }
    }

    /// The store of the positions that the transactions write: the pipeline claims its partitions there.
    ///
    /// # Errors
    /// What cannot be meant, as a sentence.
    pub fn positions(&self, pipeline: &str) -> Result<Positions, Refusal> {
        let timeout = timeout(self.timeout)?;
        Positions::new(&self.uri, self.shelf(pipeline)?, timeout).map_err(Refusal::of)
    }

    fn shelf(&self, pipeline: &str) -> Result<Shelf, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let namespace = match &self.positions {
            Some(name) => name.parse().map_err(Refusal::of)?,
            None => namespace.sibling(POSITIONS),
        };
        Ok(Shelf { namespace, pipeline: pipeline.to_owned() })
    }
}
