//! Handles a sink's verdict on a batch: settles, retries, splits, rejects or releases it, or stops the pipeline.

use plimsoll_measure::clock;

use super::Worker;
use crate::engine::dead_letters::admitted;
use crate::engine::retry::Exhausted;
use crate::engine::shared::Error;
use crate::event::{Batch, Cause, CauseClass, Clock, Event, Fate};
use crate::guarantee::Guarantee;
use crate::meter::{Count, Meter, Part};
use crate::port::sink::{Failure, FailureClass, Identity, Refused, Settled, Verdict};

impl Worker<'_> {
    pub(super) fn handle_verdict(&mut self, done: Settled) -> Result<(), Error> {
        let batch = Box::new(done.batch);
        match done.verdict {
            Verdict::Written { replayed, refused } => {
                self.note_available();
                self.written(batch, replayed, &refused)
            }
            Verdict::Revoked => {
                self.revoked(batch);
                Ok(())
            }
            Verdict::Failed(failure) if failure.class == FailureClass::Final => {
                Err(Error::Final(failure.reason))
            }
            // The batch is unwritten, or the sink recognises written events, so a split duplicates no event under any
            // guarantee.
            Verdict::Failed(failure) if failure.class == FailureClass::RefusedEvent => {
                self.split_refused(batch, &failure)
            }
            Verdict::Failed(failure) if self.shared.settings.guarantee == Guarantee::AtMostOnce => {
                self.drop_failed(batch, &failure)
            }
            Verdict::Failed(failure) => self.retry(batch, failure),
        }
    }

    /// Handles a batch that the sink did not write, because its assignment has ended.
    fn revoked(&mut self, batch: Box<Batch>) {
        self.circuit().give_back();
        if batch.is_revoked() {
            self.note_handed_over(&batch);
        } else {
            // The sink noticed the end before the assignment did.
            self.retries.put_back(batch);
        }
    }

    /// Notes that the sink answered: earlier problems have passed.
    fn note_available(&self) {
        self.circuit().succeeded();
        self.shared.meter.set_trouble(Part::Sink, None);
    }

    /// Settles a written batch, after its refused events became dead letters.
    fn written(&mut self, mut batch: Box<Batch>, replayed: u32, refused: &[Refused]) -> Result<(), Error> {
        let attempts = batch.attempts() + 1;
        reject(&mut batch, refused, attempts);
        let events = batch.events().len() as u64;
        let sink_ns = clock::now().since(batch.submitted_at());
        self.slot.record(self.transforms.stage_sink(), sink_ns, events);
        self.settle(batch, u64::from(replayed))
    }

    fn settle(&mut self, mut batch: Box<Batch>, replayed: u64) -> Result<(), Error> {
        self.dead_letters.store(&mut batch)?;
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

    /// Ends a batch whose events are all counted.
    fn end(&self, mut batch: Box<Batch>) {
        self.shared.meter.add(Count::Filtered, batch.filtered() as u64);
        batch.settle();
        self.shared.pool.put(batch);
    }

    /// Records the delivery latency of each event: from its time to now by this machine's clock. Consecutive
    /// events with the same time and clock are recorded together. A time later than now shows that two clocks
    /// differ: it is counted.
    fn note_delivery(&self, batch: &Batch) {
        let now_ms = clock::wall_ms();
        let meter = &self.shared.meter;
        let same = |a: &Event, b: &Event| (a.appended_ms, a.clock) == (b.appended_ms, b.clock);
        let runs = batch.events().chunk_by(same).map(|run| {
            let (appended_ms, events) = (run[0].appended_ms, run.len() as u64);
            note_clock(meter, run[0].clock, events);
            meter.add(Count::ClockAhead, if appended_ms > now_ms { events } else { 0 });
            let ms = now_ms.saturating_sub(appended_ms);
            (ms.saturating_mul(clock::MILLISECOND_NS), events)
        });
        self.slot.record_all(self.transforms.stage_sink() + 1, runs);
    }

    /// At most once: drops a failed batch without retry. Earlier rejected events become dead letters.
    fn drop_failed(&mut self, mut batch: Box<Batch>, failure: &Failure) -> Result<(), Error> {
        self.note_failure();
        self.shared.meter.set_trouble(Part::Sink, Some(&failure.reason));
        self.dead_letters.store(&mut batch)?;
        self.shared.meter.add(Count::Lost, batch.events().len() as u64);
        self.end(batch);
        Ok(())
    }

    /// Whether another process reads a batch again, because its partition was revoked. Always false for at-most-once.
    pub(super) fn is_revoked(&self, batch: &Batch) -> bool {
        self.shared.settings.guarantee != Guarantee::AtMostOnce && batch.is_revoked()
    }

    /// Counts a revoked batch that passed the transforms.
    pub(super) fn note_handed_over(&self, batch: &Batch) {
        self.shared.meter.add(Count::HandedOver, admitted(batch));
        self.note_left(batch);
    }

    /// Counts a revoked batch, which another process reads again.
    pub(super) fn note_left(&self, batch: &Batch) {
        self.shared.meter.add(Count::Left, batch.events_read() as u64);
    }

    fn retry(&mut self, mut batch: Box<Batch>, failure: Failure) -> Result<(), Error> {
        let now = clock::now();
        self.note_failure();
        self.shared.meter.set_trouble(Part::Sink, Some(&failure.reason));
        let retry = self.shared.settings.retry;
        let failures = batch.note_failed(now);
        if retry.allows(failures.times, failures.first_at, now) {
            self.retries.put_back(batch);
            return Ok(());
        }
        match retry.then {
            Exhausted::Stop => Err(exhausted(&batch, failure.reason)),
            Exhausted::DeadLetters => {
                reject_all(&mut batch, CauseClass::Exhausted, &failure.reason);
                self.settle(batch, 0)
            }
        }
    }

    /// Splits a batch until the refused event is alone. A transaction cannot be split: half a batch has no position.
    fn split_refused(&mut self, mut batch: Box<Batch>, failure: &Failure) -> Result<(), Error> {
        if self.shared.promise.identity == Identity::Transaction {
            return Err(Error::Final(failure.reason.clone()));
        }
        // A refusal shows that the sink is available.
        self.note_available();
        if batch.events().len() > 1 {
            self.shared.meter.add(Count::Splits, 1);
            let second = batch.split_off_half();
            self.retries.put_back(Box::new(second));
            self.retries.put_back(batch);
            return Ok(());
        }
        reject_all(&mut batch, CauseClass::Refused, &failure.reason);
        self.settle(batch, 0)
    }

    fn note_failure(&mut self) {
        let jitter = self.jitter.unit();
        if self.circuit().failed(clock::now(), jitter) {
            self.shared.meter.add(Count::Trips, 1);
        }
    }
}

fn note_clock(meter: &Meter, clock: Clock, events: u64) {
    match clock {
        Clock::Here => {}
        Clock::Source => meter.add(Count::SourceClock, events),
        Clock::Producer => meter.add(Count::ProducerClock, events),
    }
}

fn at_sink(class: CauseClass, reason: &str, attempts: u32) -> Cause {
    Cause { attempts, ..Cause::new("sink", class, reason) }
}

/// Rejects the events that the sink refused.
fn reject(batch: &mut Batch, refused: &[Refused], attempts: u32) {
    let mut refused = refused.iter().peekable();
    if refused.peek().is_none() {
        return;
    }
    batch.sift(|_, index| match refused.next_if(|one| one.index as usize == index) {
        Some(one) => Fate::Reject(at_sink(CauseClass::Refused, &one.reason, attempts)),
        None => Fate::Keep,
    });
}

/// Rejects every event.
fn reject_all(batch: &mut Batch, class: CauseClass, reason: &str) {
    let attempts = batch.attempts() + 1;
    batch.sift(|_, _| Fate::Reject(at_sink(class, reason, attempts)));
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
