//! Defines the settings of the vector sink.

use plimsoll_deployment::{Deployment, Namespace};
use plimsoll_pipeline::{Batch, Event, Identity as Promised, Promise};
use plimsoll_wire::WriteConcern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::form::{Form, checked_id};
use crate::topics::Topics;

/// The choice of events that replace each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Events of one key. The key is the document's `_id`, as text if it is UTF-8.
    #[default]
    Key,
    /// Only copies of the same event: the `_id` is topic, partition and offset.
    Source,
    /// Events of one document: the `_id` is the BSON payload's own. The event read last wins, even if a `scan` repeats it.
    Payload,
}

/// The format of a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// An array of doubles, which every tool can read.
    #[default]
    Array,
    /// A BSON vector of 32-bit floats (binary subtype 9): less than half the bytes.
    Float32,
}

/// The settings that all connections of a sink share.
#[derive(Debug)]
pub(crate) struct VectorSettings {
    pub deployment: Deployment,
    pub namespace: Namespace,
    pub topics: Topics,
    pub by: By,
    pub form: Form,
    /// The field of the vector.
    pub field: String,
    pub source: SourceField,
    pub stored: Stored,
    pub concern: Option<WriteConcern>,
    pub promise: Promise,
    pub connections: usize,
}

/// The default field for the source of a document's event.
pub const SOURCE: &str = "source";
/// The field for the source of a document's event, `{partition, offset}`, and the paths of its parts.
#[derive(Debug)]
pub struct SourceField {
    pub(super) name: String,
    pub(super) partition: String,
    pub(super) offset: String,
}

impl SourceField {
    /// The field of this name.
    pub fn new(name: &str) -> Self {
        let path = |part| format!("${name}.{part}");
        Self { name: name.to_owned(), partition: path("partition"), offset: path("offset") }
    }
}

impl By {
    /// The bytes that identify the document of an event, if events can share a document.
    pub(super) fn name<'a>(self, batch: &'a Batch, event: &Event) -> Option<&'a [u8]> {
        match self {
            Self::Key => batch.key(event),
            Self::Source => None,
            Self::Payload => {
                let payload = batch.payload(event)?;
                payload.get(checked_id(payload).ok()??.range_in(payload))
            }
        }
    }

    /// The effect of writing an event twice.
    pub(crate) const fn identity(self) -> Promised {
        match self {
            Self::Key | Self::Source => Promised::Once,
            Self::Payload => Promised::Named,
        }
    }
}
