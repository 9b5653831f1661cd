//! Defines the `vector` section.

use std::collections::BTreeMap;

use plimsoll_deployment::{Namespace, concern::WriteConcern};
use plimsoll_measure::duration::Span;
use plimsoll_pipeline::{Order, Promise};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::insert::{
    CONNECTIONS, check_connections, check_field, concern, connections, default_timeout, deployment, settled,
};
use super::{Refusal, TIMEOUT, timeout};
use crate::document::form::Form;
use crate::sink::vector::Vectors;
use crate::sink::vector_settings::{By, SOURCE, SourceField, Stored, VectorSettings};
use crate::topics::Topics;

/// Replaces the document of each key by the newest event of that key, with its vector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// The server: `mongodb://…`.
    pub uri: String,
    /// `database.collection`.
    pub collection: String,
    /// The choice of events that replace each other.
    #[serde(default)]
    pub by: By,
    /// The form of documents, without their vectors.
    #[serde(default)]
    pub form: Form,
    /// The field of the vector. It replaces a field of the same name in the payload.
    #[serde(default = "default_field")]
    pub field: String,
    /// The field that stores the event's source, which shows which event is newer.
    #[serde(default = "default_source_field")]
    pub source_field: String,
    /// The format of the vector.
    #[serde(default)]
    pub stored: Stored,
    /// The write concern; by default that of the address. Missing parts are set as in a journaled majority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
    /// Connections per worker, which share a batch.
    #[serde(default = "connections")]
    pub connections: usize,
    /// The time limit of a command, after which its batch is retried.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// Configured numbers of topics, instead of those derived from their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, u32>,
}

fn default_field() -> String {
    "vector".to_owned()
}

fn default_source_field() -> String {
    SOURCE.to_owned()
}

impl Vector {
    /// Creates a section with default settings.
    pub fn new(uri: impl Into<String>, collection: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            collection: collection.into(),
            by: By::default(),
            form: Form::default(),
            field: default_field(),
            source_field: default_source_field(),
            stored: Stored::default(),
            write_concern: None,
            connections: CONNECTIONS,
            timeout: TIMEOUT,
            topics: BTreeMap::new(),
        }
    }

    /// Builds the factory of sinks.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn build(&self) -> Result<Vectors, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let timeout = timeout(self.timeout)?;
        check_connections(self.connections)?;
        let settled = settled(self.write_concern.as_ref(), &self.uri)?;
        let concern = concern(&settled, self.timeout)?;
        self.check_names()?;
        Ok(Vectors::new(VectorSettings {
            deployment: deployment(&self.uri, timeout)?,
            topics: Topics::of(&namespace, self.topics.clone()),
            namespace,
            by: self.by,
            form: self.form,
            field: self.field.clone(),
            source: SourceField::new(&self.source_field),
            stored: self.stored,
            concern,
            promise: Promise {
                durable: settled.is_durable(),
                identity: self.by.identity(),
                order: Order::Kept,
                writes_dead_letters: false,
            },
            connections: self.connections,
        }))
    }

    fn check_names(&self) -> Result<(), Refusal> {
        if self.by == By::Payload && self.form != Form::Bson {
            let words = "`by: payload` identifies documents by their own `_id`, so they must be stored unchanged: use `form: bson`";
            return Err(Refusal(words.into()));
        }
        if self.field == self.source_field {
            let words = "is also the `source_field`: choose another name";
            return Err(Refusal(format!("`field: {}` {words}", self.field)));
        }
        check_field("field", &self.field, self.form)?;
        check_field("source_field", &self.source_field, self.form)
    }
}
