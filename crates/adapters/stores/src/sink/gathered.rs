//! What a partition waits with until it is worth a transaction, and what must come again first.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_measure::clock::Instant;
use plimsoll_pipeline::Batch;

use super::transactional::Gather;

/// What a partition waits with, within one assignment.
#[derive(Debug, Default)]
pub struct Gathered {
    batches: Vec<Batch>,
    events: usize,
    bytes: usize,
    since: Instant,
    aloft: bool,
    epoch: u64,
    /// The numbers of batches that failed and have not come again.
    owed: BTreeSet<u64>,
}

/// What came of a batch.
#[derive(Debug)]
pub enum Took {
    /// It is gathered. What was gathered in an assignment that has ended comes back: one transaction names one epoch.
    In {
        /// Batches of an earlier assignment.
        stale: Vec<Batch>,
    },
    /// A batch before it must come first.
    TooEarly(Box<Batch>),
    /// Its own assignment has ended.
    Stale(Box<Batch>),
}

impl Gathered {
    /// Takes a batch in, if it is its turn.
    pub fn take(&mut self, batch: Batch, now: Instant) -> Took {
        let stale = match batch.epoch().cmp(&self.epoch) {
            Ordering::Less => return Took::Stale(Box::new(batch)),
            Ordering::Equal => Vec::new(),
            Ordering::Greater => {
                (self.epoch, self.owed) = (batch.epoch(), BTreeSet::new());
                self.empty()
            }
        };
        let number = batch.sequence();
        if self.owed.first().is_some_and(|first| *first != number) {
            self.owed.insert(number);
            return Took::TooEarly(Box::new(batch));
        }
        self.owed.remove(&number);
        if self.batches.is_empty() {
            self.since = now;
        }
        self.events += batch.events().len() + batch.rejected().len();
        self.bytes += batch.bytes();
        self.batches.push(batch);
        Took::In { stale }
    }

    /// Whether it is to depart: nothing is under way, and it is worth it; `full` if waiting would gather nothing more.
    pub fn is_worth_it(&self, gather: &Gather, full: bool, now: Instant) -> bool {
        let worth = self.events >= gather.events || self.bytes >= gather.bytes;
        !self.aloft && !self.batches.is_empty() && (full || worth || self.until_old(gather, now) == 0)
    }

    /// Sends everything on its way.
    pub fn depart(&mut self) -> Vec<Batch> {
        self.aloft = true;
        self.empty()
    }

    /// Nanoseconds until it is worth a transaction by its age; `None` if nothing waits, or something is under way.
    pub fn until_due(&self, gather: &Gather, now: Instant) -> Option<u64> {
        (!self.aloft && !self.batches.is_empty()).then(|| self.until_old(gather, now))
    }

    fn until_old(&self, gather: &Gather, now: Instant) -> u64 {
        (self.since + nanoseconds(gather.wait)).since(now)
    }

    /// What was under way is back.
    pub fn land(&mut self) {
        self.aloft = false;
    }

    /// What was under way failed: gives it back with everything behind it, which must come again in this order. What is of an
    /// earlier assignment holds up nothing of this one.
    pub fn fail(&mut self, failed: Vec<Batch>) -> Vec<Batch> {
        if failed.first().is_some_and(|batch| batch.epoch() != self.epoch) {
            return failed;
        }
        let all: Vec<_> = failed.into_iter().chain(self.empty()).collect();
        self.owed.extend(all.iter().map(Batch::sequence));
        all
    }

    /// Gives back what lies behind a batch of the same assignment.
    pub fn let_go(&mut self, first: Option<&Batch>) -> Vec<Batch> {
        if first.is_some_and(|batch| batch.epoch() == self.epoch) { self.empty() } else { Vec::new() }
    }

    /// Whether nothing is known of the partition that must be remembered.
    pub fn is_idle(&self) -> bool {
        !self.aloft && self.batches.is_empty() && self.owed.is_empty()
    }

    fn empty(&mut self) -> Vec<Batch> {
        (self.events, self.bytes) = (0, 0);
        std::mem::take(&mut self.batches)
    }
}

/// A time in nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pipeline::{Partition, Record};

    const GATHER: Gather = Gather { events: 10, bytes: 1 << 20, wait: Duration::from_secs(1) };

    fn batch(offset: u64) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 1));
        batch.push(Record { offset, appended_ms: 0, key: None, payload: Some(b"{}") });
        batch
    }

    fn at(ns: u64) -> Instant {
        Instant::default() + ns
    }

    #[test]
    fn it_departs_when_it_is_old_or_many_or_nothing_more_can_come_and_one_at_a_time() {
        let mut gathered = Gathered::default();
        assert!(matches!(gathered.take(batch(0), at(5)), Took::In { stale } if stale.is_empty()));
        assert_eq!(gathered.until_due(&GATHER, at(5)), Some(1_000_000_000));
        assert!(!gathered.is_worth_it(&GATHER, false, at(1_000_000_004)));
        assert!(gathered.is_worth_it(&GATHER, false, at(1_000_000_005)));
        assert_eq!(gathered.depart().len(), 1);
        (1..=10).for_each(|offset| drop(gathered.take(batch(offset), at(6))));
        assert!(!gathered.is_worth_it(&GATHER, true, at(6)), "one transaction at a time");
        gathered.land();
        assert!(gathered.is_worth_it(&GATHER, false, at(6)));
        assert_eq!(gathered.depart().len(), 10);
        gathered.land();
        assert!(gathered.is_idle());
    }

    #[test]
    fn what_failed_must_come_again_with_all_behind_it() {
        let mut gathered = Gathered::default();
        drop(gathered.take(batch(0), at(0)));
        let first = gathered.depart();
        drop(gathered.take(batch(1), at(0)));
        gathered.land();
        assert_eq!(gathered.fail(first).len(), 2);
        assert!(!gathered.is_idle());
    }

    #[test]
    fn what_comes_of_an_assignment_that_has_ended_is_given_back() {
        let mut gathered = Gathered { epoch: 2, ..Gathered::default() };
        assert!(matches!(gathered.take(batch(0), at(0)), Took::Stale(_)), "its epoch is zero");
        assert_eq!(gathered.fail(vec![batch(0)]).len(), 1);
        assert!(gathered.is_idle(), "it holds up nothing of this one");
    }
}
