//! What follows from what a sink says of a batch: settled, again, halved, buried, left, or the end.

use plimsoll_measure::clock;

use super::Worker;
use crate::engine::burial::admitted;
use crate::engine::retry::Exhausted;
use crate::engine::shared::Error;
use crate::event::{Batch, Cause, CauseClass, Event, Fate};
use crate::guarantee::Guarantee;
use crate::meter::{Count, Part};
use crate::port::sink::{Failure, FailureClass, Identity, Refused, Settled, Verdict};

impl Worker<'_> {
    pub(super) fn judge(&mut self, done: Settled) -> Result<(), Error> {
        let batch = Box::new(done.batch);
        match done.verdict {
            Verdict::Written { replayed, refused } => {
                self.reached();
                self.written(batch, replayed, &refused)
            }
            Verdict::Left => {
                self.left(batch);
                Ok(())
            }
            Verdict::Failed(failure) if failure.class == FailureClass::Final => {
                Err(Error::Final(failure.reason))
            }
            // Nothing of it is written, or the sink knows what is: to cut it doubles nothing, whatever is promised.
            Verdict::Failed(failure) if failure.class == FailureClass::Poisoned => {
                self.poisoned(batch, &failure)
            }
            Verdict::Failed(failure) if self.shared.settings.guarantee == Guarantee::AtMostOnce => {
                self.give_up(batch, &failure)
            }
            Verdict::Failed(failure) => self.passing(batch, failure),
        }
    }

    /// The sink wrote nothing of a batch, for its assignment has ended.
    fn left(&mut self, batch: Box<Batch>) {
        self.circuit().give_back();
        if batch.is_taken_away() {
            self.hand_over(&batch);
        } else {
            // The sink heard of it before the lane did.
            self.again.put_back(batch);
        }
    }

    /// The sink answered: whatever was wrong before has passed.
    fn reached(&self) {
        self.circuit().succeeded();
        self.shared.meter.set_trouble(Part::Sink, None);
    }

    /// Everything is written but what was refused, which is buried: then the batch is settled.
    fn written(&mut self, mut batch: Box<Batch>, replayed: u32, refused: &[Refused]) -> Result<(), Error> {
        let attempts = batch.attempts() + 1;
        condemn(&mut batch, refused, attempts);
        let events = batch.events().len() as u64;
        let sink_ns = clock::now().since(batch.submitted_at());
        self.slot.record(self.passage.stage_sink(), sink_ns, events);
        self.settle(batch, u64::from(replayed))
    }

    fn settle(&mut self, mut batch: Box<Batch>, replayed: u64) -> Result<(), Error> {
        self.burial.bury(&mut batch)?;
        self.note_delivery(&batch);
        let meter = &self.shared.meter;
        meter.add(Count::Written, batch.events().len() as u64);
        meter.add(Count::WrittenBytes, payload_bytes(&batch));
        meter.add(Count::Replayed, replayed);
        meter.add(Count::Acknowledged, batch.events().len() as u64);
        meter.add(Count::BatchesWritten, u64::from(!batch.events().is_empty()));
        self.end(batch);
        Ok(())
    }

    /// Every event of a batch has its fate, and is counted.
    fn end(&self, mut batch: Box<Batch>) {
        self.shared.meter.add(Count::Filtered, batch.filtered() as u64);
        batch.settle();
        self.shared.spares.put(batch);
    }

    /// The time from the source's append to now, event by event; neighbours of one millisecond at once.
    fn note_delivery(&self, batch: &Batch) {
        let now_ms = clock::wall_ms();
        let runs = batch.events().chunk_by(|a, b| a.appended_ms == b.appended_ms).map(|run| {
            let ms = now_ms.saturating_sub(run[0].appended_ms);
            (ms.saturating_mul(clock::MILLISECOND_NS), run.len() as u64)
        });
        self.slot.record_all(self.passage.stage_sink() + 1, runs);
    }

    /// At most once: a batch that failed is not tried again. What was condemned before has another way, and goes it.
    fn give_up(&mut self, mut batch: Box<Batch>, failure: &Failure) -> Result<(), Error> {
        self.trip();
        self.shared.meter.set_trouble(Part::Sink, Some(&failure.reason));
        self.burial.bury(&mut batch)?;
        self.shared.meter.add(Count::Lost, batch.events().len() as u64);
        self.end(batch);
        Ok(())
    }

    /// Whether another process reads a batch again, because its partition went there. At most once nobody does.
    pub(super) fn is_taken_away(&self, batch: &Batch) -> bool {
        self.shared.settings.guarantee != Guarantee::AtMostOnce && batch.is_taken_away()
    }

    /// Lets go of a batch that came through the transforms, likewise.
    pub(super) fn hand_over(&self, batch: &Batch) {
        self.shared.meter.add(Count::HandedOver, admitted(batch));
        self.leave(batch);
    }

    /// Lets go of a batch whose partition went to another process: that one reads it again.
    pub(super) fn leave(&self, batch: &Batch) {
        self.shared.meter.add(Count::Left, batch.taken() as u64);
    }

    fn passing(&mut self, mut batch: Box<Batch>, failure: Failure) -> Result<(), Error> {
        let now = clock::now();
        self.trip();
        self.shared.meter.set_trouble(Part::Sink, Some(&failure.reason));
        let retry = self.shared.settings.retry;
        let failures = batch.note_failed(now);
        if retry.allows(failures.times, failures.first_at, now) {
            self.again.put_back(batch);
            return Ok(());
        }
        match retry.then {
            Exhausted::Stop => Err(exhausted(&batch, failure.reason)),
            Exhausted::Bury => {
                condemn_all(&mut batch, CauseClass::Exhausted, &failure.reason);
                self.settle(batch, 0)
            }
        }
    }

    /// Cuts a batch in half until the event is alone that the sink will not have. A transaction cannot be cut: half of a batch has
    /// no position of its own.
    fn poisoned(&mut self, mut batch: Box<Batch>, failure: &Failure) -> Result<(), Error> {
        if self.shared.promise.identity == Identity::Transaction {
            return Err(Error::Final(failure.reason.clone()));
        }
        // It says no to this batch: it is there.
        self.reached();
        if batch.events().len() > 1 {
            self.shared.meter.add(Count::Splits, 1);
            let second = batch.split_off_half();
            self.again.put_back(Box::new(second));
            self.again.put_back(batch);
            return Ok(());
        }
        condemn_all(&mut batch, CauseClass::Refused, &failure.reason);
        self.settle(batch, 0)
    }

    fn trip(&mut self) {
        let chance = self.chance.next();
        if self.circuit().failed(clock::now(), chance) {
            self.shared.meter.add(Count::Trips, 1);
        }
    }
}

fn at_sink(class: CauseClass, reason: &str, attempts: u32) -> Cause {
    Cause { attempts, ..Cause::new("sink", class, reason) }
}

/// Condemns what the sink refused.
fn condemn(batch: &mut Batch, refused: &[Refused], attempts: u32) {
    let mut refused = refused.iter().peekable();
    if refused.peek().is_none() {
        return;
    }
    batch.sift(|_, index| match refused.next_if(|one| one.index as usize == index) {
        Some(one) => Fate::Condemn(at_sink(CauseClass::Refused, &one.reason, attempts)),
        None => Fate::Keep,
    });
}

/// Condemns every event.
fn condemn_all(batch: &mut Batch, class: CauseClass, reason: &str) {
    let attempts = batch.attempts() + 1;
    batch.sift(|_, _| Fate::Condemn(at_sink(class, reason, attempts)));
}

fn payload_bytes(batch: &Batch) -> u64 {
    batch.events().iter().map(|event| event.payload.len() as u64).sum()
}

fn exhausted(batch: &Batch, reason: String) -> Error {
    let offset = |event: Option<&Event>| event.map_or(0, |event| event.offset);
    Error::Exhausted {
        partition: batch.partition().clone(),
        first: offset(batch.events().first()),
        last: offset(batch.events().last()),
        attempts: batch.attempts() + 1,
        reason,
    }
}
