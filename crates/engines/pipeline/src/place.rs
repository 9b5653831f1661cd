//! Where an event stands in its source.

use std::fmt;
use std::sync::Arc;

/// One ordered sequence of events of a source: a partition of a Kafka topic, a file, a change stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The topic, the file's path or the namespace.
    pub topic: Arc<str>,
    /// Its number within the topic. Where there is one only, of an event what tells it from others that had the name before, otherwise
    /// zero.
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

/// Where a source goes on reading a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The offset of the first event that is still to come, or a lower bound of it: offsets may have holes.
    pub next: u64,
    /// What the source needs besides to go on there: a resume token, the last `_id`.
    pub token: Option<Arc<[u8]>>,
}

impl Position {
    /// The position of the event with offset `next`.
    pub const fn at(next: u64) -> Self {
        Self { next, token: None }
    }
}
