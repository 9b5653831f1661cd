//! Tests that failed batches are retried in order, and no later position is committed before them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_pipeline::engine::{Exhausted, Retry};
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::{Ended, Error, Executor, FailureClass, Order, Settings, Verdict};

use crate::outcome::{RETRY, run, settings};
use crate::scripted::Scripted;

#[test]
fn a_transient_failure_costs_only_time() {
    let failures = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&failures);
    let mut sink = Scripted::new(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
        20..40 => Verdict::failed(FailureClass::Transient, "away"),
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
fn failed_batches_reach_the_sink_again_in_order() {
    // All batches in the sink fail with the first, as in a transaction: repeated batches must be in the order of reading.
    let failures = Arc::new(AtomicU32::new(0));
    let mut sink = Scripted::new(move |batch| {
        let first = batch.events()[0].offset;
        match failures.load(Ordering::Relaxed) {
            at if at < 4 && (400..440).contains(&first) => {
                failures.store(at + 1, Ordering::Relaxed);
                Verdict::failed(FailureClass::Transient, "aborted")
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
fn a_permanent_failure_stops_the_pipeline_and_commits_written_events() {
    let sink = Scripted::new(|batch| match batch.events()[0].offset {
        500.. => Verdict::failed(FailureClass::Final, "not allowed"),
        _ => Verdict::WRITTEN,
    });
    let outcome = run(&sink, None, Settings { executor: Executor::Pool(1), ..settings() });
    assert!(matches!(outcome.ended, Err(Error::Final(_))));
    assert_eq!(outcome.committed.last(), Some(&500));
}

#[test]
fn exhausted_retries_stop_or_dead_letter_as_configured() {
    let script = || {
        Scripted::new(|batch| match batch.events()[0].offset {
            500..510 => Verdict::failed(FailureClass::Transient, "busy"),
            _ => Verdict::WRITTEN,
        })
    };
    let retry = Retry { attempts_max: Some(2), ..RETRY };
    let stopped = run(&script(), None, Settings { retry, ..settings() });
    let error = stopped.ended.unwrap_err();
    assert!(matches!(&error, Error::Exhausted { first: 500, last: 509, attempts: 3, .. }), "{error}");
    let letters = Scripted::writing();
    let retry = Retry { then: Exhausted::DeadLetters, ..retry };
    let outcome = run(&script(), Some(&letters), Settings { retry, ..settings() });
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert_eq!(letters.written(), (500..510).collect::<Vec<_>>());
}

#[test]
fn a_split_uses_no_retry() {
    // Three splits isolate event 7. The parts split off last then fail as often as allowed, and no more.
    let failures = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&failures);
    let sink = Scripted::new(move |batch| {
        let has = |offset| batch.events().iter().any(|event| event.offset == offset);
        match (has(7), has(8)) {
            (true, _) => Verdict::failed(FailureClass::RefusedEvent, "something is wrong"),
            (_, true) if counted.fetch_add(1, Ordering::Relaxed) < 2 => {
                Verdict::failed(FailureClass::Transient, "away")
            }
            _ => Verdict::WRITTEN,
        }
    });
    let retry = Retry { attempts_max: Some(2), ..RETRY };
    let letters = Scripted::writing();
    let outcome = run(&sink, Some(&letters), Settings { retry, ..settings() });
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert!(failures.load(Ordering::Relaxed) > 2, "they were tried again");
    assert_eq!((letters.written(), sink.written().len()), (vec![7], 999));
}

#[test]
fn a_released_probe_blocks_no_other_batch() {
    let asked = AtomicU32::new(0);
    let sink = Scripted::new(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        5 => Verdict::failed(FailureClass::Transient, "away"),
        6 => Verdict::Revoked,
        _ => Verdict::WRITTEN,
    });
    let retry = Retry { opens_after: 1, ..RETRY };
    let began = plimsoll_measure::clock::now();
    let outcome = run(&sink, None, Settings { retry, executor: Executor::Pool(1), ..settings() });
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    assert_eq!(sink.written().len(), 1000);
    let seconds = plimsoll_measure::clock::now().since(began) / plimsoll_measure::clock::SECOND_NS;
    assert!(seconds < 30, "an attempt without an answer is forgotten after 60 s: {seconds} s");
}

#[test]
fn an_idle_worker_does_not_block_the_retries_of_others() {
    let failures = AtomicU32::new(0);
    let mut sink = Scripted::new(move |_| match failures.fetch_add(1, Ordering::Relaxed) {
        5..15 => Verdict::failed(FailureClass::Transient, "away"),
        _ => Verdict::WRITTEN,
    });
    sink.promise.order = Order::Kept;
    let retry = Retry { opens_after: 1, ..RETRY };
    let began = plimsoll_measure::clock::now();
    let outcome = run(&sink, None, Settings { retry, executor: Executor::Pool(8), ..settings() });
    assert_eq!(outcome.ended.unwrap(), Ended::Exhausted);
    let seconds = plimsoll_measure::clock::now().since(began) / plimsoll_measure::clock::SECOND_NS;
    assert!(seconds < 45, "an unsent probe is forgotten after 60 s: {seconds} s");
}
