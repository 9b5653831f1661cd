//! Where events go.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::event::Batch;
use crate::meter::Tally;

/// What writing the same event twice does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// Two copies.
    Copies,
    /// One: the sink knows an event by its partition and offset.
    Once,
    /// One: the sink knows an event by what it says of itself, wherever it stood in the source.
    Named,
    /// One, because the sink keeps the source's positions in the transaction that writes the events. Nobody else commits.
    Transaction,
}

/// In which order a sink must be given the batches of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any: workers may share a partition.
    Any,
    /// As they were read: one worker a partition. A batch that failed comes again before those behind it.
    Kept,
}

/// What a sink promises; a pipeline's guarantee is checked against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Whether what it acknowledged survives a crash of the system behind it.
    pub durable: bool,
    /// What writing an event twice does.
    pub identity: Identity,
    /// The order it needs.
    pub order: Order,
    /// Whether it writes condemned events itself, in the same transaction as the others.
    pub buries: bool,
}

/// An event that the sink refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its index among the events of the batch.
    pub index: u32,
    /// What the sink said.
    pub reason: String,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// It may pass: network, failover, overload. Nothing is known of any event of the batch; the whole batch comes again.
    Passing,
    /// Something in this batch is refused, and it is not said what: halves of it come again.
    Poisoned,
    /// It will not pass: rights, a wrong name, another process took over. The pipeline stops.
    Final,
}

/// Why a batch was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub class: FailureClass,
    /// What the sink said.
    pub reason: String,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every event is written as promised, but for those refused; `replayed` of them were there already.
    Written {
        /// Events that had been written before.
        replayed: u32,
        /// Events that were refused for good, by ascending index.
        refused: Vec<Refused>,
    },
    /// It was not written, or nobody knows.
    Failed(Failure),
    /// Nothing of it was written, and nothing will be: its partition went to another process, or to another assignment of this
    /// one, which reads it again. Only a sink that is told of assignments says so.
    Left,
}

impl Verdict {
    /// Everything is written, and nothing was there before.
    pub const WRITTEN: Self = Self::Written { replayed: 0, refused: Vec::new() };

    /// A failure of some class.
    pub fn failed(class: FailureClass, reason: impl Into<String>) -> Self {
        Self::Failed(Failure { class, reason: reason.into() })
    }
}

/// A batch that a sink gives back.
#[derive(Debug)]
pub struct Settled {
    /// The batch, with its events as they were submitted.
    pub batch: Batch,
    /// What became of it.
    pub verdict: Verdict,
}

/// Why a sink cannot be made or closed.
#[derive(Debug, Error)]
pub enum SinkError {
    /// It cannot be opened as it is described.
    #[error("{0}")]
    Refused(String),
    /// It cannot be reached now.
    #[error("the sink cannot be reached: {0}")]
    Unreachable(String),
}

/// Writes batches; each worker has its own.
///
/// What the engine promises: no more batches than `capacity` are in its hands; with [`Order::Kept`] the batches of a partition
/// come in order to the same sink, and after a failure the failed ones come first, in order.
///
/// What an implementor promises: every batch that was submitted comes back once, as it was, with a verdict; what it calls
/// written is durable as its factory promises; it bounds its waiting, so that a batch comes back as failed when the system
/// behind it is silent.
pub trait Sink: Send {
    /// How many batches it can have in hand at once, at least one.
    fn capacity(&self) -> usize;

    /// Takes a batch. It may write at once or later.
    fn submit(&mut self, batch: Batch);

    /// The next batch that is done. Waits at most so long for one; `None` if none was done, or none is in hand.
    fn settle(&mut self, wait: Duration) -> Option<Settled>;

    /// No more is coming for now: writes what it gathered without waiting for more.
    fn flush(&mut self) {}
}

/// Makes a sink for each worker.
pub trait SinkFactory: Send + Sync {
    /// What its sinks promise.
    fn promise(&self) -> Promise;

    /// The sink of one worker; connects, and waits a bounded time for that.
    ///
    /// # Errors
    ///
    /// If it is refused, or nobody is there.
    fn build(&self, worker: usize) -> Result<Box<dyn Sink>, SinkError>;

    /// What its sinks count by themselves, all workers together.
    fn tally(&self) -> Option<Arc<dyn Tally>> {
        None
    }
}
