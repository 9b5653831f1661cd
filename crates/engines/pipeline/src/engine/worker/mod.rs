//! The thread of a worker: transforms batches, gives them to its sink, and settles what comes back.

mod again;
mod judgement;
mod passage;

use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use plimsoll_measure::clock;

use super::burial::Burial;
use super::chance::Chance;
use super::circuit::{Circuit, Permit};
use super::run::Makers;
use super::shared::{Error, Shared, watched};
use crate::event::Batch;
use crate::meter::{Count, Slot};
use crate::port::sink::{Order, Sink};
use again::Again;
use passage::Passage;

/// How long to wait for a batch while nothing is in hand.
const IDLE: Duration = Duration::from_millis(50);
/// How long to wait for the sink while a batch may come.
const GLANCE: Duration = Duration::from_millis(1);
/// How long to wait for the sink, or for the end of a pause, when nothing can be taken.
const LOOK: Duration = Duration::from_millis(20);

/// The thread of a worker.
pub(super) struct Worker<'env> {
    number: usize,
    queue: Receiver<Box<Batch>>,
    passage: Passage<'env>,
    sink: Box<dyn Sink>,
    burial: Burial<'env>,
    shared: &'env Shared,
    slot: Arc<Slot>,
    again: Again,
    in_hand: usize,
    /// Whether the source is done.
    ending: bool,
    chance: Chance,
}

/// What a turn of the worker did.
enum Took {
    Something,
    Nothing,
}

impl<'env> Worker<'env> {
    pub(super) fn build(
        number: usize,
        queue: Receiver<Box<Batch>>,
        shared: &'env Shared,
        makers: &'env Makers,
    ) -> Result<Self, Error> {
        let slot = shared.meter.slot();
        let passage = Passage::build(number, makers, shared, Arc::clone(&slot))?;
        let dead_letters = makers.dead_letters.as_ref().map(|maker| maker.build(number)).transpose()?;
        Ok(Self {
            number,
            queue,
            passage,
            sink: makers.sink.build(number)?,
            burial: Burial::new(dead_letters, shared),
            shared,
            slot,
            again: Again::default(),
            in_hand: 0,
            ending: false,
            chance: Chance::new(shared.settings.seed.wrapping_add(number as u64)),
        })
    }

    pub(super) fn start<'scope>(
        self,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<ScopedJoinHandle<'scope, ()>, Error>
    where
        'env: 'scope,
    {
        let name = format!("worker-{}", self.number);
        let started = Builder::new().name(name).spawn_scoped(scope, move || {
            let shared = self.shared;
            watched(shared, || self.run());
        });
        started.map_err(|error| Error::Thread(format!("could not be started: {error}")))
    }

    fn run(mut self) {
        while !self.shared.control.is_aborted() && !self.is_done() {
            if let Err(error) = self.turn() {
                self.shared.fail(error);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.ending && self.in_hand == 0 && self.again.is_empty()
    }

    /// Submits what may be submitted, and takes back what is done.
    fn turn(&mut self) -> Result<(), Error> {
        let wait = match self.submit_next()? {
            Took::Something => Duration::ZERO,
            Took::Nothing if self.in_hand == 0 => return Ok(()),
            Took::Nothing if self.can_take() && !self.ending => GLANCE,
            Took::Nothing => LOOK,
        };
        self.take_back(wait)
    }

    fn submit_next(&mut self) -> Result<Took, Error> {
        if self.again.is_empty() && self.ending {
            self.sink.flush();
            return Ok(Took::Nothing);
        }
        if !self.can_take() {
            return Ok(Took::Nothing);
        }
        if self.again.is_empty() {
            let Some(mut batch) = self.next_batch() else { return Ok(Took::Nothing) };
            if self.is_taken_away(&batch) {
                self.leave(&batch);
                return Ok(Took::Something);
            }
            self.passage.apply(&mut batch)?;
            self.burial.check(&batch)?;
            self.again.push(batch);
        }
        Ok(self.submit_first())
    }

    /// Submits what comes first, if the circuit lets it through. Waits a little where only time can help.
    fn submit_first(&mut self) -> Took {
        if self.again.first().is_some_and(|batch| self.is_taken_away(batch)) {
            let left = self.again.take_first();
            left.iter().for_each(|batch| self.hand_over(batch));
            return Took::Something;
        }
        let now = clock::now();
        let permit = self.circuit().permit(now);
        if let Permit::Wait(until) = permit {
            if self.in_hand == 0 {
                self.shared.control.pause(Duration::from_nanos(until.since(now)).min(LOOK));
                // Who pauses for the sink's sake waits for it.
                self.shared.meter.add(Count::SinkWaitNs, clock::now().since(now));
            }
            return Took::Nothing;
        }
        if let Some(batch) = self.again.take_first() {
            self.submit(batch);
        }
        Took::Something
    }

    fn submit(&mut self, mut batch: Box<Batch>) {
        if batch.was_submitted() {
            self.shared.meter.add(Count::Retries, 1);
            batch.note_attempt();
        }
        let begun = clock::now();
        batch.note_submitted(begun);
        self.again.note_submitted(self.in_hand);
        self.in_hand += 1;
        self.sink.submit(*batch);
        self.shared.meter.add(Count::BusyNs, clock::now().since(begun));
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.shared.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the sink has room. With an order to keep, what failed waits until the sink has nothing of what came after.
    fn can_take(&self) -> bool {
        let room = self.in_hand < self.sink.capacity().max(1);
        room && (self.shared.promise.order == Order::Any || self.again.keeps_order(self.in_hand))
    }

    fn next_batch(&mut self) -> Option<Box<Batch>> {
        let next = match self.queue.try_recv() {
            Err(TryRecvError::Empty) if self.in_hand == 0 => self.wait_for_batch(),
            Err(TryRecvError::Empty) => Err(RecvTimeoutError::Timeout),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Ok(batch) => Ok(batch),
        };
        self.ending |= matches!(next, Err(RecvTimeoutError::Disconnected));
        next.ok()
    }

    /// There is nothing to do but wait for a batch.
    fn wait_for_batch(&self) -> Result<Box<Batch>, RecvTimeoutError> {
        let begun = clock::now();
        let next = self.queue.recv_timeout(IDLE);
        self.shared.meter.add(Count::IdleNs, clock::now().since(begun));
        next
    }

    fn take_back(&mut self, wait: Duration) -> Result<(), Error> {
        let begun = (!wait.is_zero()).then(clock::now);
        let mut settled = self.sink.settle(wait);
        if let Some(begun) = begun {
            self.shared.meter.add(Count::SinkWaitNs, clock::now().since(begun));
        }
        while let Some(done) = settled {
            self.in_hand -= 1;
            self.judge(done)?;
            settled = self.sink.settle(Duration::ZERO);
        }
        Ok(())
    }
}
