//! Buffers the batches of a partition for one transaction, and keeps their order after failures.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_measure::clock::Instant;
use plimsoll_pipeline::Batch;

/// The limits that start a transaction.
#[derive(Clone, Copy, Debug)]
pub struct BufferLimits {
    /// The number of events.
    pub events: usize,
    /// The size in bytes. The events of a transaction are one command, which servers limit to 16 MiB.
    pub bytes: usize,
    /// The age of the oldest batch.
    pub wait: Duration,
}

/// The buffered batches of a partition, within one assignment.
#[derive(Debug, Default)]
pub struct TransactionBuffer {
    batches: Vec<Batch>,
    events: usize,
    bytes: usize,
    since: Instant,
    in_flight: bool,
    epoch: u64,
    /// The numbers of failed batches that were not retried yet.
    to_retry: BTreeSet<u64>,
}

/// The result of adding a batch.
#[derive(Debug)]
pub enum Added {
    /// The batch is buffered. Batches of an ended assignment are returned: one transaction has one epoch.
    Buffered {
        /// Batches of an earlier assignment.
        stale: Vec<Batch>,
    },
    /// An earlier batch must be retried first.
    TooEarly(Box<Batch>),
    /// The batch's assignment has ended.
    Stale(Box<Batch>),
}

impl TransactionBuffer {
    /// Adds a batch, unless an earlier batch must be retried first.
    pub fn add(&mut self, batch: Batch, now: Instant) -> Added {
        let stale = match batch.epoch().cmp(&self.epoch) {
            Ordering::Less => return Added::Stale(Box::new(batch)),
            Ordering::Equal => Vec::new(),
            Ordering::Greater => {
                (self.epoch, self.to_retry) = (batch.epoch(), BTreeSet::new());
                self.empty()
            }
        };
        let number = batch.sequence();
        if self.to_retry.first().is_some_and(|first| *first != number) {
            self.to_retry.insert(number);
            return Added::TooEarly(Box::new(batch));
        }
        self.to_retry.remove(&number);
        if self.batches.is_empty() {
            self.since = now;
        }
        self.events += batch.events().len() + batch.rejected().len();
        self.bytes += batch.bytes();
        self.batches.push(batch);
        Added::Buffered { stale }
    }

    /// Whether to start a transaction: none is in flight, and the buffer is large or old enough. With `full`, no more batches
    /// can arrive.
    pub fn is_due(&self, limits: &BufferLimits, full: bool, now: Instant) -> bool {
        let worth = self.events >= limits.events || self.bytes >= limits.bytes;
        !self.in_flight && !self.batches.is_empty() && (full || worth || self.until_old(limits, now) == 0)
    }

    /// Takes all batches for a transaction.
    pub fn take_all(&mut self) -> Vec<Batch> {
        self.in_flight = true;
        self.empty()
    }

    /// Nanoseconds until the age limit; `None` if the buffer is empty or a transaction is in flight.
    pub fn until_due(&self, limits: &BufferLimits, now: Instant) -> Option<u64> {
        (!self.in_flight && !self.batches.is_empty()).then(|| self.until_old(limits, now))
    }

    fn until_old(&self, limits: &BufferLimits, now: Instant) -> u64 {
        (self.since + nanoseconds(limits.wait)).since(now)
    }

    /// Notes the end of the transaction.
    pub fn finish(&mut self) {
        self.in_flight = false;
    }

    /// Records failed batches. Returns them with all buffered batches, to be retried in this order. Failures
    /// of an earlier assignment do not block the current one.
    pub fn fail(&mut self, failed: Vec<Batch>) -> Vec<Batch> {
        if failed.first().is_some_and(|batch| batch.epoch() != self.epoch) {
            return failed;
        }
        let all: Vec<_> = failed.into_iter().chain(self.empty()).collect();
        self.to_retry.extend(all.iter().map(Batch::sequence));
        all
    }

    /// Takes the buffered batches after a batch of the same assignment.
    pub fn take_behind(&mut self, first: Option<&Batch>) -> Vec<Batch> {
        if first.is_some_and(|batch| batch.epoch() == self.epoch) { self.empty() } else { Vec::new() }
    }

    /// Whether the buffer has no state worth keeping.
    pub fn is_idle(&self) -> bool {
        !self.in_flight && self.batches.is_empty() && self.to_retry.is_empty()
    }

    fn empty(&mut self) -> Vec<Batch> {
        (self.events, self.bytes) = (0, 0);
        std::mem::take(&mut self.batches)
    }
}

/// A duration in nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pipeline::{Partition, Record};

    const GATHER: BufferLimits = BufferLimits { events: 10, bytes: 1 << 20, wait: Duration::from_secs(1) };

    fn batch(offset: u64) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 1));
        batch.push(Record { offset, appended_ms: 0, key: None, payload: Some(b"{}") });
        batch
    }

    fn at(ns: u64) -> Instant {
        Instant::default() + ns
    }

    #[test]
    fn a_transaction_starts_when_its_buffer_is_old_large_or_full_and_one_runs_at_a_time() {
        let mut buffer = TransactionBuffer::default();
        assert!(matches!(buffer.add(batch(0), at(5)), Added::Buffered { stale } if stale.is_empty()));
        assert_eq!(buffer.until_due(&GATHER, at(5)), Some(1_000_000_000));
        assert!(!buffer.is_due(&GATHER, false, at(1_000_000_004)));
        assert!(buffer.is_due(&GATHER, false, at(1_000_000_005)));
        assert_eq!(buffer.take_all().len(), 1);
        (1..=10).for_each(|offset| drop(buffer.add(batch(offset), at(6))));
        assert!(!buffer.is_due(&GATHER, true, at(6)), "one transaction at a time");
        buffer.finish();
        assert!(buffer.is_due(&GATHER, false, at(6)));
        assert_eq!(buffer.take_all().len(), 10);
        buffer.finish();
        assert!(buffer.is_idle());
    }

    #[test]
    fn failed_batches_are_retried_with_all_later_ones() {
        let mut buffer = TransactionBuffer::default();
        drop(buffer.add(batch(0), at(0)));
        let first = buffer.take_all();
        drop(buffer.add(batch(1), at(0)));
        buffer.finish();
        assert_eq!(buffer.fail(first).len(), 2);
        assert!(!buffer.is_idle());
    }

    #[test]
    fn batches_of_an_ended_assignment_are_returned() {
        let mut buffer = TransactionBuffer { epoch: 2, ..TransactionBuffer::default() };
        assert!(matches!(buffer.add(batch(0), at(0)), Added::Stale(_)), "its epoch is zero");
        assert_eq!(buffer.fail(vec![batch(0)]).len(), 1);
        assert!(buffer.is_idle(), "it does not block the new assignment");
    }
}
