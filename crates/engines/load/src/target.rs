//! Defines the port to the system under load: one target for each worker, one lane for each connection.

use std::error::Error;
use std::future::Future;

use plimsoll_measure::first_error::OperationError;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome};

use crate::retry::{self, Retry};

/// Whether an operation is ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// The operation is ready.
    Ready,
    /// No documents are left: the phase's share is used up.
    Exhausted,
}

/// The system under load, as one worker sees it.
///
/// For each lane the engine calls [`Target::open`], then repeatedly [`Target::prepare`] (outside the timed section, often
/// before the operation is due) and [`Target::send`] or [`Target::discard`]; after a phase [`Target::settle`]. State that
/// the lanes of one worker share is never contended: they share a thread.
pub trait Target: Send + Sync + 'static {
    /// One connection with its buffers: one operation in flight.
    type Lane: Send + 'static;

    /// Whether [`Target::give_up`] can be called. If not, every answer is awaited, up to the operation's time limit.
    const GIVES_UP: bool = false;

    /// Starts a phase; `documents` is this worker's share of a limited number of documents.
    fn begin(&self, documents: Option<u64>);

    /// Connects.
    fn open(&self) -> impl Future<Output = Result<Self::Lane, Box<dyn Error + Send + Sync>>> + Send;

    /// Prepares operation `operation` (an index into the plan's operations) with the plan-wide number `number`.
    fn prepare(&self, lane: &mut Self::Lane, operation: usize, number: u64) -> Prepared;

    /// Sends the prepared operation and reads the answer.
    fn send(&self, lane: &mut Self::Lane) -> impl Future<Output = Reply> + Send;

    /// Discards the prepared operation.
    fn discard(&self, lane: &mut Self::Lane);

    /// Closes the lane's connections after an operation of a load that opens one for each operation. The next [`Target::send`] opens
    /// those that it needs, and its answer counts that time. [`Target::is_broken`] is false until then.
    fn hang_up(&self, _lane: &mut Self::Lane) {}

    /// Records the events since the last call; called once a second on the worker's thread, and at the end of
    /// a phase.
    fn tick(&self);

    /// The first error of each operation and class since the last call; called once a second, as [`Target::tick`] is.
    fn first_errors(&self) -> Vec<OperationError> {
        Vec::new()
    }

    /// Whether the lane's connection is lost, so that it must be reopened.
    fn is_broken(&self, lane: &Self::Lane) -> bool;

    /// The retry of the prepared operation: as the phase asks, or as the target chooses. An operation that
    /// must not be sent twice is not retried.
    fn retry(&self, _lane: &Self::Lane, asked: Option<Retry>) -> Retry {
        asked.unwrap_or_default()
    }

    /// Whether MongoDB's drivers would send the operation again after its last answer, which had this outcome.
    fn is_retryable(&self, _lane: &Self::Lane, outcome: Outcome) -> bool {
        retry::is_retryable(outcome)
    }

    /// Moves the prepared operation from a lost connection to a new one, for a retry; false if that is
    /// impossible. [`Target::send`] may be called again for an operation prepared before.
    fn carry(&self, _lost: &mut Self::Lane, _fresh: &mut Self::Lane) -> bool {
        false
    }

    /// Gives up the answer, after the future of [`Target::send`] was dropped: returns an unknown outcome.
    /// [`Target::is_broken`] must then report the connection as lost.
    fn give_up(&self, _lane: &mut Self::Lane) -> Reply {
        Reply::failed(Outcome::Unknown(Doubt::Timeout), 0)
    }

    /// Runs after the last operation of a phase: ensures that everything sent has arrived.
    fn settle(&self, lane: &mut Self::Lane) -> impl Future<Output = ()> + Send;
}
