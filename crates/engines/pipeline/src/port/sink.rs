//! Defines the port of sinks.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::event::Batch;
use crate::meter::Tally;

/// The effect of writing the same event twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// Two copies.
    Copies,
    /// One copy: the sink identifies an event by partition and offset.
    Once,
    /// One copy: the sink identifies an event by its content, regardless of its offset.
    Named,
    /// One copy: the sink writes the source's positions in the same transaction as the events. Nothing else commits
    /// positions.
    Transaction,
}

/// The order in which a sink must receive the batches of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any: workers may share a partition.
    Any,
    /// The order of reading, by one worker per partition. A failed batch is retried before later ones.
    Kept,
}

/// The promises of a sink. A pipeline's guarantee is checked against them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Whether acknowledged events survive a crash of the system behind the sink.
    pub durable: bool,
    /// The effect of writing an event twice.
    pub identity: Identity,
    /// The order that the sink needs.
    pub order: Order,
    /// Whether the sink writes dead letters itself, in the same transaction as the events.
    pub writes_dead_letters: bool,
}

/// An event that the sink refused permanently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its index among the events of the batch.
    pub index: u32,
    /// The sink's reason.
    pub reason: String,
}

/// The class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// Transient: network, failover, overload. It is unknown which events were written; the whole batch is retried.
    Transient,
    /// The sink refused an unknown event of this batch: the batch is split and retried.
    RefusedEvent,
    /// Permanent: missing rights, a wrong name, a takeover by another process. The pipeline stops.
    Final,
}

/// The failure of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The class.
    pub class: FailureClass,
    /// The sink's reason.
    pub reason: String,
}

/// The result of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every event is written as promised, except those refused.
    Written {
        /// Events that already existed.
        replayed: u32,
        /// Permanently refused events, by ascending index.
        refused: Vec<Refused>,
    },
    /// The batch was not written, or the result is unknown.
    Failed(Failure),
    /// The batch is unwritten and will not be written: its partition went to another process, or to another assignment of this
    /// process, which reads the batch again. Only sinks that track assignments return this.
    Revoked,
}

impl Verdict {
    /// Every event is written, and none existed before.
    pub const WRITTEN: Self = Self::Written { replayed: 0, refused: Vec::new() };

    /// A failure of this class.
    pub fn failed(class: FailureClass, reason: impl Into<String>) -> Self {
        Self::Failed(Failure { class, reason: reason.into() })
    }
}

/// A batch that a sink returns.
#[derive(Debug)]
pub struct Settled {
    /// The batch, with its events as submitted.
    pub batch: Batch,
    /// The result.
    pub verdict: Verdict,
}

/// The reason why a sink cannot be built.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The settings are invalid, or the destination refuses them.
    #[error("{0}")]
    Refused(String),
    /// The destination is unavailable now.
    #[error("the sink cannot be reached: {0}")]
    Unreachable(String),
}

/// Writes batches; each worker has its own.
///
/// The engine promises: a sink never has more batches than its `capacity`. With [`Order::Kept`] the batches of a partition
/// arrive in order at the same sink, and after a failure the failed ones arrive first, in order.
///
/// An implementor promises: every submitted batch comes back once, unchanged, with a verdict. Written events are durable as
/// the factory promises. Waiting is bounded: a batch comes back as failed when the system behind the sink is silent.
pub trait Sink: Send {
    /// The number of batches that the sink can hold at once, at least one.
    fn capacity(&self) -> usize;

    /// Accepts a batch, to write it now or later.
    fn submit(&mut self, batch: Batch);

    /// Returns the next finished batch. Waits at most `wait`; `None` if none finished, or none is held.
    fn settle(&mut self, wait: Duration) -> Option<Settled>;

    /// Writes buffered events without waiting for more.
    fn flush(&mut self) {}
}

/// Makes a sink for each worker.
pub trait SinkFactory: Send + Sync {
    /// The promises of its sinks.
    fn promise(&self) -> Promise;

    /// Builds the sink of one worker. Connects, and waits a bounded time for that.
    ///
    /// # Errors
    ///
    /// If the destination refuses, or is unavailable.
    fn build(&self, worker: usize) -> Result<Box<dyn Sink>, SinkError>;

    /// The counters that its sinks keep themselves, summed over all workers.
    fn tally(&self) -> Option<Arc<dyn Tally>> {
        None
    }
}
