//! What fails comes again, alone if it must, and nothing behind it is committed before.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_pipeline::engine::{DeadLetterLimit, Exhausted, Retry};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::{Count, Meter};
use plimsoll_pipeline::port::source::Last;
use plimsoll_pipeline::{
    Batch, Cause, CauseClass, Claim, Control, Ended, Error, Executor, FailureClass, Fate, Identity, Intake,
    Lanes, Order, Partition, Parts, Pipeline, Position, PositionError, PositionStore, Read, Replay, Settings,
    SinkFactory, Source, SourceError, Transform, TransformError, TransformFactory, Verdict,
};

use crate::scripted::{Counting, Scripted};

const RETRY: Retry = Retry {
    pause_ns_min: 1000,
    pause_ns_max: 10_000,
    attempts_max: None,
    time_ns_max: None,
    then: Exhausted::Stop,
    opens_after: 3,
};

struct Outcome {
    ended: Result<Ended, Error>,
    meter: Arc<Meter>,
    committed: Vec<u64>,
}

fn run(sink: &Scripted, letters: Option<&Scripted>, settings: Settings) -> Outcome {
    let source = Counting::new(1000, 10);
    let committed = Arc::clone(&source.committed);
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: letters.map(|letters| Box::new(letters.clone()) as Box<dyn SinkFactory>),
        positions: None,
    };
    let pipeline = Pipeline::build(parts, settings, Arc::new(Control::default())).unwrap();
    let meter = pipeline.meter();
    let ended = pipeline.run();
    let committed = committed.lock().unwrap().clone();
    Outcome { ended, meter, committed }
}

fn settings() -> Settings {
    Settings { retry: RETRY, executor: Executor::Pool(2), ..Settings::default() }
}

#[test]
fn a_failure_that_passes_costs_nothing_but_time() {
    let failures = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&failures);
    let mut sink = Scripted::new(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
        20..40 => Verdict::failed(FailureClass::Passing, "away"),
        _ => Verdict::WRITTEN,
    });
    sink.promise.order = Order::Kept;
    sink.capacity = 4;
    let outcome = run(&sink, None, settings());
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    let mut written = sink.written();
    written.sort_unstable();
    assert_eq!(written, (0..1000).collect::<Vec<_>>());
    assert_eq!(outcome.meter.counts().get(Count::Retries), 20);
    assert!(outcome.meter.counts().get(Count::Trips) >= 1);
    assert_eq!(outcome.committed.last(), Some(&1000));
}

#[test]
fn a_sink_that_fails_from_one_batch_on_gets_them_again_in_order() {
    // Everything in hand fails with the first, as in a transaction: what comes again must be as it was read.
    let failures = Arc::new(AtomicU32::new(0));
    let mut sink = Scripted::new(move |batch| {
        let first = batch.events()[0].offset;
        match failures.load(Ordering::Relaxed) {
            at if at < 4 && (400..440).contains(&first) => {
                failures.store(at + 1, Ordering::Relaxed);
                Verdict::failed(FailureClass::Passing, "aborted")
            }
            _ => Verdict::WRITTEN,
        }
    });
    sink.promise.order = Order::Kept;
    sink.capacity = 4;
    let outcome = run(&sink, None, settings());
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert_eq!(sink.written(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_poisoned_event_is_found_and_all_others_are_written() {
    let sink = Scripted::new(|batch| {
        if batch.events().iter().any(|event| event.offset == 777) {
            return Verdict::failed(FailureClass::Poisoned, "something is wrong");
        }
        Verdict::WRITTEN
    });
    let letters = Scripted::writing();
    let outcome = run(&sink, Some(&letters), settings());
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert_eq!(letters.written(), [777]);
    assert_eq!(sink.written().len(), 999);
    assert_eq!(outcome.meter.counts().settled(), 1000);
    assert_eq!(outcome.committed.last(), Some(&1000));
}

#[test]
fn without_dead_letters_a_refused_event_stops_the_pipeline_and_is_not_passed() {
    let sink = Scripted::new(|batch| {
        if batch.events().iter().any(|event| event.offset == 555) {
            return Verdict::failed(FailureClass::Poisoned, "no");
        }
        Verdict::WRITTEN
    });
    let outcome = run(&sink, None, settings());
    let error = outcome.ended.unwrap_err();
    assert!(matches!(&error, Error::NoDeadLetters { offset: 555, .. }), "{error}");
    assert!(outcome.committed.iter().all(|next| *next <= 550), "{:?}", outcome.committed);
}

#[test]
fn a_failure_for_good_stops_the_pipeline_and_commits_what_was_written() {
    let sink = Scripted::new(|batch| match batch.events()[0].offset {
        500.. => Verdict::failed(FailureClass::Final, "not allowed"),
        _ => Verdict::WRITTEN,
    });
    let outcome = run(&sink, None, Settings { executor: Executor::Pool(1), ..settings() });
    assert!(matches!(outcome.ended, Err(Error::Final(_))));
    assert_eq!(outcome.committed.last(), Some(&500));
}

#[test]
fn an_exhausted_budget_stops_or_buries_as_it_was_said() {
    let script = || {
        Scripted::new(|batch| match batch.events()[0].offset {
            500..510 => Verdict::failed(FailureClass::Passing, "busy"),
            _ => Verdict::WRITTEN,
        })
    };
    let retry = Retry { attempts_max: Some(2), ..RETRY };
    let stopped = run(&script(), None, Settings { retry, ..settings() });
    let error = stopped.ended.unwrap_err();
    assert!(matches!(&error, Error::Exhausted { first: 500, last: 509, attempts: 3, .. }), "{error}");
    let letters = Scripted::writing();
    let retry = Retry { then: Exhausted::Bury, ..retry };
    let buried = run(&script(), Some(&letters), Settings { retry, ..settings() });
    assert_eq!(buried.ended.unwrap(), Ended::Exhausted);
    assert_eq!(letters.written(), (500..510).collect::<Vec<_>>());
}

#[test]
fn too_many_dead_letters_and_dead_letters_that_fail_stop_the_pipeline() {
    let refuse_all = Scripted::new(|_| Verdict::failed(FailureClass::Poisoned, "no"));
    let limit = Some(DeadLetterLimit { most: 5, of: 100 });
    let outcome =
        run(&refuse_all, Some(&Scripted::writing()), Settings { dead_letter_limit: limit, ..settings() });
    assert!(matches!(outcome.ended, Err(Error::TooManyDeadLetters(_))));
    let outcome = run(&refuse_all, Some(&refuse_all), settings());
    assert!(matches!(outcome.ended, Err(Error::DeadLetters(_))));
    assert!(outcome.committed.is_empty(), "nothing was written and nothing is a dead letter");
}

#[test]
fn at_most_once_commits_first_and_never_tries_again() {
    let sink = Scripted::new(|batch| match batch.events()[0].offset {
        500..510 => Verdict::failed(FailureClass::Passing, "away"),
        _ => Verdict::WRITTEN,
    });
    let outcome = run(&sink, None, Settings { guarantee: Guarantee::AtMostOnce, ..settings() });
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert_eq!(outcome.meter.counts().get(Count::Lost), 10);
    assert_eq!(sink.written().len(), 990);
    assert_eq!(outcome.committed.last(), Some(&1000));
}

/// Condemns the event at offset 555.
struct Condemns;

impl TransformFactory for Condemns {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> &str {
        "condemns"
    }
}

impl Transform for Condemns {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| match batch.events()[index].offset {
            555 => Fate::Condemn(Cause::new("condemns", CauseClass::Invalid, "no")),
            _ => Fate::Keep,
        });
        Ok(())
    }
}

/// Positions that the sink's transactions keep.
struct InTransactions;

impl PositionStore for InTransactions {
    fn claim(&self, _partition: &Partition) -> Result<Claim, PositionError> {
        Ok(Claim::default())
    }

    fn keep(&self, _positions: &[(Partition, Position)]) -> Result<(), PositionError> {
        panic!("nobody but the sink keeps positions")
    }
}

fn transactional(
    mut sink: Scripted,
    transforms: Vec<Box<dyn TransformFactory>>,
    retry: Retry,
) -> Result<Ended, Error> {
    sink.promise.identity = Identity::Transaction;
    sink.promise.order = Order::Kept;
    let parts = Parts {
        sources: vec![Box::new(Counting::new(1000, 10))],
        transforms,
        sink: Box::new(sink),
        dead_letters: None,
        positions: Some(Arc::new(InTransactions)),
    };
    Pipeline::build(parts, Settings { retry, ..settings() }, Arc::default())?.run()
}

#[test]
fn a_transaction_takes_no_batch_whose_dead_letters_nobody_buries() {
    let sink = Scripted::writing();
    let ended = transactional(sink.clone(), vec![Box::new(Condemns)], RETRY);
    assert!(matches!(ended, Err(Error::NoDeadLetters { offset: 555, .. })));
    assert!(!sink.written().iter().any(|offset| (550..560).contains(offset)));
    let mut burying = Scripted::writing();
    burying.promise.buries = true;
    assert_eq!(transactional(burying.clone(), vec![Box::new(Condemns)], RETRY).unwrap(), Ended::Exhausted);
    assert_eq!(burying.written().len(), 999);
}

#[test]
fn a_transaction_is_never_cut_and_never_buried_afterwards() {
    let poisoned = Scripted::new(|_| Verdict::failed(FailureClass::Poisoned, "something"));
    assert!(matches!(transactional(poisoned, Vec::new(), RETRY), Err(Error::Final(_))));
    let bury = Retry { attempts_max: Some(1), then: Exhausted::Bury, ..RETRY };
    assert!(matches!(transactional(Scripted::writing(), Vec::new(), bury), Err(Error::Settings(_))));
}

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

#[test]
fn what_belongs_to_another_process_is_left_to_it() {
    let (sink, inner) = (Scripted::writing(), Counting::new(1000, 10));
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
    let counts = meter.counts();
    assert!(counts.get(Count::Left) > 0);
    assert_eq!(counts.settled(), counts.get(Count::Read));
    let mut written = sink.written();
    written.sort_unstable();
    written.dedup();
    assert_eq!(written, (0..1000).collect::<Vec<_>>());
    assert_eq!(committed.lock().unwrap().last(), Some(&1000));
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

#[test]
fn an_idle_worker_does_not_keep_the_others_from_trying_again() {
    let failures = AtomicU32::new(0);
    let mut sink = Scripted::new(move |_| match failures.fetch_add(1, Ordering::Relaxed) {
        5..15 => Verdict::failed(FailureClass::Passing, "away"),
        _ => Verdict::WRITTEN,
    });
    sink.promise.order = Order::Kept;
    let retry = Retry { opens_after: 1, ..RETRY };
    let began = plimsoll_measure::clock::now();
    let outcome = run(&sink, None, Settings { retry, executor: Executor::Pool(8), ..settings() });
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    let seconds = plimsoll_measure::clock::now().since(began) / plimsoll_measure::clock::SECOND_NS;
    assert!(seconds < 45, "a probe that nobody sends is forgotten after 60 s: {seconds} s");
}
