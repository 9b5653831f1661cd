//! Writes for one worker: queues batches in the producer, and collects reports until every record of a batch
//! is reported.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::{Batch, FailureClass, Settled, Sink, Verdict};
use rdkafka::producer::{Producer as _, PurgeConfig};

use super::partition_throttle::PartitionThrottle;
use super::pending::{Pending, Sent};
use super::record::Target;
use super::reports::Producer;
use crate::backoff::Backoff;
use crate::error::Error;

/// Creates the producer, at the start and after a fatal error.
type Make = Box<dyn Fn() -> Result<Producer, Error> + Send>;

/// Writes batches.
pub(super) struct Writer {
    producer: Producer,
    make: Make,
    to: Target,
    capacity: usize,
    pending: VecDeque<Pending>,
    throttle: PartitionThrottle,
    slots: u32,
}

impl Writer {
    pub(super) fn new(make: Make, to: Target, capacity: usize) -> Result<Self, Error> {
        let (pending, throttle) = (VecDeque::new(), PartitionThrottle::default());
        Ok(Self { producer: make()?, make, to, capacity, pending, throttle, slots: 0 })
    }

    /// Queues as many records as may be sent at once. Suspects are sent one by one, with no other record in
    /// flight: a broker refuses a set of records as a whole.
    fn enqueue(&mut self) {
        match self.pending.iter().position(|pending| pending.is_alone) {
            Some(at) => self.send_suspect(at),
            None => self.send_rounds(),
        }
        self.throttle.close();
    }

    fn send_suspect(&mut self, at: usize) {
        let calm = self.pending.iter().all(|pending| pending.reported == pending.sent);
        let suspect = &mut self.pending[at];
        if calm && let Some(index) = suspect.alone.pop_front() {
            suspect.send(index, &self.producer, &self.to, self.throttle.round(suspect.order_key));
        }
    }

    fn send_rounds(&mut self) {
        for pending in &mut self.pending {
            let round = self.throttle.round(pending.order_key);
            while let Some(index) = pending.upcoming() {
                match pending.send(index, &self.producer, &self.to, round) {
                    Sent::Yes => {}
                    Sent::NotYet => break,
                    Sent::Full => return,
                }
            }
        }
    }

    /// Collects reports; returns whether there were any.
    fn collect_reports(&mut self) -> bool {
        let tally = self.producer.client().context().take();
        let came = !(tally.delivered.is_empty() && tally.failed.is_empty());
        for (slot, count) in tally.delivered {
            if let Some(pending) = self.pending.iter_mut().find(|pending| pending.slot == slot) {
                pending.reported += count;
                self.throttle.round(pending.order_key).reported(count);
            }
        }
        for (slot, index, code) in tally.failed {
            if let Some(pending) = self.pending.iter_mut().find(|pending| pending.slot == slot) {
                pending.reported += 1;
                self.throttle.round(pending.order_key).reported(1);
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

    /// Replaces the producer after a fatal error; its records are sent again.
    fn replace_producer(&mut self) -> Option<Settled> {
        let (_, reason) = self.producer.client().fatal_error()?;
        self.producer.purge(PurgeConfig::default().queue().inflight());
        match (self.make)() {
            Ok(producer) => self.producer = producer,
            Err(error) => return self.fail_first(FailureClass::Final, &error.to_string()),
        }
        self.throttle.clear();
        for pending in &mut self.pending {
            pending.give_up();
        }
        self.fail_first(FailureClass::Transient, &reason)
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
        let order_key = self.to.order_key(&batch);
        self.pending.push_back(Pending::of(batch, self.slots, order_key));
        self.enqueue();
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let began = clock::now();
        let mut backoff = Backoff::new();
        while !self.pending.is_empty() {
            self.producer.poll(Duration::ZERO);
            let came = self.collect_reports();
            self.enqueue();
            if let Some(done) = self.take_done().or_else(|| self.replace_producer()) {
                return Some(done);
            }
            let left = wait.saturating_sub(Duration::from_nanos(clock::now().since(began)));
            if left.is_zero() {
                break;
            }
            if came { backoff.reset() } else { backoff.sleep(left) }
        }
        None
    }
}
