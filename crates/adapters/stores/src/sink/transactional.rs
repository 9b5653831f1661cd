//! Data, positions and dead letters in one transaction, with a fence against others.
//!
//! Batches of a partition are gathered until they are worth a transaction; one transaction of a partition is under way at a time,
//! several partitions in parallel. When one fails, everything of its partition that was gathered fails with it, and what comes
//! later fails until what failed has come again: nothing is written past a hole. Batches of a partition that another process took
//! over are held until this one hears of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{Deployment, Namespace, retry, runtime};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_pipeline::{
    Batch, FailureClass, Identity, Order, Partition, Promise, Settled, Sink, SinkError, SinkFactory, Verdict,
};
use plimsoll_wire::WriteConcern;

use super::fenced::Fenced;
use super::flight::Flights;
use super::gathered::{Gathered, Took, nanoseconds};
use super::insert::refused;
use super::transaction::{Lane, Outcome};
use crate::document::form::Form;
use crate::positions::Shelf;
use crate::topics::Topics;

/// How often it is looked whether a partition was taken away.
const LOOK_NS: u64 = 20_000_000;

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
    pub deployment: Deployment,
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
    fenced: Fenced,
    done: VecDeque<Settled>,
    in_hand: usize,
    flushing: bool,
}

impl Transactions {
    pub(crate) fn new(common: Common) -> Self {
        Self(Arc::new(common))
    }
}

impl Common {
    /// What every transaction is committed with.
    pub fn concern(&self) -> WriteConcern {
        let timeout_ms =
            self.deployment.timeout().and_then(|timeout| u32::try_from(timeout.as_millis()).ok());
        WriteConcern { w: plimsoll_wire::W::Majority, j: Some(true), timeout_ms }
    }
}

impl SinkFactory for Transactions {
    fn promise(&self) -> Promise {
        Promise {
            durable: true,
            identity: Identity::Transaction,
            order: Order::Kept,
            writes_dead_letters: true,
        }
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let common = Arc::clone(&self.0);
        let flights = Flights::new(runtime().map_err(|error| SinkError::Refused(error.to_string()))?);
        let mut idle: Vec<Lane> = std::iter::repeat_with(Lane::new).take(common.connections).collect();
        for (number, lane) in idle.iter_mut().enumerate() {
            let opened = flights.wait_for(retry(async || match number {
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
            fenced: Fenced::default(),
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
        let Some(batch) = self.fenced.join(batch) else { return };
        let gathered = self.gathered.entry(batch.position_partition().clone()).or_default();
        match gathered.take(batch, clock::now()) {
            Took::In { stale } => {
                // The next assignment has begun, so these are read again in it.
                let left = |batch| Settled { batch, verdict: Verdict::Revoked };
                self.done.extend(stale.into_iter().map(left));
                self.start();
            }
            Took::TooEarly(batch) => {
                let verdict =
                    Verdict::failed(FailureClass::Passing, "a batch before it has not come again yet");
                self.done.push_back(Settled { batch: *batch, verdict });
            }
            Took::Stale(batch) => self.done.push_back(Settled { batch: *batch, verdict: Verdict::Revoked }),
        }
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let until = clock::now() + nanoseconds(wait);
        loop {
            self.start();
            self.done.extend(self.fenced.release(clock::now()));
            if let Some(settled) = self.done.pop_front() {
                self.in_hand -= 1;
                return Some(settled);
            }
            let now = clock::now();
            let look = if self.fenced.is_empty() { u64::MAX } else { LOOK_NS };
            let left = Duration::from_nanos(until.since(now).min(self.until_due(now)).min(look));
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
            if !gathered.is_worth_it(&self.common.gather, full, now) {
                continue;
            }
            let Some(lane) = self.idle.pop() else { return };
            let batches = gathered.depart();
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
        let due = |gathered: &Gathered| gathered.until_due(&self.common.gather, now);
        self.gathered.values().filter_map(due).min().unwrap_or(u64::MAX)
    }

    fn land(&mut self, lane: Lane, partition: &Partition, outcome: Outcome) {
        self.idle.push(lane);
        let Some(gathered) = self.gathered.get_mut(partition) else { return };
        gathered.land();
        match outcome {
            Outcome::Written(settled) => self.done.extend(settled),
            Outcome::Fenced(batches) => {
                let behind = gathered.let_go(batches.first());
                self.fenced.hold(batches.into_iter().chain(behind), clock::now());
            }
            Outcome::Failed(batches, failure) => {
                let settled = |batch| Settled { batch, verdict: Verdict::Failed(failure.clone()) };
                self.done.extend(gathered.fail(batches).into_iter().map(settled));
            }
        }
        if self.gathered.get(partition).is_some_and(Gathered::is_idle) {
            self.gathered.remove(partition);
        }
    }
}
