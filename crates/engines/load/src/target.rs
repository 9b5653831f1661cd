//! Defines the port to the system under load: one target a worker, one lane a connection.

use std::error::Error;
use std::future::Future;

use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome};

/// Whether an operation is ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It is ready.
    Ready,
    /// It has no documents left: the phase's share is used up.
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

    /// A phase starts; `documents` is this worker's share of the documents to send, if they are limited.
    fn begin(&self, documents: Option<u64>);

    /// Connects.
    fn open(&self) -> impl Future<Output = Result<Self::Lane, Box<dyn Error + Send + Sync>>> + Send;

    /// Prepares operation `operation` (an index into the plan's operations) with the plan-wide number `number`.
    fn prepare(&self, lane: &mut Self::Lane, operation: usize, number: u64) -> Prepared;

    /// Sends the prepared operation and reads the answer.
    fn send(&self, lane: &mut Self::Lane) -> impl Future<Output = Reply> + Send;

    /// Discards the prepared operation.
    fn discard(&self, lane: &mut Self::Lane);

    /// Called once a second on the worker's thread, and at the end of a phase: hands over what was recorded.
    fn tick(&self);

    /// Whether the lane's connection is lost, so that it must be reopened.
    fn is_broken(&self, lane: &Self::Lane) -> bool;

    /// Moves the prepared operation from a lost connection to a fresh one, for a retry; false if that is impossible.
    /// [`Target::send`] may be called again for an operation prepared before.
    fn carry(&self, _lost: &mut Self::Lane, _fresh: &mut Self::Lane) -> bool {
        false
    }

    /// Gives up the answer, after the future of [`Target::send`] was dropped: returns an unknown outcome. After that the
    /// connection must be lost for [`Target::is_broken`].
    fn give_up(&self, _lane: &mut Self::Lane) -> Reply {
        Reply::failed(Outcome::Unknown(Doubt::Timeout), 0)
    }

    /// Runs after the last operation of a phase: makes sure that everything sent has arrived.
    fn settle(&self, lane: &mut Self::Lane) -> impl Future<Output = ()> + Send;
}
