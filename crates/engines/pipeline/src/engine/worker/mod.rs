//! Runs the thread of a worker: transforms batches, submits them to its sink, and settles the results.

mod retry_queue;
mod transform_chain;
mod verdict_handler;

use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use plimsoll_measure::clock;
use plimsoll_measure::random::Random;

use super::circuit::{Circuit, Permit};
use super::dead_letters::DeadLetterWriter;
use super::parts::Factories;
use super::shared::{Error, Shared, watched};
use crate::event::Batch;
use crate::meter::{Count, Slot};
use crate::port::sink::{Order, Sink};
use retry_queue::RetryQueue;
use transform_chain::TransformChain;

/// The wait for a batch while none is in flight.
const IDLE: Duration = Duration::from_millis(50);
/// The wait for the sink while another batch may arrive.
const BRIEF: Duration = Duration::from_millis(1);
/// The wait for the sink, or for the end of a pause, when no batch can be submitted.
const LOOK: Duration = Duration::from_millis(20);

/// The thread of a worker.
pub(super) struct Worker<'env> {
    number: usize,
    queue: Receiver<Box<Batch>>,
    transforms: TransformChain<'env>,
    sink: Box<dyn Sink>,
    dead_letters: DeadLetterWriter<'env>,
    shared: &'env Shared,
    slot: Arc<Slot>,
    retries: RetryQueue,
    in_hand: usize,
    /// Whether the sources ended.
    ending: bool,
    /// Spreads retries of several workers over time.
    jitter: Random,
}

/// Whether a turn submitted a batch.
enum Turn {
    Busy,
    Idle,
}

impl<'env> Worker<'env> {
    pub(super) fn build(
        number: usize,
        queue: Receiver<Box<Batch>>,
        shared: &'env Shared,
        factories: &'env Factories,
    ) -> Result<Self, Error> {
        let slot = shared.meter.slot();
        let transforms = TransformChain::build(number, factories, shared, Arc::clone(&slot))?;
        let dead_letters =
            factories.dead_letters.as_ref().map(|factory| factory.build(number)).transpose()?;
        Ok(Self {
            number,
            queue,
            transforms,
            sink: factories.sink.build(number)?,
            dead_letters: DeadLetterWriter::new(dead_letters, shared),
            shared,
            slot,
            retries: RetryQueue::default(),
            in_hand: 0,
            ending: false,
            jitter: Random::new(shared.settings.seed.wrapping_add(number as u64)),
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
        self.ending && self.in_hand == 0 && self.retries.is_empty()
    }

    /// Submits a batch if possible, and takes finished batches back.
    fn turn(&mut self) -> Result<(), Error> {
        let wait = match self.submit_next()? {
            Turn::Busy => Duration::ZERO,
            Turn::Idle if self.in_hand == 0 => return Ok(()),
            Turn::Idle if self.can_take() && !self.ending => BRIEF,
            Turn::Idle => LOOK,
        };
        self.take_back(wait)
    }

    fn submit_next(&mut self) -> Result<Turn, Error> {
        if self.retries.is_empty() && self.ending {
            self.sink.flush();
            return Ok(Turn::Idle);
        }
        if !self.can_take() {
            return Ok(Turn::Idle);
        }
        if self.retries.is_empty() {
            let Some(mut batch) = self.next_batch() else { return Ok(Turn::Idle) };
            if self.is_revoked(&batch) {
                self.note_left(&batch);
                return Ok(Turn::Busy);
            }
            self.transforms.apply(&mut batch)?;
            self.dead_letters.check(&batch)?;
            self.retries.push(batch);
        }
        Ok(self.submit_first())
    }

    /// Submits the first batch, if the circuit permits. Waits a little during a pause.
    fn submit_first(&mut self) -> Turn {
        if self.retries.first().is_some_and(|batch| self.is_revoked(batch)) {
            let left = self.retries.take_first();
            left.iter().for_each(|batch| self.note_handed_over(batch));
            return Turn::Busy;
        }
        let now = clock::now();
        let permit = self.circuit().permit(now);
        if let Permit::Wait(until) = permit {
            if self.in_hand == 0 {
                self.shared.control.pause(Duration::from_nanos(until.since(now)).min(LOOK));
                // A pause for the sink counts as waiting for it.
                self.shared.meter.add(Count::SinkWaitNs, clock::now().since(now));
            }
            return Turn::Idle;
        }
        if let Some(batch) = self.retries.take_first() {
            self.submit(batch);
        }
        Turn::Busy
    }

    fn submit(&mut self, mut batch: Box<Batch>) {
        if batch.was_submitted() {
            self.shared.meter.add(Count::Retries, 1);
            batch.note_attempt();
        }
        let begun = clock::now();
        batch.note_submitted(begun);
        self.retries.note_submitted(self.in_hand);
        self.in_hand += 1;
        self.sink.submit(*batch);
        self.shared.meter.add(Count::BusyNs, clock::now().since(begun));
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.shared.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the sink accepts another batch. With an ordered sink, a failed batch waits until the sink holds no later one.
    fn can_take(&self) -> bool {
        let room = self.in_hand < self.sink.capacity().max(1);
        room && (self.shared.promise.order == Order::Any || self.retries.keeps_order(self.in_hand))
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

    /// Waits for a batch, and counts the time as idle.
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
            self.handle_verdict(done)?;
            settled = self.sink.settle(Duration::ZERO);
        }
        Ok(())
    }
}
