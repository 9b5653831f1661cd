//! Holds the state of an instance: a plain value from which every pending work follows.

mod effect;
mod encoding;
mod history;
mod signal;
mod token;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use effect::{DeadLetter, DeadReason, Effect, Parent, StartRequest, TaskRow, TaskStatus, Work};
pub use encoding::{DecodeError, EncodeError, NESTING_MAX, STATE_BYTES_MAX, nesting};
pub use history::{History, How, VISITS_MAX, Visit};
pub use signal::{Act, Body, Ended, Signal, Unreadable};
pub(crate) use signal::{bytes_of, weight};
pub use token::{Loop, Token, Wait};

use crate::definition::Version;

/// Ids of applied signals that an instance remembers: a repeated signal is recognised while its id is among them.
pub const APPLIED_MAX: usize = 64;
/// Signals that an instance keeps until it waits for them.
pub const KEPT_MAX: usize = 64;
/// The weight of these signals at most: 2 MiB of the 8 MiB of a state, so that no sender fills it.
pub const KEPT_WEIGHT_MAX: usize = KEPT_MAX + 512;
/// Levels of sub-workflows and continued instances that follow from one start at most.
pub const DEPTH_MAX: u16 = 16;

/// The state of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The id: chosen by the caller that starts the instance.
    #[serde(rename = "i")]
    pub id: String,
    /// The definition's version.
    #[serde(rename = "v")]
    pub version: Version,
    /// The business key.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The instance that waits for the end of this one.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The number of ancestors: the instance that started this one, the instance that started that one, and so on.
    #[serde(rename = "dp", default, skip_serializing_if = "is_zero_u16")]
    pub depth: u16,
    /// The status.
    #[serde(rename = "s")]
    pub status: Status,
    /// The data.
    #[serde(rename = "d", default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// The tokens, in order of their ids.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Token>,
    /// Visits of nodes so far. The number of a visit names its call, task or child.
    #[serde(rename = "n")]
    pub visits: u64,
    /// Completed nodes that have a compensation: the compensating nodes, oldest first.
    #[serde(rename = "u", default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<usize>,
    /// The end that the compensation leads to.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The last error.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Signals that no token waits for yet.
    #[serde(rename = "b", default, skip_serializing_if = "VecDeque::is_empty")]
    pub kept: VecDeque<Signal>,
    /// Ids of applied signals, oldest first.
    #[serde(rename = "a", default, skip_serializing_if = "VecDeque::is_empty")]
    pub applied: VecDeque<String>,
    /// Effects outside of the instance that are not done yet, oldest first: the outbox.
    #[serde(rename = "o", default, skip_serializing_if = "VecDeque::is_empty")]
    pub outbox: VecDeque<Effect>,
    /// Effects so far.
    #[serde(rename = "m", default, skip_serializing_if = "is_zero_u64")]
    pub effects: u64,
    /// The last visits, for readers.
    #[serde(rename = "h", default, skip_serializing_if = "History::is_empty")]
    pub history: History,
    /// The start, in milliseconds since 1970.
    #[serde(rename = "c")]
    pub started_ms: u64,
    /// The last change, in milliseconds since 1970.
    #[serde(rename = "w")]
    pub changed_ms: u64,
}

/// The status of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Tokens move or wait.
    Running,
    /// Completed steps are being undone.
    Compensating,
    /// An operator must retry or cancel the instance.
    Parked,
    /// A step made the engine panic, or the state cannot be read: nothing touches the instance until an operator does.
    Quarantined,
    /// Ended at its last step.
    Done,
    /// Ended after a failure.
    Failed,
    /// Ended after a cancellation.
    Cancelled,
}

impl Status {
    /// Whether the instance has ended.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// Whether tokens may move.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Compensating)
    }

    /// The name in files and stores.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::Parked => "parked",
            Self::Quarantined => "quarantined",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The end that a compensation leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// A step failed.
    Failed,
    /// The instance was cancelled.
    Cancelled,
}

impl State {
    /// The moment when the instance must act without a signal, in milliseconds since 1970. `None` if only a signal can move the instance.
    ///
    /// A pending effect or a token that can move is due at once.
    pub fn due_ms(&self) -> Option<u64> {
        if !self.outbox.is_empty() {
            return Some(self.changed_ms);
        }
        if !self.status.is_active() {
            return None;
        }
        self.tokens.iter().filter_map(|token| token.wait.due_ms(self.changed_ms)).min()
    }

    /// The token with an id.
    pub fn token(&self, id: u64) -> Option<&Token> {
        self.tokens.iter().find(|token| token.id == id)
    }

    /// The token that waits in a visit.
    pub fn visiting(&self, visit: u64) -> Option<&Token> {
        self.tokens.iter().find(|token| token.visit == visit)
    }

    /// Remembers an applied signal, and forgets the oldest above the limit.
    pub fn remember(&mut self, signal: String) {
        self.applied.push_back(signal);
        if self.applied.len() > APPLIED_MAX {
            self.applied.pop_front();
        }
    }

    /// The id of a visit's call, task or child: its idempotency key.
    pub fn visit_id(&self, visit: u64) -> String {
        format!("{}/{visit}", self.id)
    }
}

const fn is_zero_u16(number: &u16) -> bool {
    *number == 0
}

const fn is_zero_u64(number: &u64) -> bool {
    *number == 0
}
