//! The writer of one worker: batches go into the producer's queue, reports come back, and a batch is done when every
//! record of it was reported.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::{Batch, FailureClass, Refused, Settled, Sink, Verdict};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{Producer as _, PurgeConfig};

use super::class::{self, Class};
use super::record::{Parts, Target};
use super::reports::{Producer, note};
use crate::error::{Error, said};
use crate::nap::Nap;

/// Makes the producer, at first and after an error that it does not survive.
type Make = Box<dyn Fn() -> Result<Producer, Error> + Send>;

/// Writes batches.
pub(super) struct Writer {
    producer: Producer,
    make: Make,
    to: Target,
    capacity: usize,
    pending: VecDeque<Pending>,
    slots: u32,
}

/// A batch on its way.
struct Pending {
    batch: Batch,
    slot: u32,
    /// The events that are to be put into the queue: a range at first, then suspects one by one.
    next: u32,
    alone: VecDeque<u32>,
    is_alone: bool,
    sent: u32,
    reported: u32,
    failed: Vec<(u32, RDKafkaErrorCode)>,
    refused: Vec<Refused>,
}

impl Writer {
    pub(super) fn new(make: Make, to: Target, capacity: usize) -> Result<Self, Error> {
        Ok(Self { producer: make()?, make, to, capacity, pending: VecDeque::new(), slots: 0 })
    }

    /// Puts records into the producer's queue until it is full. Suspects go one by one, with nothing else on its way: a
    /// broker refuses a set of records as a whole.
    fn enqueue(&mut self) {
        let suspects = self.pending.iter().position(|pending| pending.is_alone);
        if let Some(at) = suspects {
            let calm = self.pending.iter().all(|pending| pending.reported == pending.sent);
            if calm && let Some(index) = self.pending[at].alone.pop_front() {
                self.pending[at].send(index, &self.producer, &self.to);
            }
            return;
        }
        for pending in &mut self.pending {
            while let Some(index) = pending.upcoming() {
                if !pending.send(index, &self.producer, &self.to) {
                    return;
                }
            }
        }
    }

    /// Takes reports; whether there were any.
    fn absorb(&mut self) -> bool {
        let tally = self.producer.client().context().take();
        let came = !(tally.delivered.is_empty() && tally.failed.is_empty());
        for (slot, count) in tally.delivered {
            if let Some(pending) = self.pending.iter_mut().find(|pending| pending.slot == slot) {
                pending.reported += count;
            }
        }
        for (slot, index, code) in tally.failed {
            if let Some(pending) = self.pending.iter_mut().find(|pending| pending.slot == slot) {
                pending.reported += 1;
                pending.fail(index, code);
            }
        }
        came
    }

    fn take_done(&mut self) -> Option<Settled> {
        let at = self.pending.iter().position(Pending::is_reported)?;
        let pending = &mut self.pending[at];
        if pending.begin_suspects() {
            return None;
        }
        let done = self.pending.remove(at)?;
        Some(done.settled(&self.to))
    }

    /// After an error that the producer does not survive there is a new one; what it had comes again.
    fn revive(&mut self) -> Option<Settled> {
        let (_, reason) = self.producer.client().fatal_error()?;
        self.producer.purge(PurgeConfig::default().queue().inflight());
        match (self.make)() {
            Ok(producer) => self.producer = producer,
            Err(error) => return self.fail_first(FailureClass::Final, &error.to_string()),
        }
        for pending in &mut self.pending {
            pending.give_up();
        }
        self.fail_first(FailureClass::Passing, &reason)
    }

    fn fail_first(&mut self, class: FailureClass, reason: &str) -> Option<Settled> {
        let pending = self.pending.pop_front()?;
        Some(Settled { batch: pending.batch, verdict: Verdict::failed(class, reason) })
    }
}

impl Sink for Writer {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn submit(&mut self, batch: Batch) {
        self.slots = self.slots.wrapping_add(1);
        self.pending.push_back(Pending::of(batch, self.slots));
        self.enqueue();
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let began = clock::now();
        let mut nap = Nap::new();
        while !self.pending.is_empty() {
            self.producer.poll(Duration::ZERO);
            let came = self.absorb();
            if let Some(done) = self.take_done().or_else(|| self.revive()) {
                return Some(done);
            }
            self.enqueue();
            let left = wait.saturating_sub(Duration::from_nanos(clock::now().since(began)));
            if left.is_zero() {
                break;
            }
            if came { nap.wake() } else { nap.take(left) }
        }
        None
    }
}

impl Pending {
    fn of(batch: Batch, slot: u32) -> Self {
        Self {
            batch,
            slot,
            next: 0,
            alone: VecDeque::new(),
            is_alone: false,
            sent: 0,
            reported: 0,
            failed: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// The next event that is to be sent.
    fn upcoming(&mut self) -> Option<u32> {
        let index = self.next;
        ((index as usize) < self.batch.events().len()).then(|| {
            self.next += 1;
            index
        })
    }

    /// Sends an event; false if the queue is full, then it is the next again.
    fn send(&mut self, index: u32, producer: &Producer, to: &Target) -> bool {
        let record = Parts::of(&self.batch, &self.batch.events()[index as usize]);
        if let Some(reason) = to.refuses(&record) {
            self.refused.push(Refused { index, reason });
            return true;
        }
        match to.send(producer, &record, note(self.slot, index)) {
            Ok(()) => self.sent += 1,
            Err(KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) => {
                if self.is_alone {
                    self.alone.push_front(index);
                } else {
                    self.next -= 1;
                }
                return false;
            }
            Err(error) => self.fail(index, error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)),
        }
        true
    }

    fn fail(&mut self, index: u32, code: RDKafkaErrorCode) {
        if self.is_alone && class::of(code) == Class::Suspect {
            self.refused.push(Refused { index, reason: said(code) });
        } else {
            self.failed.push((index, code));
        }
    }

    /// Its records are lost with their producer.
    fn give_up(&mut self) {
        self.failed.push((0, RDKafkaErrorCode::PurgeInflight));
        self.next = self.batch.events().len() as u32;
        self.alone.clear();
        self.reported = self.sent;
    }

    fn is_reported(&self) -> bool {
        self.next as usize == self.batch.events().len() && self.alone.is_empty() && self.reported == self.sent
    }

    /// Goes over to its suspects, if nothing worse happened to it; says whether there are some.
    fn begin_suspects(&mut self) -> bool {
        let suspects =
            !self.failed.is_empty() && self.failed.iter().all(|(_, code)| class::of(*code) == Class::Suspect);
        if suspects {
            self.alone = self.failed.drain(..).map(|(index, _)| index).collect();
            self.is_alone = true;
        }
        suspects
    }

    fn settled(mut self, to: &Target) -> Settled {
        let worst = self.failed.iter().max_by_key(|(_, code)| class::of(*code));
        let verdict = match worst.map(|(_, code)| (class::of(*code), said(*code))) {
            None => {
                self.refused.sort_unstable_by_key(|refused| refused.index);
                Verdict::Written { replayed: 0, refused: self.refused }
            }
            Some((Class::Final, reason)) => Verdict::failed(
                FailureClass::Final,
                format!("the topic {:?} cannot be written ({reason})", to.topic),
            ),
            Some((_, reason)) => Verdict::failed(FailureClass::Passing, reason),
        };
        Settled { batch: self.batch, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Placing;
    use plimsoll_pipeline::{Failure, Partition, Record};

    /// What becomes of a batch of two events of which the second could not be put into the queue.
    fn verdict(code: RDKafkaErrorCode) -> Verdict {
        let mut batch = Batch::new(Partition::new("t", 0));
        (0..2).for_each(|offset| batch.push(Record { offset, ..Record::default() }));
        let mut pending = Pending::of(batch, 1);
        while pending.upcoming().is_some() {}
        (pending.sent, pending.reported) = (1, 1);
        pending.fail(1, code);
        assert!(pending.is_reported());
        let to = Target { topic: "orders".to_owned(), placing: Placing::Same, bytes_max: 1000 };
        pending.settled(&to).verdict
    }

    #[test]
    fn a_record_that_can_never_be_put_into_the_queue_stops_the_pipeline_with_the_topic() {
        for code in [RDKafkaErrorCode::UnknownPartition, RDKafkaErrorCode::UnknownTopic] {
            let Verdict::Failed(Failure { class, reason }) = verdict(code) else { panic!("{code:?}") };
            assert_eq!(class, FailureClass::Final, "{code:?}");
            assert!(reason.contains("the topic \"orders\" cannot be written"), "{reason}");
        }
        let Verdict::Failed(failure) = verdict(RDKafkaErrorCode::MessageTimedOut) else {
            panic!("it failed")
        };
        assert_eq!(failure.class, FailureClass::Passing);
    }

    #[test]
    fn a_record_that_may_be_too_large_is_sent_again_alone() {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record::default());
        let mut pending = Pending::of(batch, 1);
        pending.upcoming();
        pending.fail(0, RDKafkaErrorCode::MessageSizeTooLarge);
        assert!(pending.begin_suspects() && !pending.is_reported());
        assert_eq!(pending.alone.pop_front(), Some(0));
        pending.fail(0, RDKafkaErrorCode::MessageSizeTooLarge);
        assert!(!pending.begin_suspects() && pending.is_reported());
        let to = Target { topic: "orders".to_owned(), placing: Placing::Same, bytes_max: 1000 };
        let Verdict::Written { refused, .. } = pending.settled(&to).verdict else { panic!("one is refused") };
        assert_eq!(refused.iter().map(|one| one.index).collect::<Vec<_>>(), [0]);
    }
}
