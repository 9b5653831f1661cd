//! Explains why an event becomes a dead letter.

use std::borrow::Cow;
use std::fmt;

use super::Event;
use crate::position::Partition;

/// The class of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CauseClass {
    /// The security stage did not admit the event.
    Denied,
    /// A transform could not read the event: invalid JSON, a damaged envelope, a missing field.
    Invalid,
    /// The event is larger than the limit.
    Oversize,
    /// The sink refused the event permanently.
    Refused,
    /// The sink could not write the event within the allowed retries.
    Exhausted,
}

impl CauseClass {
    /// Every class, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Denied, Self::Invalid, Self::Oversize, Self::Refused, Self::Exhausted];

    /// The word of the class in headers, metrics and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Oversize => "oversize",
            Self::Refused => "refused",
            Self::Exhausted => "exhausted",
        }
    }
}

/// The cause of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The stage that rejected the event: `security`, a transform's name, `sink`.
    pub stage: Cow<'static, str>,
    /// The class of the cause.
    pub class: CauseClass,
    /// The details for the operator: at most some hundred bytes, no payload.
    pub message: String,
    /// The number of attempts to write the event.
    pub attempts: u32,
}

impl Cause {
    /// A cause of a stage before the sink.
    pub fn new(stage: impl Into<Cow<'static, str>>, class: CauseClass, message: impl Into<String>) -> Self {
        Self { stage: stage.into(), class, message: message.into(), attempts: 0 }
    }
}

/// The names of the headers that a dead letter has in addition to the event's.
pub mod header {
    /// The class of the cause ([`super::CauseClass::word`]).
    pub const CAUSE: &str = "plimsoll-cause";
    /// The stage that rejected the event.
    pub const STAGE: &str = "plimsoll-stage";
    /// The details.
    pub const MESSAGE: &str = "plimsoll-message";
    /// The number of attempts to write the event, in decimal.
    pub const ATTEMPTS: &str = "plimsoll-attempts";
    /// The topic, file or namespace of the event.
    pub const TOPIC: &str = "plimsoll-topic";
    /// Its partition, in decimal.
    pub const PARTITION: &str = "plimsoll-partition";
    /// Its offset, in decimal.
    pub const OFFSET: &str = "plimsoll-offset";
}

impl Cause {
    /// The headers of a dead letter, for the event at `offset` of `partition`.
    pub fn headers(&self, partition: &Partition, offset: u64) -> [(&'static str, String); 7] {
        [
            (header::CAUSE, self.class.word().to_owned()),
            (header::STAGE, self.stage.to_string()),
            (header::MESSAGE, self.message.clone()),
            (header::ATTEMPTS, self.attempts.to_string()),
            (header::TOPIC, partition.topic.to_string()),
            (header::PARTITION, partition.index.to_string()),
            (header::OFFSET, offset.to_string()),
        ]
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.class.word(), self.stage, self.message)
    }
}

/// An event that becomes a dead letter, and the cause.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The event. The batch still holds its memory.
    pub event: Event,
    /// The cause of the rejection.
    pub cause: Cause,
}
