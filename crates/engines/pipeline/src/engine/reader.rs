//! Runs the thread of a source: reads events, dispatches batches, commits positions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};

use super::dispatch::Dispatch;
use super::shared::{Error, Shared, watched};
use crate::event::Batch;
use crate::flow::{Assignments, Space};
use crate::guarantee::Guarantee;
use crate::meter::{Count, Part};
use crate::port::sink::Identity;
use crate::port::source::{Intake, Last, Outlet, Read, Replay, Source, SourceError};
use crate::position::PositionError;
use crate::position::{Partition, Position};

/// The time limit of a source's wait for its first event, and for space.
const WAIT: Duration = Duration::from_millis(50);
/// The time for which a source's problem is shown after its last report, in nanoseconds.
const TROUBLE_NS_MAX: u64 = 60 * clock::SECOND_NS;
/// The interval of checks whether events are still in flight.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// The thread of a source.
pub(super) struct Reader<'scope, 'env> {
    pub(super) source: Box<dyn Source>,
    pub(super) assignments: Arc<Assignments>,
    pub(super) shared: &'env Shared,
    pub(super) dispatch: Option<Dispatch<'scope, 'env>>,
    pub(super) sources: usize,
    /// Positions that are settled and not committed yet.
    pub(super) reached: BTreeMap<Partition, Position>,
    pub(super) committed_at: Instant,
    /// The time of the source's last report of a problem.
    pub(super) troubled_at: Option<Instant>,
}

impl<'env> Reader<'_, 'env> {
    /// Reads until the source ends, the pipeline drains or fails; then waits for the events in flight and commits them.
    pub(super) fn run(mut self) {
        let shared = self.shared;
        watched(shared, || {
            if let Err(error) = self.read_and_commit() {
                shared.fail(error);
            }
        });
    }

    fn read_and_commit(&mut self) -> Result<(), Error> {
        self.source.open(&self.assignments)?;
        let read = self.read_on();
        // Without senders the workers write the events they have buffered.
        self.dispatch = None;
        // A failed source may fail again. Its earlier events are written and committed nevertheless.
        let rest = self.wait_for_rest(&read);
        // An aborted pipeline does not wait for an unavailable broker.
        let last = if self.shared.control.is_aborted() { Last::No } else { Last::Yes };
        let committed = self.commit(last);
        read.and(rest).and(committed)
    }

    /// Waits until all events handed over are settled, even if reading failed.
    fn wait_for_rest(&mut self, read: &Result<(), Error>) -> Result<(), Error> {
        while !self.shared.control.is_aborted()
            && self.assignments.all().iter().any(|assignment| assignment.waiting() > 0)
        {
            let alive = self.keep_alive();
            if read.is_ok() {
                alive?;
            }
            self.commit_when_due()?;
        }
        Ok(())
    }

    fn read_on(&mut self) -> Result<(), Error> {
        let mut read = Read::Idle;
        while read != Read::End && !self.shared.control.is_draining() {
            read = self.read()?;
            self.commit_when_due()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Read, Error> {
        let (meter, budget) = (&self.shared.meter, &self.shared.budget);
        let asked = clock::now();
        let space = budget.reserve(self.wish(), WAIT);
        let begun = clock::now();
        meter.add(Count::BlockedNs, begun.since(asked));
        let (read, taken) = self.take(space.unwrap_or_default());
        if space.is_some() {
            // A source asks for a batch once it has an event for it.
            let found = taken.asked_at.filter(|_| taken.events > 0).unwrap_or_else(clock::now);
            self.shared.meter.add(Count::StarvedNs, found.since(begun));
        }
        self.show_trouble(taken.trouble.as_deref(), taken.events);
        // Batches handed over before a failure are sent too, so that they are settled.
        self.send(taken.batches)?;
        Ok(read?)
    }

    /// Shows the source's problem until it has passed.
    fn show_trouble(&mut self, trouble: Option<&str>, events: usize) {
        if trouble.is_some() {
            self.troubled_at = Some(clock::now());
            return self.shared.meter.set_trouble(Part::Source, trouble);
        }
        let passed = |since: &mut Instant| events > 0 || clock::now().since(*since) > TROUBLE_NS_MAX;
        if self.troubled_at.take_if(passed).is_some() {
            self.shared.meter.set_trouble(Part::Source, None);
        }
    }

    /// Calls the source without space, so that it keeps its membership in its group.
    fn keep_alive(&mut self) -> Result<(), Error> {
        let (read, _) = self.take(Space::default());
        self.shared.control.pause(DRAIN_LOOK);
        read?;
        Ok(())
    }

    /// Calls the source, and frees the space that it leaves unused.
    fn take(&mut self, space: Space) -> (Result<Read, SourceError>, Taken<'env>) {
        let shared = self.shared;
        let mut taken = Taken { shared, batches: Vec::new(), events: 0, asked_at: None, trouble: None };
        let mut intake = Intake::new(space, WAIT, &shared.budget, &mut taken);
        let read = self.source.read(&mut intake);
        shared.budget.give_back(intake.space());
        (read, taken)
    }

    /// At most four batches, and no more than this source's share, so that sources do not starve each other.
    fn wish(&self) -> Space {
        let limits = self.shared.settings.limits;
        let events = (limits.events_max / self.sources).clamp(1, 4 * limits.batch_events_max);
        let bytes = (limits.bytes_max / self.sources / 2).max(1);
        Space { events, bytes }
    }

    fn send(&mut self, mut taken: Vec<Batch>) -> Result<(), Error> {
        if taken.is_empty() {
            return Ok(());
        }
        if self.shared.settings.guarantee == Guarantee::AtMostOnce {
            taken.iter().for_each(|batch| batch.settle_early());
            self.commit(Last::Yes)?;
            // A partition revoked during the commit is read again by another process.
            taken.retain(|batch| {
                let goes = !batch.is_revoked();
                self.shared.meter.add(Count::Left, if goes { 0 } else { batch.events_read() as u64 });
                goes
            });
        }
        if let Some(dispatch) = &mut self.dispatch {
            taken.into_iter().for_each(|batch| dispatch.send(Box::new(batch)));
        }
        Ok(())
    }

    fn commit_when_due(&mut self) -> Result<(), Error> {
        let every = u64::try_from(self.shared.settings.commit_every.as_nanos()).unwrap_or(u64::MAX);
        if clock::now().since(self.committed_at) < every { Ok(()) } else { self.commit(Last::No) }
    }

    fn commit(&mut self, last: Last) -> Result<(), Error> {
        self.committed_at = clock::now();
        self.reached.extend(self.assignments.take_settled());
        // A source commits a revoked partition itself.
        self.reached.retain(|partition, _| self.assignments.get(partition).is_some());
        if self.shared.promise.identity == Identity::Transaction {
            self.reached.clear();
            return Ok(());
        }
        // A source that keeps its own positions is called even without new positions, to retry a failed commit.
        if self.reached.is_empty() && self.source.replay() != Replay::FromItself {
            return Ok(());
        }
        let reached: Vec<_> =
            self.reached.iter().map(|(at, position)| (at.clone(), position.clone())).collect();
        match self.source.replay() {
            Replay::Nothing => {}
            Replay::FromItself => self.source.commit(&reached, last)?,
            Replay::FromStore => match self.assignments.positions().map(|store| store.keep(&reached)) {
                Some(Err(error @ PositionError::Unavailable { .. })) if last == Last::No => {
                    self.shared.meter.set_trouble(Part::Positions, Some(&error.transient_message()));
                    return Ok(());
                }
                Some(kept) => {
                    kept?;
                    self.shared.meter.set_trouble(Part::Positions, None);
                }
                None => {}
            },
        }
        self.shared.meter.add(Count::Commits, u64::from(!reached.is_empty()));
        self.reached.clear();
        Ok(())
    }
}

/// The batches and the problem of one read.
struct Taken<'a> {
    shared: &'a Shared,
    batches: Vec<Batch>,
    events: usize,
    /// The time of the source's first request for a batch.
    asked_at: Option<Instant>,
    /// The problem that the source reported.
    trouble: Option<String>,
}

impl Outlet for Taken<'_> {
    fn empty_batch(&mut self, partition: &Partition) -> Batch {
        self.asked_at.get_or_insert_with(clock::now);
        match self.shared.pool.take() {
            Some(mut batch) => {
                batch.reuse(partition.clone());
                *batch
            }
            None => Batch::new(partition.clone()),
        }
    }

    fn take(&mut self, batch: Batch) {
        self.shared.meter.add(Count::Read, batch.events_read() as u64);
        self.shared.meter.add(Count::ReadBytes, batch.bytes() as u64);
        self.shared.meter.add(Count::BatchesRead, 1);
        self.events += batch.events_read();
        self.batches.push(batch);
    }

    fn trouble(&mut self, reason: String) {
        self.trouble = Some(reason);
    }

    fn note(&mut self, text: String) {
        self.shared.meter.note(text);
    }
}
