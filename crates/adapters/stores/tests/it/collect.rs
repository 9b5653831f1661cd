//! Provides a sink that collects its events, and pipelines to it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::Document;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{
    Batch, Control, Ended, Error, Executor, Identity, Limits, Order, Parts, Pipeline, PositionStore, Promise,
    Settings, Settled, Sink, SinkError, SinkFactory, Source, Verdict,
};

/// An event with its metadata, as received.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    pub partition: u32,
    pub offset: u64,
    pub key: Option<Vec<u8>>,
    pub payload: Option<Vec<u8>>,
    pub operation: Option<String>,
}

impl Arrived {
    /// The payload as a document.
    pub fn document(&self) -> Document {
        Document::from_reader(self.payload.as_deref().unwrap()).unwrap()
    }
}

/// All events, in the order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Collect(pub Arc<Mutex<Vec<Arrived>>>);

impl Collect {
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Takes the events so far.
    pub fn take(&self) -> Vec<Arrived> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl SinkFactory for Collect {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: Identity::Named, order: Order::Kept, writes_dead_letters: false }
    }

    fn build(&self, _: usize) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Collecting(self.clone(), None)))
    }
}

struct Collecting(Collect, Option<Batch>);

impl Sink for Collecting {
    fn capacity(&self) -> usize {
        1
    }

    fn submit(&mut self, batch: Batch) {
        let arrived = batch.events().iter().map(|event| Arrived {
            partition: batch.partition().index,
            offset: event.offset,
            key: batch.key(event).map(<[u8]>::to_vec),
            payload: batch.payload(event).map(<[u8]>::to_vec),
            operation: batch
                .headers(event)
                .get("operation")
                .flatten()
                .map(|word| String::from_utf8_lossy(word).into()),
        });
        self.0.0.lock().unwrap().extend(arrived);
        self.1 = Some(batch);
    }

    fn settle(&mut self, _: Duration) -> Option<Settled> {
        self.1.take().map(|batch| Settled { batch, verdict: Verdict::WRITTEN })
    }
}

/// Runs a pipeline from a source to a sink without dead letters.
pub fn run(
    source: impl Source + 'static,
    sink: &(impl SinkFactory + Clone + 'static),
    positions: impl PositionStore + 'static,
    control: &Arc<Control>,
) -> Result<Ended, Error> {
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms: vec![],
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: Some(Arc::new(positions)),
    };
    let settings = Settings {
        guarantee: Guarantee::AtLeastOnce,
        executor: Executor::Pool(1),
        commit_every: Duration::from_millis(20),
        limits: Limits { batch_events_max: 100, ..Limits::default() },
        ..Settings::default()
    };
    Pipeline::build(parts, settings, Arc::clone(control))?.run()
}
