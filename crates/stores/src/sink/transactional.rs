//! Data, positions and dead letters in one transaction, with a fence against others.
//!
//! Batches of a partition are gathered until they are worth a transaction; one transaction of a partition is under way at a time,
//! several partitions in parallel. When one fails, everything of its partition that was gathered fails with it, and what comes
//! later fails until what failed has come again: nothing is written past a hole.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};
use plimsoll_pipeline::{
    Batch, FailureClass, Identity, Order, Partition, Promise, Settled, Sink, SinkError, SinkFactory, Verdict,
};
use plimsoll_wire::WriteConcern;

use super::flight::Flights;
use super::insert::refused;
use super::transaction::{Lane, Outcome};
use crate::control::{patiently, runtime};
use crate::document::form::Form;
use crate::namespace::Namespace;
use crate::positions::Shelf;
use crate::site::Site;
use crate::topics::Topics;

/// When what was gathered is worth a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// So many events, or more.
    pub events: usize,
    /// So many bytes, or more. A transaction's events are one command, which servers limit to 16 MiB.
    pub bytes: usize,
    /// So long after the first of them, whatever there is.
    pub wait: Duration,
}

/// All that the transactions of a sink's workers have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub site: Site,
    pub namespace: Namespace,
    pub dead_letters: Namespace,
    pub shelf: Shelf,
    pub topics: Topics,
    pub form: Form,
    pub gather: Gather,
    /// Connections of one worker.
    pub connections: usize,
    /// Batches of one worker in hand.
    pub batches: usize,
}

/// Makes transactional sinks.
#[derive(Clone, Debug)]
pub struct Transactions(Arc<Common>);

/// The transactional sink of one worker.
#[derive(Debug)]
pub struct Transactional {
    common: Arc<Common>,
    idle: Vec<Lane>,
    flights: Flights<(Lane, Partition, Outcome)>,
    aloft: usize,
    gathered: BTreeMap<Partition, Gathered>,
    done: VecDeque<Settled>,
    in_hand: usize,
    flushing: bool,
}

/// What a partition waits with.
#[derive(Debug, Default)]
struct Gathered {
    batches: Vec<Batch>,
    events: usize,
    bytes: usize,
    since: Instant,
    aloft: bool,
    epoch: u64,
    /// The numbers of batches that failed and have not come again.
    owed: BTreeSet<u64>,
}

impl Transactions {
    pub(crate) fn new(common: Common) -> Self {
        Self(Arc::new(common))
    }
}

impl Common {
    /// What every transaction is committed with.
    pub fn concern(&self) -> WriteConcern {
        let timeout_ms = self.site.timeout().and_then(|timeout| u32::try_from(timeout.as_millis()).ok());
        WriteConcern { w: plimsoll_wire::W::Majority, j: Some(true), timeout_ms }
    }
}

impl SinkFactory for Transactions {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: Identity::Transaction, order: Order::Kept, buries: true }
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let common = Arc::clone(&self.0);
        let flights = Flights::new(runtime().map_err(|error| SinkError::Refused(error.to_string()))?);
        let mut idle: Vec<Lane> = std::iter::repeat_with(Lane::new).take(common.connections).collect();
        for (number, lane) in idle.iter_mut().enumerate() {
            let opened = flights.wait_for(patiently(async || match number {
                0 => lane.make_collections(&common).await,
                _ => lane.open(&common).await.map(drop),
            }));
            opened.map_err(|error| refused(&error))?;
        }
        let (gathered, done) = (BTreeMap::new(), VecDeque::new());
        Ok(Box::new(Transactional {
            common,
            idle,
            flights,
            aloft: 0,
            gathered,
            done,
            in_hand: 0,
            flushing: false,
        }))
    }
}

impl Sink for Transactional {
    fn capacity(&self) -> usize {
        self.common.batches
    }

    fn submit(&mut self, batch: Batch) {
        self.in_hand += 1;
        self.flushing = false;
        let gathered = self.gathered.entry(batch.partition().clone()).or_default();
        match gathered.take(batch) {
            Ok(()) => self.start(),
            Err(batch) => self.done.push_back(Settled {
                batch: *batch,
                verdict: Verdict::failed(FailureClass::Passing, "a batch before it has not come again yet"),
            }),
        }
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let until = clock::now() + nanoseconds(wait);
        loop {
            self.start();
            if let Some(settled) = self.done.pop_front() {
                self.in_hand -= 1;
                return Some(settled);
            }
            let now = clock::now();
            let left = Duration::from_nanos(until.since(now).min(self.until_due(now)));
            if self.aloft == 0 {
                if left.is_zero() || self.in_hand == 0 {
                    return None;
                }
                std::thread::sleep(left);
            } else if let Some((lane, partition, outcome)) = self.flights.land(left) {
                self.aloft -= 1;
                self.land(lane, &partition, outcome);
                continue;
            }
            if until.since(clock::now()) == 0 && self.until_due(clock::now()) > 0 {
                return None;
            }
        }
    }

    fn flush(&mut self) {
        self.flushing = true;
        self.start();
    }
}

impl Transactional {
    /// Starts every transaction that is worth it, as far as there are connections.
    fn start(&mut self) {
        let now = clock::now();
        // With nothing under way and no room for more, waiting would gather nothing.
        let full = self.flushing || self.in_hand >= self.common.batches;
        for (partition, gathered) in &mut self.gathered {
            if gathered.aloft || !gathered.is_due(&self.common.gather, full, now) {
                continue;
            }
            let Some(lane) = self.idle.pop() else { return };
            gathered.aloft = true;
            (gathered.events, gathered.bytes) = (0, 0);
            let batches = std::mem::take(&mut gathered.batches);
            let (common, partition) = (Arc::clone(&self.common), partition.clone());
            self.aloft += 1;
            self.flights.launch(async move {
                let (lane, outcome) = lane.write(batches, &common).await;
                (lane, partition, outcome)
            });
        }
    }

    /// Nanoseconds until something that is not under way is worth a transaction by its age.
    fn until_due(&self, now: Instant) -> u64 {
        if self.idle.is_empty() {
            return u64::MAX;
        }
        let wait = nanoseconds(self.common.gather.wait);
        let waiting =
            self.gathered.values().filter(|gathered| !gathered.aloft && !gathered.batches.is_empty());
        waiting.map(|gathered| (gathered.since + wait).since(now)).min().unwrap_or(u64::MAX)
    }

    fn land(&mut self, lane: Lane, partition: &Partition, outcome: Outcome) {
        self.idle.push(lane);
        let Some(gathered) = self.gathered.get_mut(partition) else { return };
        gathered.aloft = false;
        match outcome {
            Outcome::Written(settled) => self.done.extend(settled),
            Outcome::Failed(batches, failure) => {
                gathered.owed.extend(batches.iter().chain(&gathered.batches).map(Batch::sequence));
                let behind = std::mem::take(&mut gathered.batches);
                (gathered.events, gathered.bytes) = (0, 0);
                for batch in batches.into_iter().chain(behind) {
                    self.done.push_back(Settled { batch, verdict: Verdict::Failed(failure.clone()) });
                }
            }
        }
        if self.gathered.get(partition).is_some_and(Gathered::is_idle) {
            self.gathered.remove(partition);
        }
    }
}

impl Gathered {
    /// Takes a batch, or gives it back if one before it must come first.
    fn take(&mut self, batch: Batch) -> Result<(), Box<Batch>> {
        if self.epoch != batch.epoch() {
            (self.epoch, self.owed) = (batch.epoch(), BTreeSet::new());
        }
        let number = batch.sequence();
        if self.owed.first().is_some_and(|first| *first != number) {
            self.owed.insert(number);
            return Err(Box::new(batch));
        }
        self.owed.remove(&number);
        if self.batches.is_empty() {
            self.since = clock::now();
        }
        self.events += batch.events().len() + batch.condemned().len();
        self.bytes += batch.bytes();
        self.batches.push(batch);
        Ok(())
    }

    fn is_due(&self, gather: &Gather, full: bool, now: Instant) -> bool {
        let worth = self.events >= gather.events || self.bytes >= gather.bytes;
        let old = now.since(self.since) >= nanoseconds(gather.wait);
        !self.batches.is_empty() && (full || worth || old)
    }

    fn is_idle(&self) -> bool {
        !self.aloft && self.batches.is_empty() && self.owed.is_empty()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
