//! Tests that a refused event is found, and becomes a dead letter or stops the pipeline.

use plimsoll_pipeline::engine::DeadLetterLimit;
use plimsoll_pipeline::{Ended, Error, FailureClass, Settings, Verdict};

use crate::outcome::{run, settings};
use crate::scripted::Scripted;

#[test]
fn a_refused_event_is_found_and_all_others_are_written() {
    let sink = Scripted::new(|batch| {
        if batch.events().iter().any(|event| event.offset == 777) {
            return Verdict::failed(FailureClass::RefusedEvent, "something is wrong");
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
fn without_dead_letters_a_refused_event_stops_the_pipeline() {
    let sink = Scripted::new(|batch| {
        if batch.events().iter().any(|event| event.offset == 555) {
            return Verdict::failed(FailureClass::RefusedEvent, "no");
        }
        Verdict::WRITTEN
    });
    let outcome = run(&sink, None, settings());
    let error = outcome.ended.unwrap_err();
    assert!(matches!(&error, Error::NoDeadLetters { offset: 555, .. }), "{error}");
    assert!(outcome.committed.iter().all(|next| *next <= 550), "{:?}", outcome.committed);
}

#[test]
fn too_many_dead_letters_and_dead_letters_that_fail_stop_the_pipeline() {
    let refuse_all = Scripted::new(|_| Verdict::failed(FailureClass::RefusedEvent, "no"));
    let limit = Some(DeadLetterLimit { most: 5, of: 100 });
    let outcome =
        run(&refuse_all, Some(&Scripted::writing()), Settings { dead_letter_limit: limit, ..settings() });
    assert!(matches!(outcome.ended, Err(Error::TooManyDeadLetters(_))));
    let outcome = run(&refuse_all, Some(&refuse_all), settings());
    assert!(matches!(outcome.ended, Err(Error::DeadLetters(_))));
    assert!(outcome.committed.is_empty(), "nothing was written and nothing is a dead letter");
}
