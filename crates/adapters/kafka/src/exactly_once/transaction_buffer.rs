//! Buffers the batches of one transaction, and counts their queued records.

use std::sync::Arc;

use plimsoll_pipeline::{Batch, Cause, CauseClass, Event, Refused, Settled, Verdict};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::dead_letter::Reasons;
use crate::error::words;
use crate::sink::error_class::{self, Class};
use crate::sink::partition_throttle::PartitionThrottle;
use crate::sink::record::Parts;
use crate::sink::reports::note;
use crate::sink::{Producer, Target};

/// The order key of dead letters: no partition has this number, and dead letters are few.
const DEAD_LETTERS: u32 = u32::MAX;

/// The destinations of a transaction's records and dead letters.
pub(super) struct Outlets {
    pub(super) producer: Arc<Producer>,
    pub(super) to: Target,
    pub(super) letters: Option<Target>,
}

/// The batches of one transaction, in order.
#[derive(Default)]
pub(super) struct TransactionBuffer {
    members: Vec<Member>,
    /// The index of the first batch that is not fully queued.
    first: usize,
    records: u64,
}

/// A batch, and its queued part.
struct Member {
    batch: Batch,
    /// The index of the next record to queue: first the events, then the dead letters.
    next: usize,
    /// Events that the topic refuses: they become dead letters.
    refused: Vec<Refused>,
}

/// The reason why a record was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueueError {
    /// The queue is full.
    Full,
    /// The transaction must be aborted.
    Abort(String),
    /// An event can be neither written nor kept as a dead letter: the pipeline stops rather than lose it.
    Unwritable(String),
}

impl TransactionBuffer {
    pub(super) fn add(&mut self, batch: Batch) {
        self.records += batch.events().len() as u64;
        self.members.push(Member { batch, next: 0, refused: Vec::new() });
    }

    pub(super) fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.members.iter().map(|member| &member.batch)
    }

    /// The number of batches.
    pub(super) const fn len(&self) -> usize {
        self.members.len()
    }

    /// The records of all batches, without dead letters.
    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    /// The batches as written.
    pub(super) fn written(self) -> impl Iterator<Item = Settled> {
        let verdict = |refused| Verdict::Written { replayed: 0, refused };
        self.members.into_iter().map(move |one| Settled { batch: one.batch, verdict: verdict(one.refused) })
    }

    /// The batches as submitted.
    pub(super) fn into_batches(self) -> impl Iterator<Item = Batch> {
        self.members.into_iter().map(|member| member.batch)
    }

    /// Queues as many records as can be sent at once; returns whether all are queued.
    pub(super) fn enqueue(
        &mut self,
        outlets: &Outlets,
        throttle: &mut PartitionThrottle,
    ) -> Result<bool, QueueError> {
        for member in &mut self.members[self.first..] {
            member.enqueue(outlets, throttle)?;
        }
        let is_complete = |member: &&Member| member.is_complete();
        self.first += self.members[self.first..].iter().take_while(is_complete).count();
        Ok(self.first == self.members.len())
    }
}

impl Member {
    fn is_complete(&self) -> bool {
        self.next == self.batch.events().len() + self.batch.rejected().len()
    }

    /// Queues records as long as their partition accepts them.
    fn enqueue(&mut self, outlets: &Outlets, throttle: &mut PartitionThrottle) -> Result<(), QueueError> {
        while !self.is_complete() && self.send(outlets, throttle)? {
            self.next += 1;
        }
        Ok(())
    }

    /// Sends the next event; false if its partition accepts no more at present.
    fn send(&mut self, outlets: &Outlets, throttle: &mut PartitionThrottle) -> Result<bool, QueueError> {
        let (batch, index) = (&self.batch, self.next);
        let Some(event) = batch.events().get(index) else {
            let rejected = &batch.rejected()[index - batch.events().len()];
            outlets.add_dead_letter(batch, &rejected.event, &rejected.cause, throttle)?;
            return Ok(true);
        };
        let record = Parts::of(batch, event);
        let Some(reason) = outlets.to.refuses(&record) else {
            let order_key = outlets.to.order_key(batch);
            if !throttle.round(order_key).admits(record.bytes(), outlets.to.round_bytes(&record)) {
                return Ok(false);
            }
            outlets.put(&outlets.to, &record, order_key, throttle)?;
            return Ok(true);
        };
        let attempts = batch.attempts() + 1;
        let cause = Cause { attempts, ..Cause::new("sink", CauseClass::Refused, reason.clone()) };
        outlets.add_dead_letter(batch, event, &cause, throttle)?;
        self.refused.push(Refused { index: u32::try_from(index).unwrap_or(u32::MAX), reason });
        Ok(true)
    }
}

impl Outlets {
    fn put(
        &self,
        to: &Target,
        record: &Parts<'_>,
        order_key: u32,
        throttle: &mut PartitionThrottle,
    ) -> Result<(), QueueError> {
        to.send(&self.producer, record, note(order_key, 0)).map_err(|error| classify(&error))?;
        throttle.round(order_key).sent(record.bytes());
        Ok(())
    }

    fn add_dead_letter(
        &self,
        batch: &Batch,
        event: &Event,
        cause: &Cause,
        throttle: &mut PartitionThrottle,
    ) -> Result<(), QueueError> {
        let reasons = Reasons::of(batch, event, cause);
        let letter = reasons.record(batch, event);
        let why = match &self.letters {
            None => "there is no `dead_letters` topic".to_owned(),
            Some(letters) => match letters.refuses(&letter) {
                None => return self.put(letters, &letter, DEAD_LETTERS, throttle),
                Some(reason) => reason,
            },
        };
        let (offset, partition) = (event.offset, batch.partition());
        Err(QueueError::Unwritable(format!(
            "event {offset} of {partition} cannot be written ({cause}) nor kept as a dead letter: {why}"
        )))
    }
}

/// Classifies the reason why a record was not queued.
fn classify(error: &KafkaError) -> QueueError {
    match error {
        KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => QueueError::Full,
        // An invalid setting stays invalid in another transaction.
        error if error.rdkafka_error_code().is_some_and(|code| error_class::of(code) == Class::Final) => {
            QueueError::Unwritable(words(error))
        }
        error => QueueError::Abort(words(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_errors_stop_the_pipeline_and_others_abort_the_transaction() {
        let of = |code| classify(&KafkaError::MessageProduction(code));
        assert_eq!(of(RDKafkaErrorCode::QueueFull), QueueError::Full);
        for code in [
            RDKafkaErrorCode::UnknownPartition,
            RDKafkaErrorCode::UnknownTopic,
            RDKafkaErrorCode::TopicAuthorizationFailed,
        ] {
            assert!(matches!(of(code), QueueError::Unwritable(_)), "{code:?}");
        }
        for code in [RDKafkaErrorCode::MessageTimedOut, RDKafkaErrorCode::NotEnoughReplicas] {
            assert!(matches!(of(code), QueueError::Abort(_)), "{code:?}");
        }
    }
}
