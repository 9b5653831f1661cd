//! Writes events, positions and dead letters in one transaction, fenced against other processes.
//!
//! Batches of a partition are buffered until they are large or old enough for a transaction. Each partition
//! has one transaction in flight at a time; partitions run in parallel. When a transaction fails, all
//! buffered batches of its partition fail too, and later batches fail until the failed batches are retried:
//! nothing is written after a gap. Batches of a partition that another process took over are held until this
//! process is notified.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{retry, runtime};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_pipeline::{
    Batch, FailureClass, Identity, Order, Partition, Promise, Settled, Sink, SinkError, SinkFactory, Verdict,
};

use super::fenced::Fenced;
use super::in_flight::InFlight;
use super::insert::refused;
use super::transaction::{Outcome, Session, TransactionSettings};
use super::transaction_buffer::{Added, TransactionBuffer, nanoseconds};

/// The interval of checks for revoked partitions, in nanoseconds.
const LOOK_NS: u64 = 20_000_000;

/// Makes transactional sinks.
#[derive(Clone, Debug)]
pub struct Transactions(Arc<TransactionSettings>);

/// The transactional sink of one worker.
#[derive(Debug)]
pub struct Transactional {
    settings: Arc<TransactionSettings>,
    idle: Vec<Session>,
    in_flight: InFlight<(Session, Partition, Outcome)>,
    running: usize,
    buffers: BTreeMap<Partition, TransactionBuffer>,
    fenced: Fenced,
    done: VecDeque<Settled>,
    in_hand: usize,
    flushing: bool,
}

impl Transactions {
    pub(crate) fn new(settings: TransactionSettings) -> Self {
        Self(Arc::new(settings))
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
        let settings = Arc::clone(&self.0);
        let in_flight = InFlight::new(runtime().map_err(|error| SinkError::Refused(error.to_string()))?);
        let mut idle: Vec<Session> =
            std::iter::repeat_with(Session::new).take(settings.connections).collect();
        for (number, session) in idle.iter_mut().enumerate() {
            let opened = in_flight.wait_for(retry(async || match number {
                0 => session.make_collections(&settings).await,
                _ => session.open(&settings).await.map(drop),
            }));
            opened.map_err(|error| refused(&error))?;
        }
        let (buffers, done) = (BTreeMap::new(), VecDeque::new());
        Ok(Box::new(Transactional {
            settings,
            idle,
            in_flight,
            running: 0,
            buffers,
            fenced: Fenced::default(),
            done,
            in_hand: 0,
            flushing: false,
        }))
    }
}

impl Sink for Transactional {
    fn capacity(&self) -> usize {
        self.settings.batches
    }

    fn submit(&mut self, batch: Batch) {
        self.in_hand += 1;
        self.flushing = false;
        let Some(batch) = self.fenced.join(batch) else { return };
        let buffer = self.buffers.entry(batch.position_partition().clone()).or_default();
        match buffer.add(batch, clock::now()) {
            Added::Buffered { stale } => {
                // The next assignment has begun and reads these batches again.
                let left = |batch| Settled { batch, verdict: Verdict::Revoked };
                self.done.extend(stale.into_iter().map(left));
                self.start();
            }
            Added::TooEarly(batch) => {
                let verdict =
                    Verdict::failed(FailureClass::Transient, "an earlier batch must be retried first");
                self.done.push_back(Settled { batch: *batch, verdict });
            }
            Added::Stale(batch) => self.done.push_back(Settled { batch: *batch, verdict: Verdict::Revoked }),
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
            if self.running == 0 {
                if left.is_zero() || self.in_hand == 0 {
                    return None;
                }
                std::thread::sleep(left);
            } else if let Some((session, partition, outcome)) = self.in_flight.next(left) {
                self.running -= 1;
                self.finish(session, &partition, outcome);
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
    /// Starts all due transactions, as far as connections are free.
    fn start(&mut self) {
        let now = clock::now();
        // Without space for more batches, waiting would add nothing.
        let full = self.flushing || self.in_hand >= self.settings.batches;
        for (partition, buffer) in &mut self.buffers {
            if !buffer.is_due(&self.settings.buffer, full, now) {
                continue;
            }
            let Some(session) = self.idle.pop() else { return };
            let batches = buffer.take_all();
            let (settings, partition) = (Arc::clone(&self.settings), partition.clone());
            self.running += 1;
            self.in_flight.spawn(async move {
                let (session, outcome) = session.write(batches, &settings).await;
                (session, partition, outcome)
            });
        }
    }

    /// Nanoseconds until the next buffer reaches its age limit.
    fn until_due(&self, now: Instant) -> u64 {
        if self.idle.is_empty() {
            return u64::MAX;
        }
        let due = |buffer: &TransactionBuffer| buffer.until_due(&self.settings.buffer, now);
        self.buffers.values().filter_map(due).min().unwrap_or(u64::MAX)
    }

    fn finish(&mut self, session: Session, partition: &Partition, outcome: Outcome) {
        self.idle.push(session);
        let Some(buffer) = self.buffers.get_mut(partition) else { return };
        buffer.finish();
        match outcome {
            Outcome::Written(settled) => self.done.extend(settled),
            Outcome::Fenced(batches) => {
                let behind = buffer.take_behind(batches.first());
                self.fenced.hold(batches.into_iter().chain(behind), clock::now());
            }
            Outcome::Failed(batches, failure) => {
                let settled = |batch| Settled { batch, verdict: Verdict::Failed(failure.clone()) };
                self.done.extend(buffer.fail(batches).into_iter().map(settled));
            }
        }
        if self.buffers.get(partition).is_some_and(TransactionBuffer::is_idle) {
            self.buffers.remove(partition);
        }
    }
}
