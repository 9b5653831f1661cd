//! Defines signals: durable messages to an instance.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{EncodeError, Status};
use crate::definition::Version;

/// A durable message to an instance. Its store keeps it until a change of the instance has applied it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The instance.
    #[serde(rename = "to")]
    pub instance: String,
    /// The id, chosen by the sender. A second signal with this id to the same instance is the same signal.
    #[serde(rename = "i")]
    pub id: String,
    /// The moment before which the signal is not delivered, in milliseconds since 1970. 0: at once.
    #[serde(rename = "due", default, skip_serializing_if = "is_zero")]
    pub due_ms: u64,
    /// The moment of sending, in milliseconds since 1970.
    #[serde(rename = "at")]
    pub sent_ms: u64,
    /// Deliveries that found no instance.
    #[serde(rename = "n", default, skip_serializing_if = "is_zero_u32")]
    pub attempts: u32,
    /// The content.
    #[serde(rename = "b")]
    pub body: Body,
}

/// The content of a signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A signal that steps wait for by name.
    Named {
        /// The name.
        name: String,
        /// The content.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        body: Value,
    },
    /// An action of a person on a task.
    Act {
        /// The task's visit.
        visit: u64,
        /// The person.
        by: String,
        /// The person's roles.
        #[serde(default)]
        roles: Vec<String>,
        /// The action.
        act: Act,
    },
    /// Cancels the instance.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// Lets a parked or quarantined instance try again.
    Retry,
    /// The end of a sub-workflow.
    Ended(Ended),
    /// Moves the instance to another version of its definition.
    Migrate {
        /// The version.
        to: Version,
    },
    /// Stored bytes that this version cannot read. They become a dead letter.
    #[serde(skip_deserializing)]
    Unreadable(Unreadable),
}

/// A stored body that this version cannot read: of a later version, or damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The bytes as stored. Readers see them as text.
    #[serde(serialize_with = "as_text")]
    pub bytes: Vec<u8>,
    /// The reason.
    pub why: String,
}

fn as_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

impl Body {
    /// The bytes for a store. Those of an unreadable body stay as they are.
    ///
    /// # Errors
    ///
    /// If the body has no JSON form.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        match self {
            Self::Unreadable(unreadable) => Ok(unreadable.bytes.clone()),
            body => serde_json::to_vec(body).map_err(|error| EncodeError::Form(error.to_string())),
        }
    }

    /// The body of stored bytes.
    pub fn decode(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_else(|error| {
            Self::Unreadable(Unreadable { bytes: bytes.to_vec(), why: error.to_string() })
        })
    }
}

/// The end of a sub-workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The visit of the waiting token.
    pub visit: u64,
    /// The final status.
    pub status: Status,
    /// The final data.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An action on a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Takes a free task, or gives it to a person.
    Assign {
        /// The person.
        to: String,
    },
    /// Gives an assigned task to another person.
    Reassign {
        /// The person.
        to: String,
    },
    /// Frees the task.
    Release,
    /// Completes the task with a payload.
    Complete {
        /// The payload.
        #[serde(default)]
        payload: Value,
    },
}

impl Signal {
    /// A named signal, delivered at once.
    pub fn named(
        instance: impl Into<String>,
        id: impl Into<String>,
        name: impl Into<String>,
        body: Value,
        now_ms: u64,
    ) -> Self {
        Self::new(instance, id, Body::Named { name: name.into(), body }, now_ms)
    }

    /// A signal, delivered at once.
    pub fn new(instance: impl Into<String>, id: impl Into<String>, body: Body, now_ms: u64) -> Self {
        Self { instance: instance.into(), id: id.into(), due_ms: 0, sent_ms: now_ms, attempts: 0, body }
    }

    /// The weight in memory: 1, and 1 for each full 4 KiB of the content. Limits count weights, so that they bound bytes.
    pub fn weight(&self) -> usize {
        let bytes = match &self.body {
            Body::Named { body, .. } => bytes_of(body),
            Body::Act { act: Act::Complete { payload }, .. } => bytes_of(payload),
            Body::Ended(ended) => bytes_of(&ended.data),
            Body::Unreadable(unreadable) => unreadable.bytes.len(),
            Body::Act { .. } | Body::Cancel { .. } | Body::Retry | Body::Migrate { .. } => 0,
        };
        weight(bytes)
    }

    /// The order of delivery.
    pub fn order(&self) -> (u64, u64, &str) {
        (self.due_ms, self.sent_ms, &self.id)
    }
}

/// Bytes of one unit of weight.
const WEIGHT_BYTES: usize = 4 << 10;
/// Bytes of a value apart from its text.
const VALUE_BYTES: usize = 32;

/// The weight of bytes in memory.
pub(crate) const fn weight(bytes: usize) -> usize {
    1 + bytes / WEIGHT_BYTES
}

/// Bytes of a value in memory, about.
pub(crate) fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE_BYTES,
        Value::String(text) => VALUE_BYTES + text.len(),
        Value::Array(items) => VALUE_BYTES + items.iter().map(bytes_of).sum::<usize>(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| VALUE_BYTES + name.len() + bytes_of(value);
            VALUE_BYTES + fields.iter().map(field).sum::<usize>()
        }
    }
}

const fn is_zero(number: &u64) -> bool {
    *number == 0
}

const fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}
