//! Writes rejected events as dead letters before their batch is settled.

use std::sync::PoisonError;
use std::time::Duration;

use plimsoll_measure::clock;

use super::shared::{Error, Shared};
use crate::event::{Batch, Rejected};
use crate::guarantee::Guarantee;
use crate::meter::Count;
use crate::port::sink::{FailureClass, Identity, Sink, Verdict};

/// The wait for the sink of dead letters between checks for an abort.
const LOOK: Duration = Duration::from_millis(50);
/// Attempts per batch of dead letters at most. After that the pipeline stops.
const ATTEMPTS_MAX: u32 = 20;

/// Writes the dead letters of one worker.
pub(super) struct DeadLetterWriter<'env> {
    sink: Option<Box<dyn Sink>>,
    shared: &'env Shared,
}

impl<'env> DeadLetterWriter<'env> {
    pub(super) fn new(sink: Option<Box<dyn Sink>>, shared: &'env Shared) -> Self {
        Self { sink, shared }
    }

    /// Fails if rejected events of a transactional pipeline have no sink: otherwise the transaction would commit positions
    /// beyond them.
    pub(super) fn check(&self, batch: &Batch) -> Result<(), Error> {
        let promise = self.shared.promise;
        match batch.rejected().first() {
            Some(first) if promise.identity == Identity::Transaction && !promise.writes_dead_letters => {
                Err(no_dead_letters(batch, first))
            }
            _ => Ok(()),
        }
    }

    /// Writes the rejected events of a batch; returns once they are durable.
    pub(super) fn store(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let rejected = batch.rejected().len() as u64;
        self.note(batch.events_read() as u64, rejected)?;
        if rejected == 0 {
            return Ok(());
        }
        if self.shared.promise.writes_dead_letters {
            self.count(batch);
        } else if self.sink.is_some() {
            self.write(letters(batch))?;
            self.count(batch);
        } else if self.shared.settings.guarantee == Guarantee::AtMostOnce {
            self.shared.meter.add(Count::Lost, rejected);
        } else {
            return Err(no_dead_letters(batch, &batch.rejected()[0]));
        }
        Ok(())
    }

    /// Counts the durable dead letters of a batch. Those that security had admitted count as acknowledged.
    fn count(&self, batch: &Batch) {
        let written = batch.rejected().len() as u64;
        self.shared.meter.add(Count::DeadLettered, written);
        self.shared.meter.add(Count::Acknowledged, written - denied(batch));
    }

    fn note(&self, events: u64, rejected: u64) -> Result<(), Error> {
        let mut window = self.shared.window.lock().unwrap_or_else(PoisonError::into_inner);
        match self.shared.settings.dead_letter_limit {
            Some(limit) if window.note(events, rejected) => Err(Error::TooManyDeadLetters(limit)),
            _ => Ok(()),
        }
    }

    fn write(&mut self, mut letters: Batch) -> Result<(), Error> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        for attempt in 1..=ATTEMPTS_MAX {
            sink.submit(letters);
            sink.flush();
            let settled = loop {
                match sink.settle(LOOK) {
                    Some(settled) => break settled,
                    None if self.shared.control.is_aborted() => {
                        return Err(Error::DeadLetters("the pipeline was aborted".into()));
                    }
                    None => {}
                }
            };
            match settled.verdict {
                Verdict::Written { refused, .. } if refused.is_empty() => return Ok(()),
                Verdict::Written { refused, .. } => {
                    return Err(Error::DeadLetters(refused[0].reason.clone()));
                }
                Verdict::Failed(failure)
                    if failure.class == FailureClass::Transient && attempt < ATTEMPTS_MAX =>
                {
                    self.shared
                        .control
                        .pause(Duration::from_nanos(self.shared.settings.retry.pause_ns(attempt, 1.0)));
                    letters = settled.batch;
                }
                Verdict::Failed(failure) => return Err(Error::DeadLetters(failure.reason)),
                Verdict::Revoked => {
                    return Err(Error::DeadLetters(
                        "their sink released them, which is a defect of this program".into(),
                    ));
                }
            }
        }
        Err(Error::DeadLetters(format!("{ATTEMPTS_MAX} attempts failed")))
    }
}

/// The number of events of a batch that security admitted.
pub(super) fn admitted(batch: &Batch) -> u64 {
    (batch.events_read() as u64).saturating_sub(denied(batch))
}

fn denied(batch: &Batch) -> u64 {
    batch.rejected().iter().filter(|one| one.cause.stage == crate::SECURITY).count() as u64
}

/// The dead letters of a batch: the events as read, with headers for the cause.
fn letters(batch: &Batch) -> Batch {
    let mut letters = Batch::new(batch.partition().clone());
    for Rejected { event, cause } in batch.rejected() {
        let ours = cause.headers(batch.partition(), event.offset);
        let ours = ours.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
        let (record, headers) = batch.as_read(event);
        letters.push_with(record, headers.chain(ours));
    }
    letters.note_submitted(clock::now());
    letters
}

fn no_dead_letters(batch: &Batch, first: &Rejected) -> Error {
    Error::NoDeadLetters {
        partition: batch.partition().clone(),
        offset: first.event.offset,
        stage: first.cause.stage.to_string(),
        class: first.cause.class,
        message: first.cause.message.clone(),
    }
}
