//! Partitions that come and go: what belongs to another process is left to it, and commits are asked for again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::{Count, Meter};
use plimsoll_pipeline::port::source::Last;
use plimsoll_pipeline::{
    Control, Ended, Intake, Lanes, Partition, Parts, Pipeline, Position, Read, Replay, Settings, Source,
    SourceError, Verdict,
};

use crate::outcome::settings;
use crate::scripted::{Counting, Scripted};

/// Loses its partition behind its first batches, and goes on with it as another process would.
struct Loses {
    inner: Counting,
    lanes: Option<Arc<Lanes>>,
}

impl Source for Loses {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, lanes: &Arc<Lanes>) -> Result<(), SourceError> {
        self.lanes = Some(Arc::clone(lanes));
        self.inner.open(lanes)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let read = self.inner.read(intake)?;
        if let (Read::Some, Some(lanes)) = (read, self.lanes.take()) {
            lanes.lose(std::slice::from_ref(&self.inner.partition));
            self.inner.next = 0;
            self.inner.lane = Some(lanes.open(self.inner.partition.clone())?.0);
        }
        Ok(read)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        self.inner.commit(reached, last)
    }
}

/// Runs a source that loses its partition; gives what its pipeline counted.
fn lose(sink: &Scripted) -> (Arc<Meter>, Vec<u64>) {
    let inner = Counting::new(1000, 10);
    let committed = Arc::clone(&inner.committed);
    let parts = Parts {
        sources: vec![Box::new(Loses { inner, lanes: None })],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    };
    let pipeline = Pipeline::build(parts, settings(), Arc::default()).unwrap();
    let meter = pipeline.meter();
    assert_eq!(pipeline.run().unwrap(), Ended::Exhausted);
    let committed = committed.lock().unwrap().clone();
    (meter, committed)
}

fn each_once(mut offsets: Vec<u64>) -> Vec<u64> {
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

#[test]
fn what_belongs_to_another_process_is_left_to_it() {
    let sink = Scripted::writing();
    let (meter, committed) = lose(&sink);
    let counts = meter.counts();
    assert!(counts.get(Count::Left) > 0);
    assert_eq!(counts.settled(), counts.get(Count::Read));
    assert_eq!(each_once(sink.written()), (0..1000).collect::<Vec<_>>());
    assert_eq!(committed.last(), Some(&1000));
}

/// Lends its lanes, so that a sink can lose them.
struct Lends {
    inner: Counting,
    lanes: Arc<Mutex<Option<Arc<Lanes>>>>,
}

impl Source for Lends {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, lanes: &Arc<Lanes>) -> Result<(), SourceError> {
        *self.lanes.lock().unwrap() = Some(Arc::clone(lanes));
        self.inner.open(lanes)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        self.inner.read(intake)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        self.inner.commit(reached, last)
    }
}

#[test]
fn what_a_sink_leaves_is_neither_written_nor_replayed() {
    // The sink is given batches while their partition is held, and hears that it went before it writes them.
    let lanes: Arc<Mutex<Option<Arc<Lanes>>>> = Arc::default();
    let lent = Arc::clone(&lanes);
    let sink = Scripted::new(move |batch| {
        lent.lock().unwrap().as_ref().unwrap().lose(std::slice::from_ref(batch.partition()));
        Verdict::Left
    });
    let parts = Parts {
        sources: vec![Box::new(Lends { inner: Counting::new(1000, 10), lanes })],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    };
    let pipeline = Pipeline::build(parts, settings(), Arc::default()).unwrap();
    let meter = pipeline.meter();
    assert_eq!(pipeline.run().unwrap(), Ended::Exhausted);
    let counts = meter.counts();
    assert!(counts.get(Count::Left) > 0);
    assert_eq!(counts.get(Count::Left), counts.get(Count::Read));
    assert_eq!(
        (counts.get(Count::Written), counts.get(Count::Replayed), counts.get(Count::Flushes)),
        (0, 0, 0)
    );
}

#[test]
fn what_a_sink_leaves_while_it_is_held_comes_again() {
    let first = Arc::new(AtomicBool::new(true));
    let sink = Scripted::new(move |_| match first.swap(false, Ordering::Relaxed) {
        true => Verdict::Left,
        false => Verdict::WRITTEN,
    });
    let (meter, committed) = lose(&sink);
    assert_eq!(meter.counts().settled(), meter.counts().get(Count::Read));
    assert_eq!(each_once(sink.written()), (0..1000).collect::<Vec<_>>());
    assert_eq!(committed.last(), Some(&1000));
}

/// Never ends, and loses its partition within its first commit if it is told to.
struct Commits {
    inner: Counting,
    lanes: Option<Arc<Lanes>>,
    loses: bool,
    /// How many positions each commit had.
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Source for Commits {
    fn replay(&self) -> Replay {
        self.inner.replay()
    }

    fn open(&mut self, lanes: &Arc<Lanes>) -> Result<(), SourceError> {
        self.lanes = Some(Arc::clone(lanes));
        self.inner.open(lanes)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        match self.inner.read(intake)? {
            Read::End => Ok(Read::Idle),
            read => Ok(read),
        }
    }

    fn commit(&mut self, reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        self.asked.lock().unwrap().push(reached.len());
        if let Some(lanes) = self.lanes.take_if(|_| self.loses) {
            lanes.lose(std::slice::from_ref(&self.inner.partition));
        }
        Ok(())
    }
}

/// Runs such a source until `until` holds of its commits, then drains.
fn commits(loses: bool, guarantee: Guarantee, until: impl Fn(&[usize]) -> bool) -> (Scripted, Arc<Meter>) {
    let (sink, asked, control) = (Scripted::writing(), Arc::default(), Arc::new(Control::default()));
    let source = Commits { inner: Counting::new(1000, 10), lanes: None, loses, asked: Arc::clone(&asked) };
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    };
    let settings = Settings { guarantee, commit_every: Duration::from_millis(1), ..settings() };
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control)).unwrap();
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
fn a_source_is_asked_again_for_what_it_could_not_keep_though_nothing_moves() {
    let (sink, _) = commits(false, Guarantee::AtLeastOnce, |asked| {
        let last = asked.iter().rposition(|positions| *positions > 0);
        last.is_some_and(|last| asked.len() > last + 3)
    });
    assert_eq!(sink.written().len(), 1000);
}

#[test]
fn at_most_once_writes_nothing_of_a_partition_that_went_while_it_was_committed() {
    let (sink, meter) = commits(true, Guarantee::AtMostOnce, |asked| !asked.is_empty());
    assert_eq!(sink.written(), [] as [u64; 0]);
    assert!(meter.counts().get(Count::Left) > 0);
}
