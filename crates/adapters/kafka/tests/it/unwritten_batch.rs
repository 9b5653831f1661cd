//! Provides a sink that never writes the batch with one offset.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_pipeline::{Batch, Identity, Order, Promise, Settled, Sink, SinkError, SinkFactory, Verdict};

/// A sink that never writes the batch with one offset, and writes all others in any order.
pub struct UnwrittenBatch {
    offset: u64,
    identity: Identity,
    written: Arc<AtomicU64>,
    down: Arc<AtomicBool>,
    submitted: Arc<AtomicU64>,
}

pub fn unwritten_batch(offset: u64) -> UnwrittenBatch {
    let identity = Identity::Once;
    UnwrittenBatch {
        offset,
        identity,
        written: Arc::default(),
        down: Arc::default(),
        submitted: Arc::default(),
    }
}

impl UnwrittenBatch {
    /// Declares that the sink's transactions store the positions.
    pub fn in_transactions(self) -> Self {
        Self { identity: Identity::Transaction, ..self }
    }

    /// Makes the sink write nothing while it is unavailable.
    pub fn down_while(self, down: &Arc<AtomicBool>) -> Self {
        Self { down: Arc::clone(down), ..self }
    }

    /// The number of submitted events.
    pub fn submitted(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.submitted)
    }

    /// The number of written events.
    pub fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }
}

impl SinkFactory for UnwrittenBatch {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: self.identity, order: Order::Any, writes_dead_letters: false }
    }

    fn build(&self, _: usize) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Taken {
            offset: self.offset,
            written: Arc::clone(&self.written),
            down: Arc::clone(&self.down),
            submitted: Arc::clone(&self.submitted),
            held: Vec::new(),
            kept: Vec::new(),
        }))
    }
}

struct Taken {
    offset: u64,
    written: Arc<AtomicU64>,
    down: Arc<AtomicBool>,
    submitted: Arc<AtomicU64>,
    held: Vec<Batch>,
    /// Batches that are never settled.
    kept: Vec<Batch>,
}

impl Sink for Taken {
    fn capacity(&self) -> usize {
        100
    }

    fn submit(&mut self, batch: Batch) {
        self.submitted.fetch_add(batch.events().len() as u64, Ordering::Relaxed);
        match batch.events().iter().any(|event| event.offset == self.offset) {
            true => self.kept.push(batch),
            false => self.held.push(batch),
        }
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let available = !self.down.load(Ordering::Relaxed);
        let Some(batch) = available.then(|| self.held.pop()).flatten() else {
            thread::sleep(wait);
            return None;
        };
        self.written.fetch_add(batch.events().len() as u64, Ordering::Relaxed);
        Some(Settled { batch, verdict: Verdict::WRITTEN })
    }
}
