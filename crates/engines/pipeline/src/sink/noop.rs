//! Discards all events, to measure the throughput of all parts before the sink.

use std::collections::VecDeque;
use std::time::Duration;

use crate::event::Batch;
use crate::port::sink::{Identity, Order, Promise, Settled, Sink, SinkError, SinkFactory, Verdict};

/// Discards all events.
///
/// The sink promises durability, so that pipelines to it can be measured with every guarantee.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noop;

impl SinkFactory for Noop {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: Identity::Once, order: Order::Any, writes_dead_letters: false }
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Taken::default()))
    }
}

#[derive(Debug, Default)]
struct Taken(VecDeque<Batch>);

impl Sink for Taken {
    fn capacity(&self) -> usize {
        1
    }

    fn submit(&mut self, batch: Batch) {
        self.0.push_back(batch);
    }

    fn settle(&mut self, _wait: Duration) -> Option<Settled> {
        self.0.pop_front().map(|batch| Settled { batch, verdict: Verdict::WRITTEN })
    }
}
