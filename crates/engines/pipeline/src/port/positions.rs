//! Where positions are kept for sources that keep none themselves.

use thiserror::Error;

use crate::place::{Partition, Position};

/// What a store gives for a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Where to go on; `None` if the partition was never committed.
    pub position: Option<Position>,
    /// The epoch in which the partition is held from now on: greater than that of everyone who held it before. Zero where
    /// the store knows no fence.
    pub epoch: u64,
}

/// Why positions cannot be read or written.
#[derive(Debug, Error)]
pub enum PositionError {
    /// The store cannot be used now.
    #[error("the positions cannot be {verb}: {reason}; the pipeline stops rather than guess where it was")]
    Unavailable {
        /// `read` or `written`.
        verb: &'static str,
        /// What the store said.
        reason: String,
    },
    /// Another process holds the partition in a later epoch.
    #[error("another process took over {partition}: this one must stop reading it")]
    Fenced {
        /// The partition.
        partition: Partition,
    },
}

impl PositionError {
    /// What is wrong, in the words of who does not stop at it but tries again.
    pub fn for_now(&self) -> String {
        match self {
            Self::Unavailable { verb, reason } => format!("the positions cannot be {verb}: {reason}"),
            Self::Fenced { .. } => self.to_string(),
        }
    }
}

/// Keeps the positions of a pipeline's partitions, durably.
pub trait PositionStore: Send + Sync {
    /// Takes a partition over and says where to go on.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn claim(&self, partition: &Partition) -> Result<Claim, PositionError>;

    /// Keeps positions; when it returns they survive a crash. Positions of a partition never go back.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or another process holds a partition.
    fn keep(&self, positions: &[(Partition, Position)]) -> Result<(), PositionError>;
}
