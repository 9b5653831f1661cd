//! Tests revoked partitions: their batches are left to the new owner, and failed commits are retried.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::{Count, Meter};
use plimsoll_pipeline::port::source::Last;
use plimsoll_pipeline::{
    Assignments, Batch, Control, Ended, Executor, Intake, Partition, Parts, Pipeline, Position, Promise,
    Read, Replay, Settings, Settled, Sink, SinkError, SinkFactory, Source, SourceError, Verdict,
};

use crate::outcome::settings;
use crate::scripted::{Counting, Scripted};

/// A source that loses its partition after its first batches, and continues with it like another process.
struct Loses {
    inner: Counting,
    assignments: Option<Arc<Assignments>>,
}

impl Source for Loses {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.assignments = Some(Arc::clone(assignments));
        self.inner.open(assignments)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let read = self.inner.read(intake)?;
        if let (Read::Some, Some(assignments)) = (read, self.assignments.take()) {
            assignments.lose(std::slice::from_ref(&self.inner.partition));
            self.inner.next = 0;
            self.inner.assignment = Some(assignments.open(self.inner.partition.clone())?.0);
        }
        Ok(read)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        self.inner.commit(reached, last)
    }
}

/// A pipeline of a source and a sink only.
fn parts(source: impl Source + 'static, sink: &Scripted) -> Parts {
    Parts {
        sources: vec![Box::new(source)],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    }
}

/// Runs a pipeline to the end of its source. Returns its counts.
fn exhaust(parts: Parts) -> Arc<Meter> {
    let pipeline = Pipeline::build(parts, settings(), Arc::default()).unwrap();
    let meter = pipeline.meter();
    assert_eq!(pipeline.run().unwrap(), Ended::Exhausted);
    meter
}

/// Runs a source that loses its partition: every event is written and committed nevertheless. Returns the counts.
fn lose(sink: &Scripted) -> Arc<Meter> {
    let inner = Counting::new(1000, 10);
    let committed = Arc::clone(&inner.committed);
    let meter = exhaust(parts(Loses { inner, assignments: None }, sink));
    let counts = meter.counts();
    assert_eq!(counts.settled(), counts.get(Count::Read));
    assert_eq!(each_once(sink.written()), (0..1000).collect::<Vec<_>>());
    assert_eq!(committed.lock().unwrap().last(), Some(&1000));
    meter
}

fn each_once(mut offsets: Vec<u64>) -> Vec<u64> {
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

#[test]
fn batches_of_a_lost_partition_are_left_to_its_owner() {
    assert!(lose(&Scripted::writing()).counts().get(Count::Left) > 0);
}

/// A source that shares its assignments, so that a sink can revoke them.
struct Lends {
    inner: Counting,
    assignments: Arc<Mutex<Option<Arc<Assignments>>>>,
}

impl Source for Lends {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        *self.assignments.lock().unwrap() = Some(Arc::clone(assignments));
        self.inner.open(assignments)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        self.inner.read(intake)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        self.inner.commit(reached, last)
    }
}

#[test]
fn a_batch_released_by_the_sink_is_neither_written_nor_replayed() {
    // The sink gets batches while their partition is assigned, and learns of its loss before it writes them.
    let assignments: Arc<Mutex<Option<Arc<Assignments>>>> = Arc::default();
    let lent = Arc::clone(&assignments);
    let sink = Scripted::new(move |batch| {
        lent.lock().unwrap().as_ref().unwrap().lose(std::slice::from_ref(batch.partition()));
        Verdict::Revoked
    });
    let counts = exhaust(parts(Lends { inner: Counting::new(1000, 10), assignments }, &sink)).counts();
    assert!(counts.get(Count::Left) > 0);
    assert_eq!(counts.get(Count::Left), counts.get(Count::Read));
    assert_eq!(counts.get(Count::HandedOver), counts.get(Count::Admitted));
    assert_eq!(
        (counts.get(Count::Written), counts.get(Count::Replayed), counts.get(Count::BatchesWritten)),
        (0, 0, 0)
    );
}

#[test]
fn a_batch_released_within_its_assignment_is_retried() {
    let first = Arc::new(AtomicBool::new(true));
    lose(&Scripted::new(move |_| match first.swap(false, Ordering::Relaxed) {
        true => Verdict::Revoked,
        false => Verdict::WRITTEN,
    }));
}

/// A source that never ends. With `loses` it loses its partition within its first commit.
struct Commits {
    inner: Counting,
    assignments: Option<Arc<Assignments>>,
    loses: bool,
    /// The number of positions of each commit.
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Source for Commits {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.assignments = Some(Arc::clone(assignments));
        self.inner.open(assignments)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        match self.inner.read(intake)? {
            Read::End => Ok(Read::Idle),
            read => Ok(read),
        }
    }

    fn commit(&mut self, reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        self.asked.lock().unwrap().push(reached.len());
        if let Some(assignments) = self.assignments.take_if(|_| self.loses) {
            assignments.lose(std::slice::from_ref(&self.inner.partition));
        }
        Ok(())
    }
}

/// Runs such a source until `until` is true for its commits, then drains.
fn commits(loses: bool, guarantee: Guarantee, until: impl Fn(&[usize]) -> bool) -> (Scripted, Arc<Meter>) {
    let (sink, asked, control) = (Scripted::writing(), Arc::default(), Arc::new(Control::default()));
    let source =
        Commits { inner: Counting::new(1000, 10), assignments: None, loses, asked: Arc::clone(&asked) };
    let settings = Settings { guarantee, commit_every: Duration::from_millis(1), ..settings() };
    let pipeline = Pipeline::build(parts(source, &sink), settings, Arc::clone(&control)).unwrap();
    let meter = pipeline.meter();
    let running = std::thread::spawn(move || pipeline.run().unwrap());
    while !until(&asked.lock().unwrap()) {
        std::thread::yield_now();
    }
    control.drain();
    running.join().unwrap();
    (sink, meter)
}

#[test]
fn a_failed_commit_is_retried_even_if_no_position_moves() {
    let (sink, _) = commits(false, Guarantee::AtLeastOnce, |asked| {
        let last = asked.iter().rposition(|positions| *positions > 0);
        last.is_some_and(|last| asked.len() > last + 3)
    });
    assert_eq!(sink.written().len(), 1000);
}

#[test]
fn at_most_once_writes_no_event_of_a_partition_revoked_during_the_commit() {
    let (sink, meter) = commits(true, Guarantee::AtMostOnce, |asked| !asked.is_empty());
    assert_eq!(sink.written(), [] as [u64; 0]);
    assert!(meter.counts().get(Count::Left) > 0);
}

/// A sink that records its workers, and how many of them exist at once.
#[derive(Default)]
struct Noted {
    numbers: Mutex<Vec<usize>>,
    alive: AtomicUsize,
    alive_max: AtomicUsize,
}

struct Noting {
    sink: Scripted,
    noted: Arc<Noted>,
}

impl SinkFactory for Noting {
    fn promise(&self) -> Promise {
        self.sink.promise()
    }

    fn build(&self, worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        self.noted.numbers.lock().unwrap().push(worker);
        let alive = self.noted.alive.fetch_add(1, Ordering::Relaxed) + 1;
        self.noted.alive_max.fetch_max(alive, Ordering::Relaxed);
        Ok(Box::new(Alive { sink: self.sink.build(worker)?, noted: Arc::clone(&self.noted) }))
    }
}

struct Alive {
    sink: Box<dyn Sink>,
    noted: Arc<Noted>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.noted.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sink for Alive {
    fn capacity(&self) -> usize {
        self.sink.capacity()
    }

    fn submit(&mut self, batch: Batch) {
        self.sink.submit(batch);
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        self.sink.settle(wait)
    }
}

/// Runs a thread per partition. Every topic has a partition of the same number, and loses it once.
fn noted(topics: &[&str]) -> Arc<Noted> {
    let (sink, noted) = (Scripted::writing(), Arc::new(Noted::default()));
    let sources = topics.iter().map(|topic| {
        let inner = Counting { partition: Partition::new(*topic, 0), ..Counting::new(1000, 10) };
        Box::new(Loses { inner, assignments: None }) as Box<dyn Source>
    });
    let sources = sources.collect();
    let noting = Noting { sink: sink.clone(), noted: Arc::clone(&noted) };
    let parts = Parts { sink: Box::new(noting), sources, ..parts(Counting::new(0, 1), &sink) };
    let settings = Settings { executor: Executor::PerPartition, ..settings() };
    assert_eq!(Pipeline::build(parts, settings, Arc::default()).unwrap().run().unwrap(), Ended::Exhausted);
    noted
}

#[test]
fn the_worker_of_a_partition_has_one_number_in_every_assignment_and_run() {
    let orders = noted(&["orders"]);
    let numbers = orders.numbers.lock().unwrap().clone();
    assert!(numbers.len() > 1, "the partition was assigned twice");
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
    assert_eq!(orders.alive_max.load(Ordering::Relaxed), 1, "two workers would fence each other off");
    let both = noted(&["orders", "payments"]);
    let both: BTreeSet<_> = both.numbers.lock().unwrap().iter().copied().collect();
    assert_eq!(both.len(), 2, "the partitions of two topics have numbers of their own");
    assert!(both.contains(&numbers[0]), "the number is the same in the next run");
}
