//! Partitions, positions in them, and the store that keeps positions.

mod file;
mod store;

use std::fmt;
use std::sync::Arc;

pub use file::FilePositions;
pub use store::{Claim, PositionError, PositionStore};

/// One ordered sequence of events of a source: a partition of a Kafka topic, a file, a change stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The topic, the file's path or the namespace.
    pub topic: Arc<str>,
    /// The number within the topic. A source of one partition uses zero, or in events a number that distinguishes this file or
    /// stream from earlier ones of the same name.
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
