//! A sink that takes everything and keeps nothing: the ceiling of what comes before it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::event::Batch;
use crate::port::sink::{Identity, Order, Promise, Settled, Sink, SinkError, SinkFactory, Verdict};

/// Takes everything and keeps nothing.
///
/// It calls what it took durable, so that pipelines to it can be measured with every guarantee.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noop;

impl SinkFactory for Noop {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: Identity::Once, order: Order::Any, buries: false }
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
