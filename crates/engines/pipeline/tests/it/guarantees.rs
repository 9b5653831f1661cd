//! Tests guarantees with generators, executors and ends of pipelines.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_pipeline::engine::{Exhausted, Retry};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::position::FilePositions;
use plimsoll_pipeline::source::{File, FileSettings, Format, Generator, GeneratorSettings, Stop};
use plimsoll_pipeline::{
    Claim, Control, Ended, Error, Executor, Order, Partition, Parts, Pipeline, Position, PositionError,
    PositionStore, Settings, SinkFactory, Source,
};

use crate::scripted::{Counting, Scripted};

fn generator(index: u32, stop: Stop) -> Box<dyn Source> {
    Box::new(Generator::new(made_up(index, stop)))
}

fn made_up(index: u32, stop: Stop) -> GeneratorSettings {
    GeneratorSettings {
        partition: Partition::new("generated", index),
        payload_bytes: 64,
        key: None,
        rate_per_s: None,
        stop,
        resumes: false,
        seed: 7,
    }
}

fn parts(sources: Vec<Box<dyn Source>>, sink: &Scripted) -> Parts {
    Parts {
        sources,
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    }
}

#[test]
fn a_source_without_replay_is_refused() {
    let sink = Scripted::writing();
    let refused =
        Pipeline::build(parts(vec![generator(0, Stop::Never)], &sink), Settings::default(), Arc::default());
    let words = refused.err().unwrap().to_string();
    assert!(words.contains("at-most-once"), "{words}");
}

fn refusal(parts: Parts, guarantee: Guarantee) -> String {
    let settings = Settings { guarantee, ..Settings::default() };
    Pipeline::build(parts, settings, Arc::default()).err().unwrap().to_string()
}

/// Otherwise every start would read the file's beginning again.
#[test]
fn a_file_that_would_be_read_again_from_its_beginning_is_refused_also_for_at_most_once() {
    let file = File::new(FileSettings { path: "in".into(), format: Format::Ndjson });
    let words = refusal(parts(vec![Box::new(file)], &Scripted::writing()), Guarantee::AtMostOnce);
    assert!(words.contains("no `positions:` store, so at-most-once is impossible"), "{words}");
}

#[test]
fn a_store_without_writer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let positions = FilePositions::open(dir.path().join("positions")).unwrap();
    let parts = parts(vec![Box::new(Counting::new(1, 1))], &Scripted::writing());
    let parts = Parts { positions: Some(Arc::new(positions)), ..parts };
    let words = refusal(parts, Guarantee::AtLeastOnce);
    assert!(words.contains("keeps its positions itself") && words.contains("remove `positions:`"), "{words}");
}

/// A generator cannot replay, so it needs no position for at-most-once; a file in the same pipeline needs a
/// position.
#[test]
fn each_of_several_sources_must_satisfy_the_guarantee() {
    let dir = tempfile::tempdir().unwrap();
    let file = || -> Box<dyn Source> {
        Box::new(File::new(FileSettings { path: "in".into(), format: Format::Ndjson }))
    };
    let both = || parts(vec![generator(0, Stop::Never), file()], &Scripted::writing());
    let words = refusal(both(), Guarantee::AtMostOnce);
    assert!(words.contains("no `positions:` store, so at-most-once is impossible"), "{words}");
    let words = refusal(both(), Guarantee::AtLeastOnce);
    assert!(words.contains("cannot read events again"), "{words}");
    // A store that the file needs does not conflict with a source that keeps its own positions.
    let positions = Arc::new(FilePositions::open(dir.path().join("positions")).unwrap());
    let sources: Vec<Box<dyn Source>> = vec![Box::new(Counting::new(1, 1)), file()];
    let parts = Parts { positions: Some(positions), ..parts(sources, &Scripted::writing()) };
    assert!(Pipeline::build(parts, Settings::default(), Arc::default()).is_ok());
}

/// A store that is temporarily not writable.
struct Away;

impl PositionStore for Away {
    fn claim(&self, _partition: &Partition) -> Result<Claim, PositionError> {
        Ok(Claim::default())
    }

    fn keep(&self, _positions: &[(Partition, Position)]) -> Result<(), PositionError> {
        Err(PositionError::Unavailable { verb: "written", reason: "the store is away".into() })
    }
}

#[test]
fn only_the_message_of_a_fatal_position_error_mentions_the_stop() {
    let settings = GeneratorSettings { resumes: true, rate_per_s: Some(1000.0), ..made_up(0, Stop::Never) };
    let parts = parts(vec![Box::new(Generator::new(settings))], &Scripted::writing());
    let parts = Parts { positions: Some(Arc::new(Away)), ..parts };
    let settings = Settings { commit_every: Duration::from_millis(1), ..Settings::default() };
    let control = Arc::new(Control::default());
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control)).unwrap();
    let meter = pipeline.meter();
    let running = std::thread::spawn(move || pipeline.run());
    let trouble = loop {
        match meter.trouble() {
            Some(trouble) => break trouble,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(trouble, "the positions cannot be written: the store is away");
    control.drain();
    let words = running.join().unwrap().unwrap_err().to_string();
    assert!(words.contains("the store is away; the pipeline stops"), "{words}");
}

#[test]
fn every_executor_moves_every_event() {
    for executor in [Executor::Pool(1), Executor::Pool(3), Executor::PerPartition] {
        for order in [Order::Any, Order::Kept] {
            let mut sink = Scripted::writing();
            sink.promise.order = order;
            let sources = (0..3).map(|index| generator(index, Stop::Events(5000))).collect();
            let settings = Settings { guarantee: Guarantee::AtMostOnce, executor, ..Settings::default() };
            let pipeline = Pipeline::build(parts(sources, &sink), settings, Arc::default()).unwrap();
            let meter = pipeline.meter();
            assert_eq!(pipeline.run().unwrap(), Ended::Exhausted, "{executor:?} {order:?}");
            assert_eq!(sink.written().len(), 15_000, "{executor:?} {order:?}");
            assert_eq!(meter.counts().get(Count::Written), 15_000);
        }
    }
}

#[test]
fn a_drain_writes_events_in_flight_and_an_abort_does_not() {
    let sink = Scripted::writing();
    sink.set_open(false);
    let source = Counting::new(u64::MAX, 10);
    let committed = Arc::clone(&source.committed);
    let control = Arc::new(Control::default());
    let pipeline =
        Pipeline::build(parts(vec![Box::new(source)], &sink), Settings::default(), control.clone()).unwrap();
    let (budget, meter) = (pipeline.budget(), pipeline.meter());
    let running = std::thread::spawn(move || pipeline.run().unwrap());
    while budget.in_flight().events < Settings::default().limits.events_max {
        std::thread::yield_now();
    }
    control.drain();
    sink.set_open(true);
    assert_eq!(running.join().unwrap(), Ended::Drained);
    let read = meter.counts().get(Count::Read);
    assert_eq!((sink.written().len() as u64, committed.lock().unwrap().last()), (read, Some(&read)));

    let sink = Scripted::writing();
    sink.set_open(false);
    let (source, control) = (Counting::new(u64::MAX, 10), Arc::new(Control::default()));
    let committed = Arc::clone(&source.committed);
    let pipeline =
        Pipeline::build(parts(vec![Box::new(source)], &sink), Settings::default(), control.clone()).unwrap();
    let running = std::thread::spawn(move || pipeline.run().unwrap());
    control.abort();
    assert_eq!(running.join().unwrap(), Ended::Aborted);
    assert!(committed.lock().unwrap().is_empty());
}

#[test]
fn dead_lettering_failed_batches_needs_a_sink_and_a_retry_limit() {
    let refusal = |letters: bool, attempts_max| {
        let letters = letters.then(|| Box::new(Scripted::writing()) as Box<dyn SinkFactory>);
        let sources: Vec<Box<dyn Source>> = vec![Box::new(Counting::new(1, 1))];
        let parts = Parts { dead_letters: letters, ..parts(sources, &Scripted::writing()) };
        let retry = Retry { then: Exhausted::DeadLetters, attempts_max, ..Retry::default() };
        let built = Pipeline::build(parts, Settings { retry, ..Settings::default() }, Arc::default());
        built.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refusal(true, Some(3)), "");
    assert!(refusal(false, Some(3)).contains("add `dead_letters:`"));
    assert!(refusal(true, None).contains("add `attempts` or `for`"));
}

#[test]
fn contradictory_settings_are_refused() {
    let refuse = |settings: Settings| {
        let refused = Pipeline::build(
            parts(vec![Box::new(Counting::new(1, 1))], &Scripted::writing()),
            settings,
            Arc::default(),
        );
        assert!(matches!(refused.err(), Some(Error::Settings(_))));
    };
    refuse(Settings { executor: Executor::Pool(0), ..Settings::default() });
    let mut none = Settings::default();
    none.limits.events_max = 0;
    refuse(none);
}
