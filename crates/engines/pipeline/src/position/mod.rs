//! Defines partitions, positions in them, and the store of positions.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

mod file;

pub use file::FilePositions;

/// One ordered sequence of events of a source: a partition of a Kafka topic, a file, a change stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The topic, the file's path or the namespace.
    pub topic: Arc<str>,
    /// The number within the topic. A source of one partition uses zero. For its events it may use a number that distinguishes
    /// this file or stream from earlier ones of the same name.
    pub index: u32,
}

impl Partition {
    /// The partition `index` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, index: u32) -> Self {
        Self { topic: topic.into(), index }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.index)
    }
}

/// The point in a partition where a source resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The offset of the next event, or a lower bound: offsets may have holes.
    pub next: u64,
    /// Further data that the source needs to resume: a resume token, the last `_id`.
    pub token: Option<Arc<[u8]>>,
}

impl Position {
    /// The position of the event with offset `next`.
    pub const fn at(next: u64) -> Self {
        Self { next, token: None }
    }
}

/// A partition as a store hands it to this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The position to resume from; `None` if the partition was never committed.
    pub position: Option<Position>,
    /// The epoch in which this process holds the partition: greater than all earlier ones. Zero if the store
    /// has no epochs.
    pub epoch: u64,
}

/// The failure of reading or writing positions.
#[derive(Debug, Error)]
pub enum PositionError {
    /// The store is unavailable.
    #[error("the positions cannot be {verb}: {reason}; the pipeline stops instead of guessing its position")]
    Unavailable {
        /// `read` or `written`.
        verb: &'static str,
        /// The store's reason.
        reason: String,
    },
    /// Another process holds the partition in a later epoch.
    #[error("another process took over {partition}: this process must stop reading it")]
    Fenced {
        /// The partition.
        partition: Partition,
    },
}

impl PositionError {
    /// The message for a caller that retries instead of stopping.
    pub fn transient_message(&self) -> String {
        match self {
            Self::Unavailable { verb, reason } => format!("the positions cannot be {verb}: {reason}"),
            Self::Fenced { .. } => self.to_string(),
        }
    }
}

/// Keeps the positions of a pipeline's partitions durably.
pub trait PositionStore: Send + Sync {
    /// Takes a partition over and returns the position to resume from.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn claim(&self, partition: &Partition) -> Result<Claim, PositionError>;

    /// Stores positions durably: they survive a crash once this returns. Positions never move back.
    ///
    /// # Errors
    ///
    /// If the store is unavailable, or another process holds a partition.
    fn keep(&self, positions: &[(Partition, Position)]) -> Result<(), PositionError>;
}
