//! Defines the sections of sources and of the position store.

use bson::{Bson, Document};
use plimsoll_deployment::{Namespace, authenticates, fault_of_database, runtime};
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::insert::{default_timeout, deployment};
use super::{POSITIONS, Refusal, timeout};
use crate::positions;
use crate::source::change_stream::{self, Payload, Start, Watched};
use crate::source::{id_order, scan};

/// The largest number of splits of a collection.
const SPLITS_MAX: usize = 1024;

/// The stage that divides a large change.
const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// Reads the changes of a collection, a database or a deployment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeStream {
    /// The server: `mongodb://…`. It must be a member of a replica set, or a mongos.
    pub uri: String,
    /// `database.collection`, `database`, or nothing for the whole deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// The part of a change that becomes the payload.
    #[serde(default)]
    pub payload: Payload,
    /// The start of a stream without a stored position.
    #[serde(default)]
    pub start: Start,
    /// Pipeline stages after the stream, such as `{$match: …}`, as extended JSON. With `payload: document` they must keep
    /// `operationType`, `documentKey` and `fullDocument`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Value>,
}

impl ChangeStream {
    /// Builds the source.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn build(&self) -> Result<change_stream::ChangeStream, Refusal> {
        let (db, collection) = match &self.watch {
            None => (None, None),
            Some(name) if name.contains('.') => {
                let Namespace { db, collection } = name.parse().map_err(Refusal::of)?;
                (Some(db), Some(collection))
            }
            Some(db) => match fault_of_database(db) {
                Some(fault) => return Err(Refusal(format!("watch: {fault}"))),
                None => (Some(db.clone()), None),
            },
        };
        let stages = self.stages.iter().map(document).collect::<Result<Vec<_>, _>>()?;
        if self.payload == Payload::Document && stages.iter().any(|stage| stage.contains_key(SPLIT)) {
            return Err(Refusal(format!(
                "`stages`: `{SPLIT}` divides a change into fragments, and none has the whole document: drop unneeded fields, such as \
                 `{{$unset: updateDescription}}`, or store the fragments with `payload: event`"
            )));
        }
        let watched = Watched {
            uri: self.uri.clone(),
            db,
            collection,
            payload: self.payload,
            start: self.start,
            stages,
        };
        Ok(change_stream::ChangeStream::new(watched, runtime().map_err(Refusal::of)?))
    }

    /// Whether the connection is authenticated.
    pub fn authenticates(&self) -> bool {
        authenticates(&self.uri)
    }
}

/// Reads a collection from its first `_id` to its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    /// The server: `mongodb://…`.
    pub uri: String,
    /// `database.collection`.
    pub collection: String,
    /// A filter, as extended JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// Ascending `_id`s that split the collection into ranges; each range is a partition. They must not change while the pipeline
    /// has positions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<Value>,
    /// The time limit of a query, after which it is retried.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
}

impl Scan {
    /// Builds the source.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn build(&self) -> Result<scan::Scan, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let deployment = deployment(&self.uri, timeout(self.timeout)?)?;
        let filter = self.filter.as_ref().map_or_else(|| Ok(Document::new()), document)?;
        if self.splits.len() > SPLITS_MAX {
            return Err(Refusal(format!(
                "a scan has at most {SPLITS_MAX} splits, not {}",
                self.splits.len()
            )));
        }
        let splits = self.splits.iter().map(id).collect::<Result<_, _>>()?;
        Ok(scan::Scan::new(deployment, namespace, filter, splits, runtime().map_err(Refusal::of)?))
    }

    /// Whether the connection is authenticated.
    pub fn authenticates(&self) -> bool {
        authenticates(&self.uri)
    }
}

fn document(value: &Value) -> Result<Document, Refusal> {
    check_numbers(value)?;
    match Bson::try_from(value.clone()) {
        Ok(Bson::Document(document)) => Ok(document),
        Ok(_) => Err(Refusal(format!("{value} is not a document: write an object, such as {{x: 1}}"))),
        Err(error) => Err(Refusal(format!("{value} is not a document: {error}"))),
    }
}

fn id(value: &Value) -> Result<Bson, Refusal> {
    check_numbers(value)?;
    let read = Bson::try_from(value.clone()).ok().filter(id_order::is_id);
    read.ok_or_else(|| {
        Refusal(format!("{value} cannot be an _id: write for example {{$oid: …}}, a number or a text"))
    })
}

/// Refuses a whole number that would become a double.
fn check_numbers(value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Number(number) if number.as_u64().is_some_and(|it| i64::try_from(it).is_err()) => {
            Err(Refusal(format!(
                "{number} has more than 63 bits: write {{$numberDecimal: '…'}} to keep all digits, or {{$numberDouble: '…'}} for \
                 the nearest double"
            )))
        }
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(fields) => fields.values().try_for_each(check_numbers),
        _ => Ok(()),
    }
}

/// The position store, for sources without their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Positions {
    /// The server: `mongodb://…`.
    pub uri: String,
    /// `database.collection`. Default: `plimsoll.plimsoll_positions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The time limit of a command, after which it is retried.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
}

impl Positions {
    /// Builds the store for the pipeline of this name.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn build(&self, pipeline: &str) -> Result<positions::Positions, Refusal> {
        let namespace = match &self.collection {
            Some(name) => name.parse().map_err(Refusal::of)?,
            None => Namespace { db: "plimsoll".into(), collection: POSITIONS.into() },
        };
        let position_collection = positions::PositionCollection { namespace, pipeline: pipeline.to_owned() };
        positions::Positions::new(&self.uri, position_collection, timeout(self.timeout)?).map_err(Refusal::of)
    }
}
