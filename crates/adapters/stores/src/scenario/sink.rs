//! The insert sink, as typed, and what sinks have in common.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{Deployment, Namespace, concern::WriteConcern, runtime};
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Refusal, TIMEOUT, timeout};
use crate::document::form::Form;
use crate::sink::insert::{Common, Inserts};
use crate::topics::Topics;

/// Connections of one worker at most.
const CONNECTIONS_MAX: usize = 64;
/// Connections of one worker when the file does not say.
pub(super) const CONNECTIONS: usize = 4;

/// What documents are called, which decides what writing an event twice does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// By topic, partition and offset, in 16 bytes: an event that was written before is known.
    #[default]
    Source,
    /// By a random ObjectId: an event that comes again is there twice.
    ObjectId,
    /// By the payload's own `_id`: a document that is there under it counts as the same.
    Payload,
}

/// Inserts into a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Insert {
    /// The server: `mongodb://…`.
    pub uri: String,
    /// `database.collection`.
    pub collection: String,
    /// What documents are called.
    #[serde(default)]
    pub identity: Named,
    /// What events look like as documents.
    #[serde(default)]
    pub form: Form,
    /// A field that keeps the event's source in 16 bytes besides `_id`, so that an audit finds copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_field: Option<String>,
    /// When writes are acknowledged.
    #[serde(default)]
    pub write_concern: WriteConcern,
    /// Connections of each worker: so many commands are in flight at once.
    #[serde(default = "connections")]
    pub connections: usize,
    /// How long a command may take before its batch comes again.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// Numbers of topics, where the ones made from their names are not to be taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, u32>,
}

pub(super) fn connections() -> usize {
    CONNECTIONS
}

pub(super) fn default_timeout() -> Span {
    TIMEOUT
}

impl Insert {
    /// Inserts into a collection of a server, all else as it is by default.
    pub fn new(uri: impl Into<String>, collection: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            collection: collection.into(),
            identity: Named::default(),
            form: Form::default(),
            source_field: None,
            write_concern: WriteConcern::default(),
            connections: CONNECTIONS,
            timeout: TIMEOUT,
            topics: BTreeMap::new(),
        }
    }

    /// What makes the sinks.
    ///
    /// # Errors
    /// What cannot be meant, as a sentence.
    pub fn build(&self) -> Result<Inserts, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let timeout = timeout(self.timeout)?;
        check_connections(self.connections)?;
        check_concern(&self.write_concern)?;
        self.check_names()?;
        let deployment = deployment(&self.uri, timeout)?;
        let promise = Inserts::promised(self.identity, self.write_concern.is_durable());
        Ok(Inserts::new(Common {
            deployment,
            topics: Topics::of(&namespace, self.topics.clone()),
            namespace,
            named: self.identity,
            form: self.form,
            source_field: self.source_field.clone(),
            concern: self.write_concern.to_wire(timeout),
            promise,
            connections: self.connections,
            writes: Arc::default(),
        }))
    }

    fn check_names(&self) -> Result<(), Refusal> {
        if self.identity == Named::Payload && !matches!(self.form, Form::Bson | Form::Json) {
            let words = "`identity: payload` needs a payload that is stored as a document: say `form: bson` or `form: json`";
            return Err(Refusal(words.into()));
        }
        self.source_field.as_ref().map_or(Ok(()), |field| check_field("source_field", field, self.form))
    }
}

/// The deployment of a URI.
pub(super) fn deployment(uri: &str, timeout: Duration) -> Result<Deployment, Refusal> {
    let runtime = runtime().map_err(Refusal::of)?;
    runtime.block_on(Deployment::new(uri, timeout)).map_err(Refusal::of)
}

pub(super) fn check_connections(connections: usize) -> Result<(), Refusal> {
    if (1..=CONNECTIONS_MAX).contains(&connections) {
        return Ok(());
    }
    Err(Refusal(format!("a worker has 1 to {CONNECTIONS_MAX} connections, not {connections}")))
}

pub(super) fn check_concern(concern: &WriteConcern) -> Result<(), Refusal> {
    if concern.is_acknowledged() {
        return Ok(());
    }
    Err(Refusal("`w: 0` asks for no answer, so nothing can be acknowledged: say at least `w: 1`".into()))
}

pub(super) fn check_field(key: &str, field: &str, form: Form) -> Result<(), Refusal> {
    if field.is_empty() || field == "_id" || field.contains(['\0', '$', '.']) {
        return Err(Refusal(format!("`{key}: {field}` is no name of a field: take a plain one")));
    }
    if form.fields().contains(&field) {
        let words = "is a field that documents of this `form` have already: take another name";
        return Err(Refusal(format!("`{key}: {field}` {words}")));
    }
    Ok(())
}
