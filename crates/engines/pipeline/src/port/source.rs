//! Where events come from.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use thiserror::Error;

use crate::event::{Batch, Cause, CauseClass, Event, Fate};
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
    /// If it failed for good; what can pass is waited for, told as [`Read::Idle`], and noted ([`Intake::note_trouble`]). What was
    /// handed over before, also in the same turn, is written and committed all the same.
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
    /// Notes what is wrong for now.
    fn trouble(&mut self, reason: String);
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

    /// Says what is wrong for now and waited for, so that it is seen: a broker that is away. It counts until events come again,
    /// or for a minute after it was said last.
    pub fn note_trouble(&mut self, reason: impl Into<String>) {
        self.outlet.trouble(reason.into());
    }

    /// Hands a batch over. A batch without events takes its position along: a source that waits has a newer one. It is let
    /// go if the partition was given up since it was read. An event that is larger than the limit is condemned.
    pub fn hand_over(&mut self, lane: &Arc<Lane>, mut batch: Batch) {
        condemn_oversize(&mut batch, self.limits().event_bytes_max);
        let read = Space { events: batch.taken(), bytes: batch.bytes() };
        let reserved = read.common(self.space);
        self.budget.hold(read, reserved);
        self.space = self.space.without(reserved);
        match lane.claim(batch.position().clone(), read, self.budget) {
            Some(ticket) => {
                batch.begin(ticket, clock::now());
                self.outlet.take(batch);
            }
            None => self.budget.release(read),
        }
    }
}

/// Condemns events that are larger than the limit. Few batches are so large that some event could be.
fn condemn_oversize(batch: &mut Batch, event_bytes_max: usize) {
    let fits = |event: &Event| event.bytes() <= event_bytes_max;
    if batch.bytes() <= event_bytes_max || batch.events().iter().all(fits) {
        return;
    }
    batch.sift(|batch, index| match batch.events()[index].bytes() {
        bytes if bytes > event_bytes_max => {
            let words = format!("{bytes} bytes are more than {event_bytes_max}: raise `in_flight.event`");
            Fate::Condemn(Cause::new("source", CauseClass::Oversize, words))
        }
        _ => Fate::Keep,
    });
}
