//! Defines tokens: the places of an instance in its program.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One place of an instance in its program. A fork makes one for each branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// The id: the number of the visit that made the token.
    #[serde(rename = "i")]
    pub id: u64,
    /// The node.
    #[serde(rename = "at")]
    pub at: usize,
    /// The number of the visit. It changes whenever the token enters a node, so that a late answer names an old number.
    #[serde(rename = "n")]
    pub visit: u64,
    /// The reason why the token stays.
    #[serde(rename = "w")]
    pub wait: Wait,
    /// The token that waits at the fork.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Repetitions around the token, outermost first.
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<Loop>,
}

/// A repetition around a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    /// The node of the test.
    #[serde(rename = "at")]
    pub at: usize,
    /// Repetitions begun.
    #[serde(rename = "n")]
    pub count: u32,
}

/// A null in the text is an input, too; only a missing field is none.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The reason why a token stays at its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Nothing: it can move.
    Ready,
    /// The answer of a call.
    Call {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The moment of the attempt.
        due_ms: u64,
        /// The input of every attempt. `None`: all data.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
        input: Option<Value>,
    },
    /// A signal.
    Signal {
        /// The moment of the timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due_ms: Option<u64>,
    },
    /// A moment.
    Timer {
        /// The moment.
        due_ms: u64,
    },
    /// A person.
    Task {
        /// The moment of the timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due_ms: Option<u64>,
        /// The person to whom the task is assigned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assignee: Option<String>,
        /// The data that the person sees, as of the opening. `None`: none, or an earlier version opened the task.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
        payload: Option<Value>,
    },
    /// The end of a sub-workflow.
    Child,
    /// The ends of branches.
    Join {
        /// Branches that have not ended.
        open: usize,
    },
}

impl Wait {
    /// The moment when the token moves without a signal; `ready_ms` if it can move at once.
    pub fn due_ms(&self, ready_ms: u64) -> Option<u64> {
        match self {
            Self::Ready => Some(ready_ms),
            Self::Call { due_ms, .. } | Self::Timer { due_ms } => Some(*due_ms),
            Self::Signal { due_ms } | Self::Task { due_ms, .. } => *due_ms,
            Self::Child | Self::Join { .. } => None,
        }
    }

    /// The kind, in a word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Call { .. } => "call",
            Self::Signal { .. } => "signal",
            Self::Timer { .. } => "timer",
            Self::Task { .. } => "task",
            Self::Child => "workflow",
            Self::Join { .. } => "join",
        }
    }
}
