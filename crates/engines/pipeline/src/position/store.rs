//! Defines the port of position stores, for sources that keep no positions themselves.

use thiserror::Error;

use super::{Partition, Position};

/// A partition as a store hands it to this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The position to resume from; `None` if the partition was never committed.
    pub position: Option<Position>,
    /// The epoch in which this process holds the partition: greater than all earlier ones. Zero if the store has no fence.
    pub epoch: u64,
}

/// Why positions cannot be read or written.
#[derive(Debug, Error)]
pub enum PositionError {
    /// The store is unavailable.
    #[error("the positions cannot be {verb}: {reason}; the pipeline stops rather than guess where it was")]
    Unavailable {
        /// `read` or `written`.
        verb: &'static str,
        /// The store's reason.
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
