//! Makes condemned events durable as dead letters before their batch is settled.

use std::sync::PoisonError;
use std::time::Duration;

use plimsoll_measure::clock;

use super::shared::{Error, Shared};
use crate::event::{Batch, Condemned};
use crate::guarantee::Guarantee;
use crate::meter::Count;
use crate::port::sink::{FailureClass, Identity, Sink, Verdict};

/// How long to wait for the sink of dead letters before looking whether the pipeline ended.
const LOOK: Duration = Duration::from_millis(50);
/// Tries of one batch of dead letters at most: a sink that takes none stops the pipeline.
const ATTEMPTS_MAX: u32 = 20;

/// The dead letters of one worker.
pub(super) struct Burial<'env> {
    sink: Option<Box<dyn Sink>>,
    shared: &'env Shared,
}

impl<'env> Burial<'env> {
    pub(super) fn new(sink: Option<Box<dyn Sink>>, shared: &'env Shared) -> Self {
        Self { sink, shared }
    }

    /// Refuses what nobody would bury: a transaction commits the positions behind it.
    pub(super) fn check(&self, batch: &Batch) -> Result<(), Error> {
        let promise = self.shared.promise;
        match batch.condemned().first() {
            Some(first) if promise.identity == Identity::Transaction && !promise.buries => {
                Err(nowhere(batch, first))
            }
            _ => Ok(()),
        }
    }

    /// Returns when the condemned events of a batch are durable dead letters.
    pub(super) fn bury(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let condemned = batch.condemned().len() as u64;
        self.note(batch.taken() as u64, condemned)?;
        if condemned == 0 {
            return Ok(());
        }
        if self.shared.promise.buries {
            self.count(batch);
        } else if self.sink.is_some() {
            self.write(letters(batch))?;
            self.count(batch);
        } else if self.shared.settings.guarantee == Guarantee::AtMostOnce {
            self.shared.meter.add(Count::Lost, condemned);
        } else {
            return Err(nowhere(batch, &batch.condemned()[0]));
        }
        Ok(())
    }

    /// Counts the dead letters of a batch, which are durable now; of those that were admitted nothing more is owed.
    fn count(&self, batch: &Batch) {
        let buried = batch.condemned().len() as u64;
        self.shared.meter.add(Count::DeadLettered, buried);
        self.shared.meter.add(Count::Acknowledged, buried - turned_away(batch));
    }

    fn note(&self, events: u64, condemned: u64) -> Result<(), Error> {
        let mut window = self.shared.window.lock().unwrap_or_else(PoisonError::into_inner);
        match self.shared.settings.dead_letter_limit {
            Some(limit) if window.note(events, condemned) => Err(Error::TooManyDeadLetters(limit)),
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
                        return Err(Error::DeadLetters("the pipeline was ended at once".into()));
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
                    if failure.class == FailureClass::Passing && attempt < ATTEMPTS_MAX =>
                {
                    self.shared
                        .control
                        .pause(Duration::from_nanos(self.shared.settings.retry.pause_ns(attempt, 1.0)));
                    letters = settled.batch;
                }
                Verdict::Failed(failure) => return Err(Error::DeadLetters(failure.reason)),
                Verdict::Left => {
                    return Err(Error::DeadLetters("their sink gave them up, and may not".into()));
                }
            }
        }
        Err(Error::DeadLetters(format!("{ATTEMPTS_MAX} attempts failed")))
    }
}

/// Events of a batch that security did not turn away.
pub(super) fn admitted(batch: &Batch) -> u64 {
    (batch.taken() as u64).saturating_sub(turned_away(batch))
}

fn turned_away(batch: &Batch) -> u64 {
    batch.condemned().iter().filter(|one| one.cause.stage == crate::SECURITY).count() as u64
}

/// The dead letters of a batch: the events as they were read, with their headers and why they are here.
fn letters(batch: &Batch) -> Batch {
    let mut letters = Batch::new(batch.partition().clone());
    for Condemned { event, cause } in batch.condemned() {
        let ours = cause.headers(batch.partition(), event.offset);
        let ours = ours.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
        let (record, headers) = batch.as_read(event);
        letters.push_with(record, headers.chain(ours));
    }
    letters.note_submitted(clock::now());
    letters
}

fn nowhere(batch: &Batch, first: &Condemned) -> Error {
    Error::NoDeadLetters {
        partition: batch.partition().clone(),
        offset: first.event.offset,
        stage: first.cause.stage.to_string(),
        class: first.cause.class,
        message: first.cause.message.clone(),
    }
}
