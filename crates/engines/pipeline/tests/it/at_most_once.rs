//! Tests at-most-once: positions are committed before events, and lost events are counted.

use std::sync::Arc;

use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::{Control, Ended, FailureClass, Parts, Pipeline, Settings, Verdict};

use crate::outcome::{Denies, run, run_through, settings};
use crate::scripted::{Counting, Scripted};

fn at_most_once() -> Settings {
    Settings { guarantee: Guarantee::AtMostOnce, ..settings() }
}

/// A sink that fails for the events 550 to 559.
fn failing() -> Scripted {
    Scripted::new(|batch| match batch.events()[0].offset {
        550..560 => Verdict::failed(FailureClass::Transient, "away"),
        _ => Verdict::WRITTEN,
    })
}

#[test]
fn at_most_once_commits_first_and_never_retries() {
    let sink = failing();
    let outcome = run(&sink, None, at_most_once());
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert_eq!(outcome.meter.counts().get(Count::Lost), 10);
    assert_eq!(sink.written().len(), 990);
    assert_eq!(outcome.committed.last(), Some(&1000));
}

#[test]
fn one_refused_event_loses_no_other() {
    let check = |letters: Option<&Scripted>, lost: u64| {
        let sink = Scripted::new(|batch| match batch.events().iter().any(|event| event.offset == 555) {
            true => Verdict::failed(FailureClass::RefusedEvent, "something is wrong"),
            false => Verdict::WRITTEN,
        });
        let outcome = run(&sink, letters, at_most_once());
        assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
        let mut written = sink.written();
        written.sort_unstable();
        assert_eq!(written, (0..1000).filter(|offset| *offset != 555).collect::<Vec<_>>());
        let counts = outcome.meter.counts();
        assert_eq!((counts.get(Count::Lost), counts.settled()), (lost, 1000));
    };
    let letters = Scripted::writing();
    check(Some(&letters), 0);
    assert_eq!(letters.written(), [555]);
    check(None, 1);
}

#[test]
fn denied_events_are_dead_letters_even_if_their_batch_failed() {
    let (sink, letters) = (failing(), Scripted::writing());
    let outcome = run_through(vec![Box::new(Denies)], &sink, Some(&letters), at_most_once());
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert_eq!(letters.written(), [555]);
    let counts = outcome.meter.counts();
    assert_eq!((counts.get(Count::Denied), counts.get(Count::DeadLettered)), (1, 1));
    assert_eq!((counts.get(Count::Lost), counts.get(Count::Written)), (9, 990));
    assert_eq!((counts.get(Count::Admitted), counts.get(Count::Acknowledged)), (999, 990));
    assert!((counts.integrity() - 990.0 / 999.0).abs() < 1e-9, "lost events are never acknowledged");
    assert_eq!(counts.settled(), 1000);
}

#[test]
fn aborted_events_are_lost_because_their_position_is_committed() {
    let (sink, source, control) =
        (Scripted::writing(), Counting::new(u64::MAX, 10), Arc::new(Control::default()));
    sink.set_open(false);
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    };
    let pipeline = Pipeline::build(parts, at_most_once(), Arc::clone(&control)).unwrap();
    let meter = pipeline.meter();
    let running = std::thread::spawn(move || pipeline.run().unwrap());
    while meter.counts().get(Count::Read) == 0 {
        std::thread::yield_now();
    }
    control.abort();
    assert_eq!(running.join().unwrap(), Ended::Aborted);
    let counts = meter.counts();
    assert_eq!((sink.written().len(), counts.get(Count::Written)), (0, 0));
    assert!(counts.get(Count::Lost) > 0);
    assert_eq!(counts.get(Count::Lost), counts.get(Count::Read));
}
