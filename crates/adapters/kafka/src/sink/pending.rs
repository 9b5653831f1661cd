//! Tracks a batch in flight: its sent records, their reports, and the verdict.

use std::collections::VecDeque;

use plimsoll_pipeline::{Batch, FailureClass, Refused, Settled, Verdict};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::error_class::{self, Class};
use super::partition_throttle::Round;
use super::record::{Parts, Target};
use super::reports::{Producer, note};
use crate::error::describe;

/// A batch in flight.
pub(super) struct Pending {
    pub(super) batch: Batch,
    pub(super) slot: u32,
    pub(super) order_key: u32,
    /// The index of the next event to queue, until all were queued once. Then the suspects in `alone` follow,
    /// one by one.
    next: u32,
    pub(super) alone: VecDeque<u32>,
    pub(super) is_alone: bool,
    pub(super) sent: u32,
    pub(super) reported: u32,
    failed: Vec<(u32, RDKafkaErrorCode)>,
    refused: Vec<Refused>,
}

/// The outcome of queueing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Queued, or failed permanently.
    Yes,
    /// Not queued: records of its partition are in flight.
    NotYet,
    /// Not queued: the queue is full.
    Full,
}

impl Pending {
    pub(super) fn of(batch: Batch, slot: u32, order_key: u32) -> Self {
        Self {
            batch,
            slot,
            order_key,
            next: 0,
            alone: VecDeque::new(),
            is_alone: false,
            sent: 0,
            reported: 0,
            failed: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// The next event to send.
    pub(super) fn upcoming(&mut self) -> Option<u32> {
        let index = self.next;
        ((index as usize) < self.batch.events().len()).then(|| {
            self.next += 1;
            index
        })
    }

    /// Sends an event; an unsent event remains the next.
    pub(super) fn send(&mut self, index: u32, producer: &Producer, to: &Target, round: &mut Round) -> Sent {
        let record = Parts::of(&self.batch, &self.batch.events()[index as usize]);
        if let Some(reason) = to.refuses(&record) {
            self.refused.push(Refused { index, reason });
            return Sent::Yes;
        }
        let bytes = record.bytes();
        if !round.admits(bytes, to.round_bytes(&record)) {
            self.put_back(index);
            return Sent::NotYet;
        }
        match to.send(producer, &record, note(self.slot, index)) {
            Ok(()) => {
                self.sent += 1;
                round.sent(bytes);
            }
            Err(KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) => {
                self.put_back(index);
                return Sent::Full;
            }
            Err(error) => self.fail(index, error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)),
        }
        Sent::Yes
    }

    fn put_back(&mut self, index: u32) {
        if self.is_alone {
            self.alone.push_front(index);
        } else {
            self.next -= 1;
        }
    }

    pub(super) fn fail(&mut self, index: u32, code: RDKafkaErrorCode) {
        if self.is_alone && error_class::of(code) == Class::Suspect {
            self.refused.push(Refused { index, reason: describe(code) });
        } else {
            self.failed.push((index, code));
        }
    }

    /// Gives up the batch's records, which are lost with their producer.
    pub(super) fn give_up(&mut self) {
        self.failed.push((0, RDKafkaErrorCode::PurgeInflight));
        self.next = self.batch.events().len() as u32;
        self.alone.clear();
        self.reported = self.sent;
    }

    pub(super) fn is_reported(&self) -> bool {
        self.next as usize == self.batch.events().len() && self.alone.is_empty() && self.reported == self.sent
    }

    /// Continues with the suspects, unless a more severe error occurred; returns whether suspects exist.
    pub(super) fn begin_suspects(&mut self) -> bool {
        let suspects = !self.failed.is_empty()
            && self.failed.iter().all(|(_, code)| error_class::of(*code) == Class::Suspect);
        if suspects {
            self.alone = self.failed.drain(..).map(|(index, _)| index).collect();
            self.is_alone = true;
        }
        suspects
    }

    pub(super) fn settled(mut self, to: &Target) -> Settled {
        let worst = self.failed.iter().max_by_key(|(_, code)| error_class::of(*code));
        let verdict = match worst.map(|(_, code)| (error_class::of(*code), describe(*code))) {
            None => {
                self.refused.sort_unstable_by_key(|refused| refused.index);
                Verdict::Written { replayed: 0, refused: self.refused }
            }
            Some((Class::Final, reason)) => Verdict::failed(
                FailureClass::Final,
                format!("the topic {:?} cannot be written ({reason})", to.topic),
            ),
            Some((_, reason)) => Verdict::failed(FailureClass::Transient, reason),
        };
        Settled { batch: self.batch, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Placing;
    use plimsoll_pipeline::{Failure, Partition, Record};

    /// The verdict on a batch of two events whose second event could not be queued.
    fn verdict(code: RDKafkaErrorCode) -> Verdict {
        let mut batch = Batch::new(Partition::new("t", 0));
        (0..2).for_each(|offset| batch.push(Record { offset, ..Record::default() }));
        let mut pending = Pending::of(batch, 1, 0);
        while pending.upcoming().is_some() {}
        (pending.sent, pending.reported) = (1, 1);
        pending.fail(1, code);
        assert!(pending.is_reported());
        let to =
            Target { topic: "orders".to_owned(), placing: Placing::Same, bytes_max: 1000, partitions: 1 };
        pending.settled(&to).verdict
    }

    #[test]
    fn a_record_that_can_never_be_queued_stops_the_pipeline() {
        for code in [RDKafkaErrorCode::UnknownPartition, RDKafkaErrorCode::UnknownTopic] {
            let Verdict::Failed(Failure { class, reason }) = verdict(code) else { panic!("{code:?}") };
            assert_eq!(class, FailureClass::Final, "{code:?}");
            assert!(reason.contains("the topic \"orders\" cannot be written"), "{reason}");
        }
        let Verdict::Failed(failure) = verdict(RDKafkaErrorCode::MessageTimedOut) else {
            panic!("it failed")
        };
        assert_eq!(failure.class, FailureClass::Transient);
    }

    #[test]
    fn a_record_that_may_be_too_large_is_sent_again_alone() {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record::default());
        let mut pending = Pending::of(batch, 1, 0);
        pending.upcoming();
        pending.fail(0, RDKafkaErrorCode::MessageSizeTooLarge);
        assert!(pending.begin_suspects() && !pending.is_reported());
        assert_eq!(pending.alone.pop_front(), Some(0));
        pending.fail(0, RDKafkaErrorCode::MessageSizeTooLarge);
        assert!(!pending.begin_suspects() && pending.is_reported());
        let to =
            Target { topic: "orders".to_owned(), placing: Placing::Same, bytes_max: 1000, partitions: 1 };
        let Verdict::Written { refused, .. } = pending.settled(&to).verdict else { panic!("one is refused") };
        assert_eq!(refused.iter().map(|one| one.index).collect::<Vec<_>>(), [0]);
    }
}
