//! Defines the port of sources.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use thiserror::Error;

use crate::event::{Batch, Cause, CauseClass, Event, Fate};
use crate::flow::{Assignment, Assignments, Budget, Limits, Space, Ticket};
use crate::position::{Partition, Position, PositionError};

/// The way in which a source resumes after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The source cannot resume: an event that was read and not written is lost.
    Nothing,
    /// The source resumes from a position store.
    FromStore,
    /// The source resumes from positions that it commits itself.
    FromItself,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The source handed batches over.
    Some,
    /// No event arrived in time.
    Idle,
    /// The source has ended.
    End,
}

/// The failure of a source.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The settings are invalid, or the source refuses them.
    #[error("{0}")]
    Refused(String),
    /// The source failed permanently.
    #[error("the source failed: {0}")]
    Failed(String),
    /// Its positions cannot be read or written.
    #[error(transparent)]
    Positions(#[from] PositionError),
}

/// Reads events; lives on one thread.
///
/// The engine promises: it calls `open` once, first. It calls `read` and `commit` in turn on the same thread, `read` also
/// without space, so that a source can keep its membership in a group. `commit` receives only settled positions of open
/// partitions.
///
/// An implementor promises: it hands events of a partition over in order. A batch holds events of one partition, and its
/// position lies after its last event. It reads no more than the given space, except one event that it cannot put back.
pub trait Source: Send {
    /// The way in which the source resumes after a crash.
    fn replay(&self) -> Replay;

    /// Whether an event has the same offset whenever it is read. Then partition and offset identify it.
    fn stable(&self) -> bool {
        true
    }

    /// Connects, and opens the initial partitions. A source whose partitions come and go opens and revokes them later, within
    /// `read`.
    ///
    /// # Errors
    ///
    /// If the data is missing or cannot be read.
    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError>;

    /// Hands over as many batches as fit the space. Waits at most `intake.wait()` for the first event.
    ///
    /// # Errors
    ///
    /// If it failed permanently. For a transient failure it returns [`Read::Idle`] and notes the reason
    /// ([`Intake::note_trouble`]). Batches that it handed over before are written and committed nevertheless.
    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError>;

    /// Commits the settled positions, if the source keeps its own. With [`Last::Yes`] it waits until that is
    /// done. The engine calls it repeatedly, also without new positions, so that a failed commit is retried.
    ///
    /// # Errors
    ///
    /// If it failed permanently.
    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError>;
}

/// Whether a commit must be done when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// No: a later commit follows.
    No,
    /// Yes: the pipeline ends, or it writes the events only after this commit.
    Yes,
}

/// Receives the batches of a source.
pub(crate) trait Outlet {
    /// An empty batch, if possible with reused memory.
    fn empty_batch(&mut self, partition: &Partition) -> Batch;
    /// Takes a batch.
    fn take(&mut self, batch: Batch);
    /// Notes a transient problem.
    fn trouble(&mut self, reason: String);
    /// Notes a fact of the run.
    fn note(&mut self, text: String);
}

/// The space that a source may fill in one read, and the receiver of its batches.
pub struct Intake<'a> {
    space: Space,
    wait: Duration,
    budget: &'a Arc<Budget>,
    outlet: &'a mut dyn Outlet,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(
        space: Space,
        wait: Duration,
        budget: &'a Arc<Budget>,
        outlet: &'a mut dyn Outlet,
    ) -> Self {
        Self { space, wait, budget, outlet }
    }

    /// The free space. The source must subtract the events in batches that are not handed over yet.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// The time limit of the wait for the first event.
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// The limits of the pipeline, such as those of one batch and one event.
    pub fn limits(&self) -> Limits {
        self.budget.limits()
    }

    /// An empty batch for a partition.
    pub fn batch(&mut self, partition: &Partition) -> Batch {
        self.outlet.empty_batch(partition)
    }

    /// Reports a transient problem, such as an unavailable broker. It is shown until events arrive again, or for a minute
    /// after the last report.
    pub fn note_trouble(&mut self, reason: impl Into<String>) {
        self.outlet.trouble(reason.into());
    }

    /// Notes a fact that the user must know, such as the start of a source without a position. It is printed once and stays in the
    /// run's summary.
    pub fn note(&mut self, text: impl Into<String>) {
        self.outlet.note(text.into());
    }

    /// Hands a batch over. A batch without events still moves the position: an idle source may have a newer one. The batch is
    /// dropped if the partition was revoked since it was read. Events larger than the limit are rejected.
    pub fn hand_over(&mut self, assignment: &Arc<Assignment>, mut batch: Batch) {
        reject_oversize(&mut batch, self.limits().event_bytes_max);
        let read = Space { events: batch.events_read(), bytes: batch.bytes() };
        let reserved = read.common(self.space);
        self.budget.hold(read, reserved);
        self.space = self.space.without(reserved);
        match Ticket::claim(assignment, batch.position().clone(), read, self.budget) {
            Some(ticket) => {
                batch.begin(ticket, clock::now());
                self.outlet.take(batch);
            }
            None => self.budget.release(read),
        }
    }
}

/// Rejects events that are larger than the limit. Few batches are large enough to contain such an event.
fn reject_oversize(batch: &mut Batch, event_bytes_max: usize) {
    let fits = |event: &Event| event.bytes() <= event_bytes_max;
    if batch.bytes() <= event_bytes_max || batch.events().iter().all(fits) {
        return;
    }
    batch.sift(|batch, index| match batch.events()[index].bytes() {
        bytes if bytes > event_bytes_max => {
            let words = format!("{bytes} bytes are more than {event_bytes_max}: raise `in_flight.event`");
            Fate::Reject(Cause::new("source", CauseClass::Oversize, words))
        }
        _ => Fate::Keep,
    });
}
