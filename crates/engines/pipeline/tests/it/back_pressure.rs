//! Tests that the limits of events in flight hold exactly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_pipeline::flow::Budget;
use plimsoll_pipeline::{
    Assignments, Batch, Control, Ended, Executor, Intake, Last, Limits, Partition, Parts, Pipeline, Position,
    Read, Replay, Settings, Source, SourceError, Transform, TransformError, TransformFactory,
};

use crate::scripted::{Counting, Scripted, Silent};

#[test]
fn exactly_the_limit_of_events_is_in_flight() {
    let (pool, own) = (Executor::Pool(3), Executor::PerPartition);
    for (ceiling, batch, executor) in [(1800, 50, pool), (1801, 50, own), (7, 50, pool), (1, 1, own)] {
        let sink = Scripted::writing();
        sink.set_open(false);
        let parts = Parts {
            sources: vec![Box::new(Counting::new(10_000, batch))],
            transforms: Vec::new(),
            sink: Box::new(sink.clone()),
            dead_letters: None,
            positions: None,
        };
        let limits = Limits { events_max: ceiling, batch_events_max: batch, ..Limits::default() };
        let settings = Settings { limits, executor, ..Settings::default() };
        let pipeline = Pipeline::build(parts, settings, Arc::new(Control::default())).unwrap();
        let budget = pipeline.budget();
        let running = std::thread::spawn(move || pipeline.run().unwrap());
        while budget.in_flight().events < ceiling {
            std::thread::yield_now();
        }
        // The sink is blocked: no event may be read any more, however long the source tries.
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(budget.in_flight().events, ceiling);
        sink.set_open(true);
        assert_eq!(running.join().unwrap(), Ended::Exhausted);
        assert_eq!((budget.in_flight().events, budget.most().events), (0, ceiling));
        assert_eq!(sink.written().len(), 10_000);
    }
}

fn start(source: Box<dyn Source>, transforms: Vec<Box<dyn TransformFactory>>, sink: &Scripted) -> Running {
    let parts = Parts {
        sources: vec![source],
        transforms,
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    };
    let control = Arc::new(Control::default());
    let limits = Limits { events_max: 1000, bytes_max: 10_000, batch_events_max: 10, ..Limits::default() };
    let settings = Settings { limits, executor: Executor::Pool(1), ..Settings::default() };
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control)).unwrap();
    let budget = pipeline.budget();
    Running { control, budget, thread: std::thread::spawn(move || pipeline.run().unwrap()) }
}

struct Running {
    control: Arc<Control>,
    budget: Arc<Budget>,
    thread: std::thread::JoinHandle<Ended>,
}

#[test]
fn space_reserved_by_a_waiting_source_is_not_in_flight() {
    let running = start(Box::new(Silent), Vec::new(), &Scripted::writing());
    while running.budget.most().events == 0 {
        std::thread::yield_now();
    }
    assert_eq!(running.budget.in_flight().events, 0);
    running.control.drain();
    assert_eq!(running.thread.join().unwrap(), Ended::Drained);
}

/// A transform that makes each payload a thousand bytes long.
struct Grows;

impl TransformFactory for Grows {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> &str {
        "grows"
    }
}

impl Transform for Grows {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        for index in 0..batch.events().len() {
            let payload = batch.keep(&[b'x'; 1000]);
            batch.events_mut()[index].payload = payload;
        }
        Ok(())
    }
}

/// A source that reads once, and then only when permitted.
struct Gated {
    inner: Counting,
    begun: bool,
    open: Arc<AtomicBool>,
}

impl Source for Gated {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.inner.open(assignments)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        if self.begun && !self.open.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(Read::Idle);
        }
        self.begun = true;
        self.inner.read(intake)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        self.inner.commit(reached, last)
    }
}

#[test]
fn growth_by_transforms_counts_as_in_flight_and_pauses_reading() {
    let (sink, open) = (Scripted::writing(), Arc::new(AtomicBool::new(false)));
    sink.set_open(false);
    let source = Gated { inner: Counting::new(u64::MAX, 10), begun: false, open: Arc::clone(&open) };
    let running = start(Box::new(source), vec![Box::new(Grows)], &sink);
    // Forty events of a byte were read. Ten of them, in the sink, grew by a thousand bytes each.
    while running.budget.in_flight().bytes < 10_040 {
        std::thread::yield_now();
    }
    open.store(true, Ordering::Release);
    std::thread::sleep(Duration::from_millis(120));
    assert!(running.budget.in_flight().events < 100, "{:?}", running.budget.in_flight());
    running.control.drain();
    sink.set_open(true);
    assert_eq!(running.thread.join().unwrap(), Ended::Drained);
    assert_eq!(running.budget.in_flight().bytes, 0);
}
