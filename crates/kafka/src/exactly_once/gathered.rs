//! The batches of one transaction, and how far their records are in the producer's queue.

use plimsoll_pipeline::{Batch, Cause, CauseClass, Event, Refused, Settled, Verdict};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::dead_letter::Reasons;
use crate::error::words;
use crate::sink::class::{self, Class};
use crate::sink::record::Parts;
use crate::sink::{Producer, Target};

/// Where the records and the dead letters of a transaction go.
pub(super) struct Outlets {
    pub(super) producer: Producer,
    pub(super) to: Target,
    pub(super) letters: Option<Target>,
}

/// The batches of one transaction, in order.
#[derive(Default)]
pub(super) struct Gathered {
    batches: Vec<Batch>,
    /// For each batch the events that are dead letters because the topic will not have them.
    refused: Vec<Vec<Refused>>,
    /// The batch that is put into the queue next, and its event; its dead letters follow its events.
    next: (usize, usize),
    records: u64,
}

/// Why a record is not in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The queue is full for the moment.
    Full,
    /// The transaction cannot go on.
    Ends(String),
    /// An event cannot go on, nor be kept as a dead letter: the pipeline stops rather than lose it.
    Nowhere(String),
}

impl Gathered {
    pub(super) fn add(&mut self, batch: Batch) {
        self.records += batch.events().len() as u64;
        self.batches.push(batch);
        self.refused.push(Vec::new());
    }

    pub(super) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Records of all batches, without dead letters.
    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    /// The batches, as they are written.
    pub(super) fn written(self) -> impl Iterator<Item = Settled> {
        let each = self.batches.into_iter().zip(self.refused);
        each.map(|(batch, refused)| Settled { batch, verdict: Verdict::Written { replayed: 0, refused } })
    }

    /// The batches, as they came.
    pub(super) fn into_batches(self) -> Vec<Batch> {
        self.batches
    }

    /// Puts records into the producer's queue until all are.
    pub(super) fn enqueue(&mut self, outlets: &Outlets) -> Result<(), Trouble> {
        while let Some(batch) = self.batches.get(self.next.0) {
            if self.next.1 == batch.events().len() + batch.condemned().len() {
                self.next = (self.next.0 + 1, 0);
            } else {
                self.send(outlets)?;
                self.next.1 += 1;
            }
        }
        Ok(())
    }

    fn send(&mut self, outlets: &Outlets) -> Result<(), Trouble> {
        let (at, index) = self.next;
        let batch = &self.batches[at];
        let Some(event) = batch.events().get(index) else {
            let condemned = &batch.condemned()[index - batch.events().len()];
            return outlets.bury(batch, &condemned.event, &condemned.cause);
        };
        let record = Parts::of(batch, event);
        let Some(reason) = outlets.to.refuses(&record) else {
            return outlets.put(&outlets.to, &record);
        };
        let attempts = batch.attempts() + 1;
        let cause = Cause { attempts, ..Cause::new("sink", CauseClass::Refused, reason.clone()) };
        outlets.bury(batch, event, &cause)?;
        self.refused[at].push(Refused { index: u32::try_from(index).unwrap_or(u32::MAX), reason });
        Ok(())
    }
}

impl Outlets {
    fn put(&self, to: &Target, record: &Parts<'_>) -> Result<(), Trouble> {
        to.send(&self.producer, record, 0).map_err(|error| trouble(&error))
    }

    fn bury(&self, batch: &Batch, event: &Event, cause: &Cause) -> Result<(), Trouble> {
        let reasons = Reasons::of(batch, event, cause);
        let letter = reasons.record(batch, event);
        let why = match &self.letters {
            None => "there is no `dead_letters` topic".to_owned(),
            Some(letters) => match letters.refuses(&letter) {
                None => return self.put(letters, &letter),
                Some(reason) => reason,
            },
        };
        let (offset, partition) = (event.offset, batch.partition());
        Err(Trouble::Nowhere(format!(
            "event {offset} of {partition} cannot go on ({cause}), nor be kept: {why}"
        )))
    }
}

/// What it means that a record cannot be put into the queue.
fn trouble(error: &KafkaError) -> Trouble {
    match error {
        KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => Trouble::Full,
        // What is wrong with the settings does not pass with another transaction.
        error if error.rdkafka_error_code().is_some_and(|code| class::of(code) == Class::Final) => {
            Trouble::Nowhere(words(error))
        }
        error => Trouble::Ends(words(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_for_good_stops_the_pipeline_and_the_rest_ends_a_transaction() {
        let of = |code| trouble(&KafkaError::MessageProduction(code));
        assert_eq!(of(RDKafkaErrorCode::QueueFull), Trouble::Full);
        for code in [
            RDKafkaErrorCode::UnknownPartition,
            RDKafkaErrorCode::UnknownTopic,
            RDKafkaErrorCode::TopicAuthorizationFailed,
        ] {
            assert!(matches!(of(code), Trouble::Nowhere(_)), "{code:?}");
        }
        for code in [RDKafkaErrorCode::MessageTimedOut, RDKafkaErrorCode::NotEnoughReplicas] {
            assert!(matches!(of(code), Trouble::Ends(_)), "{code:?}");
        }
    }
}
