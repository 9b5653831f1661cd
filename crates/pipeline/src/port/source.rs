//! Where events come from.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use thiserror::Error;

use crate::event::Batch;
use crate::flow::{Budget, Lane, Lanes, Limits, Space};
use crate::place::{Partition, Position};

/// What a source can do again after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Nothing: an event that was read and not written is gone.
    Nothing,
    /// It goes on where a position store says.
    FromStore,
    /// It keeps its own committed positions and goes on there.
    FromItself,
}

/// What came of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Some batches were handed over.
    Some,
    /// Nothing was there in time.
    Idle,
    /// There is nothing more and never will be.
    End,
}

/// Why a source cannot go on.
#[derive(Debug, Error)]
pub enum SourceError {
    /// It cannot be opened as it is described.
    #[error("{0}")]
    Refused(String),
    /// It failed for good on the way.
    #[error("the source failed: {0}")]
    Failed(String),
    /// Its positions cannot be read or kept.
    #[error(transparent)]
    Positions(#[from] crate::port::positions::PositionError),
}

/// Reads events; lives on one thread.
///
/// What the engine promises: `open` is called once, first. `read` and `commit` are called by turns on the same thread, `read`
/// also with no space left, so that a source can keep its place in a group. `commit` gets only positions of which
/// everything before is settled, and of partitions that are open.
///
/// What an implementor promises: events of a partition are handed over in order; a batch holds events of one partition; a
/// batch's position lies behind its last event; it reads no more than the space it is given, but for one event that it
/// cannot put back.
pub trait Source: Send {
    /// Whether it can go on after a crash.
    fn replay(&self) -> Replay;

    /// Whether an event has the same offset whenever it is read: then partition and offset are its name.
    fn stable(&self) -> bool {
        true
    }

    /// Connects, and opens the partitions that it has from the start. A source whose partitions come and go opens them and
    /// gives them up later, from within `read`.
    ///
    /// # Errors
    ///
    /// If what it should read is not there or cannot be read.
    fn open(&mut self, lanes: &Arc<Lanes>) -> Result<(), SourceError>;

    /// Hands batches over, as many as there is space for, and waits at most until `intake.wait()` has passed for the first.
    ///
    /// # Errors
    ///
    /// If it failed for good; what can pass is waited for and told as [`Read::Idle`].
    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError>;

    /// Keeps how far each partition is settled, if it keeps that itself. `last` asks it to wait until that is done. It is called
    /// again and again, also with nothing new: what could not be kept before is tried again then.
    ///
    /// # Errors
    ///
    /// If that can never be done.
    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError>;
}

/// Whether a commit is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// More will come.
    No,
    /// The pipeline ends.
    Yes,
}

/// Where batches go that leave a source.
pub(crate) trait Outlet {
    /// An empty batch, if possible one whose memory was used before.
    fn spare(&mut self, partition: &Partition) -> Batch;
    /// Takes a batch on its way.
    fn take(&mut self, batch: Batch);
}

/// What a source may read now, and where it hands it over.
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

    /// What may still be read. Events in batches that are not handed over yet are the source's to count.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// How long to wait for the first event.
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// The limits of the pipeline, above all of one batch and one event.
    pub fn limits(&self) -> Limits {
        self.budget.limits()
    }

    /// An empty batch for a partition.
    pub fn batch(&mut self, partition: &Partition) -> Batch {
        self.outlet.spare(partition)
    }

    /// Hands a batch over. It is let go if it is empty and its position is where the lane stands already, or if the
    /// partition was given up since it was read.
    pub fn hand_over(&mut self, lane: &Arc<Lane>, mut batch: Batch) {
        let held = Space { events: batch.taken(), bytes: batch.bytes() };
        let over = Space {
            events: held.events.saturating_sub(self.space.events),
            bytes: held.bytes.saturating_sub(self.space.bytes),
        };
        self.budget.charge(over);
        self.space.events -= held.events - over.events;
        self.space.bytes -= held.bytes - over.bytes;
        match lane.claim(batch.position().clone(), held, self.budget) {
            Some(ticket) => {
                batch.begin(ticket, clock::now());
                self.outlet.take(batch);
            }
            None => self.budget.release(held),
        }
    }
}
