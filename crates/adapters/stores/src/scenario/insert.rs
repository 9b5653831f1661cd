//! Defines the `insert` section, and checks that all sinks share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{Deployment, Namespace, concern::WriteConcern, runtime, write_concern_of};
use plimsoll_measure::duration::Span;
use plimsoll_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Refusal, TIMEOUT, timeout};
use crate::document::form::Form;
use crate::document::identity::IdKind;
use crate::sink::insert::{InsertSettings, Inserts};
use crate::topics::Topics;

/// The largest number of connections per worker.
const CONNECTIONS_MAX: usize = 64;
/// The default number of connections per worker.
pub(super) const CONNECTIONS: usize = 4;

/// Inserts into a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Insert {
    /// The server: `mongodb://…`.
    pub uri: String,
    /// `database.collection`.
    pub collection: String,
    /// The `_id` of documents.
    #[serde(default)]
    pub identity: IdKind,
    /// The form of documents.
    #[serde(default)]
    pub form: Form,
    /// A field that stores the event's source in 16 bytes in addition to `_id`, so that an audit finds duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_field: Option<String>,
    /// The write concern; by default that of the address. Missing parts are set as in a journaled majority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
    /// Connections per worker, and so commands in flight at a time.
    #[serde(default = "connections")]
    pub connections: usize,
    /// The time limit of a command, after which its batch is retried.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// Configured numbers of topics, instead of those derived from their names.
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
    /// Inserts into a collection, with default settings.
    pub fn new(uri: impl Into<String>, collection: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            collection: collection.into(),
            identity: IdKind::default(),
            form: Form::default(),
            source_field: None,
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
    pub fn build(&self) -> Result<Inserts, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let timeout = timeout(self.timeout)?;
        check_connections(self.connections)?;
        let settled = settled(self.write_concern.as_ref(), &self.uri)?;
        let concern = concern(&settled, self.timeout)?;
        self.check_names()?;
        let deployment = deployment(&self.uri, timeout)?;
        let promise = Inserts::promised(self.identity, settled.is_durable());
        Ok(Inserts::new(InsertSettings {
            deployment,
            topics: Topics::of(&namespace, self.topics.clone()),
            namespace,
            id_kind: self.identity,
            form: self.form,
            source_field: self.source_field.clone(),
            concern,
            promise,
            connections: self.connections,
            writes: Arc::default(),
        }))
    }

    fn check_names(&self) -> Result<(), Refusal> {
        if self.identity == IdKind::Payload && !matches!(self.form, Form::Bson | Form::Json) {
            let words =
                "`identity: payload` needs payloads stored as documents: use `form: bson` or `form: json`";
            return Err(Refusal(words.into()));
        }
        self.source_field.as_ref().map_or(Ok(()), |field| check_field("source_field", field, self.form))
    }
}

/// The deployment at a URI.
pub(super) fn deployment(uri: &str, timeout: Duration) -> Result<Deployment, Refusal> {
    let runtime = runtime().map_err(Refusal::of)?;
    runtime.block_on(Deployment::new(uri, timeout)).map_err(Refusal::of)
}

pub(super) fn check_connections(connections: usize) -> Result<(), Refusal> {
    if (1..=CONNECTIONS_MAX).contains(&connections) {
        return Ok(());
    }
    Err(Refusal(format!("`connections` must be 1 to {CONNECTIONS_MAX} per worker, not {connections}")))
}

/// The write concern of a section, or else of its address, completed to a journaled majority.
pub(super) fn settled(typed: Option<&WriteConcern>, uri: &str) -> Result<WriteConcern, Refusal> {
    let named = match typed {
        Some(typed) => Some(typed.clone()),
        None => write_concern_of(uri).map_err(Refusal::of)?,
    };
    Ok(named.unwrap_or_default().or_durable())
}

/// The write concern of commands. The server waits for members no longer than the client waits for the server.
pub(super) fn concern(typed: &WriteConcern, timeout: Span) -> Result<Option<wire::WriteConcern>, Refusal> {
    if !typed.is_acknowledged() {
        let words = "`w: 0` means unacknowledged writes, which a pipeline cannot use: use at least `w: 1`";
        return Err(Refusal(words.into()));
    }
    WriteConcern { timeout: typed.timeout.or(Some(timeout)), ..typed.clone() }
        .to_wire()
        .map_err(|words| Refusal(format!("`write_concern`: {words}")))
}

pub(super) fn check_field(key: &str, field: &str, form: Form) -> Result<(), Refusal> {
    if field.is_empty() || field == "_id" || field.contains(['\0', '$', '.']) {
        return Err(Refusal(format!(
            "`{key}: {field}` is not a valid field name: use a name without `$`, `.` and NUL"
        )));
    }
    if form.fields().contains(&field) {
        let words = "is already a field of documents of this `form`: choose another name";
        return Err(Refusal(format!("`{key}: {field}` {words}")));
    }
    Ok(())
}
