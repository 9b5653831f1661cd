//! The port to the thing under load: one target a worker, one lane a connection.

use std::error::Error;
use std::future::Future;

use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome};

/// Whether an operation is ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It is.
    Ready,
    /// There are no documents left for it: the phase's share is used up.
    Exhausted,
}

/// The thing under load, as one worker sees it.
///
/// The engine calls, for every lane by itself: [`Target::open`], then again and again [`Target::prepare`] (outside the
/// timed section, often before the operation is due) and [`Target::send`] or [`Target::discard`]; after a phase
/// [`Target::settle`]. What is shared between the lanes of one worker is never contended: they share a thread.
pub trait Target: Send + Sync + 'static {
    /// One connection with its buffers: one operation in flight.
    type Lane: Send + 'static;

    /// Whether [`Target::give_up`] can be called. Where it cannot, every answer is waited for, up to the operation's own
    /// time limit.
    const GIVES_UP: bool = false;

    /// A phase starts; `documents` is this worker's share of the documents to send, if they are limited.
    fn begin(&self, documents: Option<u64>);

    /// Connects.
    fn open(&self) -> impl Future<Output = Result<Self::Lane, Box<dyn Error + Send + Sync>>> + Send;

    /// Makes operation `operation` (an index into the plan's operations) with the plan-wide number `number` ready.
    fn prepare(&self, lane: &mut Self::Lane, operation: usize, number: u64) -> Prepared;

    /// Sends what was prepared and reads the answer.
    fn send(&self, lane: &mut Self::Lane) -> impl Future<Output = Reply> + Send;

    /// Gives back what was prepared and will not be sent.
    fn discard(&self, lane: &mut Self::Lane);

    /// Called once a second on the worker's thread, and at the end of a phase: the place to hand over what was noted.
    fn tick(&self);

    /// Whether the lane's connection is lost, so that it must be opened again.
    fn is_broken(&self, lane: &Self::Lane) -> bool;

    /// Moves what was prepared from a connection that is lost to a fresh one, so that it can be sent again; false if it
    /// cannot. [`Target::send`] may be called again for what was prepared before.
    fn carry(&self, _lost: &mut Self::Lane, _fresh: &mut Self::Lane) -> bool {
        false
    }

    /// The answer of what was sent is not waited for any longer, and the future of [`Target::send`] was dropped: says that
    /// it is unknown what became of it. The connection must be lost for [`Target::is_broken`] after that.
    fn give_up(&self, _lane: &mut Self::Lane) -> Reply {
        Reply::failed(Outcome::Unknown(Doubt::Timeout), 0)
    }

    /// After the last operation of a phase: makes sure that everything handed over has arrived.
    fn settle(&self, lane: &mut Self::Lane) -> impl Future<Output = ()> + Send;
}
