//! A topic of Kafka at one moment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Whether it is there; it has no partitions if not.
    pub exists: bool,
    /// Its partitions in order.
    pub partitions: Vec<Extent>,
}

/// Where a partition begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extent {
    /// Its number.
    pub partition: u32,
    /// The first offset that is there.
    pub begin: u64,
    /// The offset behind the last one. Marks of transactions take offsets too.
    pub end: u64,
}

impl Topic {
    /// Offsets that are there, over all partitions: records, and marks of transactions.
    pub fn offsets(&self) -> u64 {
        self.partitions.iter().map(|extent| extent.end.saturating_sub(extent.begin)).sum()
    }
}
