//! The thread of a worker: transforms batches, gives them to its sink, and settles what comes back.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use plimsoll_measure::clock;

use super::burial::Burial;
use super::circuit::{Circuit, Permit};
use super::retry::Exhausted;
use super::run::Makers;
use super::shared::{Error, Shared, Watch};
use crate::event::{Batch, Cause, CauseClass, Fate};
use crate::guarantee::Guarantee;
use crate::meter::{Count, Slot};
use crate::port::sink::{Failure, FailureClass, Identity, Order, Refused, Settled, Sink, Verdict};
use crate::port::transform::Transform;

/// How long to wait for a batch while nothing is in hand.
const IDLE: Duration = Duration::from_millis(50);
/// How long to wait for the sink while a batch may come.
const GLANCE: Duration = Duration::from_millis(1);
/// How long to wait for the sink, or for the end of a pause, when nothing can be taken.
const LOOK: Duration = Duration::from_millis(20);
/// The stage of waiting for a worker; transforms follow, then the sink, then delivery.
const STAGE_QUEUE: usize = 0;

/// The thread of a worker.
pub(super) struct Worker<'env> {
    number: usize,
    queue: Receiver<Box<Batch>>,
    transforms: Vec<(String, Box<dyn Transform>)>,
    sink: Box<dyn Sink>,
    burial: Burial<'env>,
    shared: &'env Shared,
    slot: Arc<Slot>,
    /// Batches that failed and come again, in the order of their reading.
    again: VecDeque<Box<Batch>>,
    in_hand: usize,
    /// Whether all that is in hand failed before and was submitted again in order.
    replaying: bool,
    /// Whether the source is done.
    ending: bool,
    random: u64,
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
        let transforms: Result<Vec<_>, Error> = makers
            .transforms
            .iter()
            .map(|maker| Ok((maker.name().to_owned(), maker.build(number)?)))
            .collect();
        let dead_letters = makers.dead_letters.as_ref().map(|maker| maker.build(number)).transpose()?;
        let slot = shared.meter.slot();
        Ok(Self {
            number,
            queue,
            transforms: transforms?,
            sink: makers.sink.build(number)?,
            burial: Burial::new(dead_letters, shared),
            shared,
            slot,
            again: VecDeque::new(),
            in_hand: 0,
            replaying: false,
            ending: false,
            random: shared.settings.seed.wrapping_add(number as u64),
        })
    }

    pub(super) fn start<'scope>(self, scope: &'scope Scope<'scope, 'env>) -> Result<(), Error>
    where
        'env: 'scope,
    {
        let name = format!("worker-{}", self.number);
        let started = Builder::new().name(name).spawn_scoped(scope, move || self.run());
        started.map(drop).map_err(|error| Error::Thread(format!("could not be started: {error}")))
    }

    fn run(mut self) {
        let _watch = Watch(self.shared);
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
            let Some(batch) = self.next_batch() else { return Ok(Took::Nothing) };
            if self.is_taken_away(&batch) {
                self.leave(&batch);
                return Ok(Took::Something);
            }
            let batch = self.transform(batch)?;
            self.again.push_back(batch);
        }
        self.submit_first()
    }

    /// Submits what comes first, if the circuit lets it through. Waits a little where only time can help.
    fn submit_first(&mut self) -> Result<Took, Error> {
        if self.again.front().is_some_and(|batch| self.is_taken_away(batch)) {
            let left = self.again.pop_front();
            left.iter().for_each(|batch| self.leave(batch));
            return Ok(Took::Something);
        }
        let permit = self.circuit().permit(clock::now());
        if let Permit::Wait(until) = permit {
            if self.in_hand == 0 {
                self.shared.control.pause(Duration::from_nanos(until.since(clock::now())).min(LOOK));
            }
            return Ok(Took::Nothing);
        }
        if let Some(mut batch) = self.again.pop_front() {
            if batch.was_submitted() {
                self.shared.meter.add(Count::Retries, 1);
                batch.note_attempt();
            }
            self.replaying |= self.in_hand == 0;
            self.submit(batch);
        }
        Ok(Took::Something)
    }

    fn circuit(&self) -> std::sync::MutexGuard<'_, Circuit> {
        self.shared.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the sink has room. With an order to keep, what failed waits until the sink has nothing of what came after.
    fn can_take(&self) -> bool {
        let room = self.in_hand < self.sink.capacity().max(1);
        let kept = self.shared.promise.order == Order::Kept;
        room && (self.again.is_empty() || !kept || self.in_hand == 0 || self.replaying)
    }

    fn next_batch(&mut self) -> Option<Box<Batch>> {
        let begun = clock::now();
        let next = if self.in_hand == 0 {
            self.queue.recv_timeout(IDLE)
        } else {
            self.queue.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
        };
        if self.in_hand == 0 {
            self.shared.meter.add(Count::IdleNs, clock::now().since(begun));
        }
        self.ending |= matches!(next, Err(RecvTimeoutError::Disconnected));
        next.ok()
    }

    /// A batch's way through the transforms.
    fn transform(&mut self, mut batch: Box<Batch>) -> Result<Box<Batch>, Error> {
        let mut at = clock::now();
        let begun = at;
        self.slot.record(STAGE_QUEUE, at.since(batch.read_at()), batch.events().len() as u64);
        for (stage, (name, transform)) in self.transforms.iter_mut().enumerate() {
            let (before, condemned) = (batch.events().len() as u64, batch.condemned().len());
            transform.apply(&mut batch)?;
            let now = clock::now();
            self.slot.record(STAGE_QUEUE + 1 + stage, now.since(at), before);
            at = now;
            if name == crate::SECURITY {
                note_decisions(self.shared, before, &batch.condemned()[condemned..]);
            }
        }
        self.shared.meter.add(Count::Processed, batch.events().len() as u64);
        self.burial.check(&batch)?;
        self.shared.meter.add(Count::BusyNs, clock::now().since(begun));
        Ok(batch)
    }

    fn submit(&mut self, mut batch: Box<Batch>) {
        let begun = clock::now();
        batch.note_submitted(begun);
        self.in_hand += 1;
        self.sink.submit(*batch);
        self.shared.meter.add(Count::BusyNs, clock::now().since(begun));
    }

    fn take_back(&mut self, wait: Duration) -> Result<(), Error> {
        let begun = clock::now();
        let mut settled = self.sink.settle(wait);
        if !wait.is_zero() {
            self.shared.meter.add(Count::SinkWaitNs, clock::now().since(begun));
        }
        while let Some(done) = settled {
            self.in_hand -= 1;
            self.judge(done)?;
            settled = self.sink.settle(Duration::ZERO);
        }
        Ok(())
    }

    fn judge(&mut self, done: Settled) -> Result<(), Error> {
        let batch = Box::new(done.batch);
        match done.verdict {
            Verdict::Written { replayed, refused } => {
                self.reached();
                self.written(batch, replayed, refused)
            }
            Verdict::Failed(failure) if self.shared.settings.guarantee == Guarantee::AtMostOnce => {
                self.give_up(batch, failure)
            }
            Verdict::Failed(failure) => match failure.class {
                FailureClass::Final => Err(Error::Final(failure.reason)),
                FailureClass::Passing => self.passing(batch, failure),
                FailureClass::Poisoned => self.poisoned(batch, failure),
            },
        }
    }

    /// The sink answered: whatever was wrong before has passed.
    fn reached(&self) {
        self.circuit().succeeded();
        self.shared.meter.set_trouble(None);
    }

    /// Everything is written but what was refused, which is buried: then the batch is settled.
    fn written(&mut self, mut batch: Box<Batch>, replayed: u32, refused: Vec<Refused>) -> Result<(), Error> {
        let now = clock::now();
        let attempts = batch.attempts() + 1;
        condemn(&mut batch, &refused, attempts);
        let events = batch.events().len() as u64;
        self.slot.record(self.transforms.len() + 1, now.since(batch.submitted_at()), events);
        self.settle(batch, u64::from(replayed))
    }

    fn settle(&mut self, mut batch: Box<Batch>, replayed: u64) -> Result<(), Error> {
        self.burial.bury(&mut batch)?;
        self.note_delivery(&batch);
        let meter = &self.shared.meter;
        meter.add(Count::Written, batch.events().len() as u64);
        meter.add(Count::WrittenBytes, payload_bytes(&batch));
        meter.add(Count::Replayed, replayed);
        meter.add(Count::Flushes, u64::from(!batch.events().is_empty()));
        meter.add(Count::Filtered, batch.filtered() as u64);
        batch.settle();
        self.shared.recycle(batch);
        Ok(())
    }

    /// The time from the source's append to now, event by event; neighbours of one millisecond at once.
    fn note_delivery(&self, batch: &Batch) {
        let now_ms = clock::wall_ms();
        for run in batch.events().chunk_by(|a, b| a.appended_ms == b.appended_ms) {
            let ms = now_ms.saturating_sub(run[0].appended_ms);
            self.slot.record(
                self.transforms.len() + 2,
                ms.saturating_mul(clock::MILLISECOND_NS),
                run.len() as u64,
            );
        }
    }

    /// At most once: a batch that failed is not tried again.
    fn give_up(&mut self, mut batch: Box<Batch>, failure: Failure) -> Result<(), Error> {
        if failure.class == FailureClass::Final {
            return Err(Error::Final(failure.reason));
        }
        self.trip();
        self.shared.meter.add(Count::Lost, (batch.events().len() + batch.condemned().len()) as u64);
        self.shared.meter.add(Count::Filtered, batch.filtered() as u64);
        batch.settle();
        self.shared.recycle(batch);
        Ok(())
    }

    /// Whether another process reads a batch again, because its partition went there. At most once nobody does.
    fn is_taken_away(&self, batch: &Batch) -> bool {
        self.shared.settings.guarantee != Guarantee::AtMostOnce && batch.is_taken_away()
    }

    /// Lets go of a batch whose partition went to another process: that one reads it again.
    fn leave(&self, batch: &Batch) {
        self.shared.meter.add(Count::Left, batch.taken() as u64);
    }

    fn passing(&mut self, mut batch: Box<Batch>, failure: Failure) -> Result<(), Error> {
        let now = clock::now();
        self.trip();
        self.shared.meter.set_trouble(Some(&failure.reason));
        let retry = self.shared.settings.retry;
        let since = batch.note_failed(now);
        if retry.allows(batch.attempts() + 1, since, now) {
            self.put_back(batch);
            return Ok(());
        }
        match retry.then {
            Exhausted::Stop => Err(exhausted(&batch, failure.reason)),
            Exhausted::Bury => {
                let attempts = batch.attempts() + 1;
                batch.sift(|_, _| {
                    Fate::Condemn(at_sink(CauseClass::Exhausted, failure.reason.clone(), attempts))
                });
                self.settle(batch, 0)
            }
        }
    }

    /// Cuts a batch in half until the event is alone that the sink will not have. A transaction cannot be cut: half of a batch has
    /// no position of its own.
    fn poisoned(&mut self, mut batch: Box<Batch>, failure: Failure) -> Result<(), Error> {
        if self.shared.promise.identity == Identity::Transaction {
            return Err(Error::Final(failure.reason));
        }
        // It says no to this batch: it is there.
        self.reached();
        if batch.events().len() > 1 {
            self.shared.meter.add(Count::Splits, 1);
            let second = batch.split_off_half();
            self.put_back(Box::new(second));
            self.put_back(batch);
            return Ok(());
        }
        let attempts = batch.attempts() + 1;
        batch.sift(|_, _| Fate::Condemn(at_sink(CauseClass::Refused, failure.reason.clone(), attempts)));
        self.settle(batch, 0)
    }

    /// Puts a batch where its partition's order wants it.
    fn put_back(&mut self, batch: Box<Batch>) {
        let place = batch.place();
        let at = self.again.partition_point(|waiting| waiting.place() < place);
        self.again.insert(at, batch);
        self.replaying = false;
    }

    fn trip(&mut self) {
        let chance = self.chance();
        if self.circuit().failed(clock::now(), chance) {
            self.shared.meter.add(Count::Trips, 1);
        }
    }

    /// A number in 0 to 1 (xorshift; Marsaglia, "Xorshift RNGs", 2003).
    fn chance(&mut self) -> f64 {
        self.random |= 1 << 63;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn note_decisions(shared: &Shared, decided: u64, condemned: &[crate::event::Condemned]) {
    let denied = condemned.iter().filter(|one| one.cause.class == CauseClass::Denied).count() as u64;
    shared.meter.add(Count::Decided, decided);
    shared.meter.add(Count::Denied, denied);
    shared.meter.add(Count::Undecidable, condemned.len() as u64 - denied);
}

fn at_sink(class: CauseClass, reason: String, attempts: u32) -> Cause {
    Cause { attempts, ..Cause::new("sink", class, reason) }
}

fn condemn(batch: &mut Batch, refused: &[Refused], attempts: u32) {
    let mut refused = refused.iter().peekable();
    if refused.peek().is_none() {
        return;
    }
    batch.sift(|_, index| match refused.next_if(|one| one.index as usize == index) {
        Some(one) => Fate::Condemn(at_sink(CauseClass::Refused, one.reason.clone(), attempts)),
        None => Fate::Keep,
    });
}

fn payload_bytes(batch: &Batch) -> u64 {
    batch.events().iter().map(|event| event.payload.len() as u64).sum()
}

fn exhausted(batch: &Batch, reason: String) -> Error {
    let offset = |event: Option<&crate::event::Event>| event.map_or(0, |event| event.offset);
    Error::Exhausted {
        partition: batch.partition().clone(),
        first: offset(batch.events().first()),
        last: offset(batch.events().last()),
        attempts: batch.attempts() + 1,
        reason,
    }
}
