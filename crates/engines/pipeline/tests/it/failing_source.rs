//! Tests a source that fails permanently: earlier events are written and committed, and the pipeline ends with its message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::{
    Assignments, Error, Executor, Intake, Last, Partition, Parts, Pipeline, Position, Read, Replay, Settings,
    Source, SourceError,
};

use crate::outcome::settings;
use crate::scripted::{Counting, Scripted};

/// A source that fills its space, and fails in the same read and in every later one.
struct Fails {
    inner: Counting,
    failures: Arc<AtomicU64>,
}

impl Source for Fails {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.inner.open(assignments)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        self.inner.read(intake)?;
        self.failures.fetch_add(1, Ordering::Relaxed);
        Err(SourceError::Failed("the topic is gone".into()))
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        self.inner.commit(reached, last)
    }
}

#[test]
fn batches_handed_over_before_a_source_fails_are_written_and_committed() {
    let (sink, source) = (Scripted::writing(), Counting::new(50, 10));
    let (committed, failures) = (Arc::clone(&source.committed), Arc::<AtomicU64>::default());
    sink.set_open(false);
    let parts = Parts {
        sources: vec![Box::new(Fails { inner: source, failures: Arc::clone(&failures) })],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    };
    let settings = Settings { executor: Executor::Pool(1), ..settings() };
    let pipeline = Pipeline::build(parts, settings, Arc::default()).unwrap();
    let meter = pipeline.meter();
    let (ended, end) = channel();
    std::thread::spawn(move || ended.send(pipeline.run()));
    while meter.counts().get(Count::Read) < 50 || failures.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    sink.set_open(true);
    let error = end.recv_timeout(Duration::from_secs(60)).unwrap().unwrap_err();
    assert!(matches!(&error, Error::Source(SourceError::Failed(words)) if words.contains("gone")), "{error}");
    assert_eq!(sink.written(), (0..50).collect::<Vec<_>>());
    assert_eq!(committed.lock().unwrap().last(), Some(&50));
}
