//! Tests the verdict for each kind of reply.

use bson::{Document, doc};
use plimsoll_host::scripted::Server;
use plimsoll_pipeline::{FailureClass, Verdict};
use plimsoll_stores::scenario::{IdKind, Insert};

use crate::bench::{batch, refused, sink, write};

/// The verdict on a batch of five events with this reply.
fn judged(answer: Document) -> Verdict {
    let server =
        Server::start(move |command: &Document| command.contains_key("insert").then(|| answer.clone()))
            .unwrap();
    let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", server.address().port());
    let typed = Insert { identity: IdKind::ObjectId, connections: 1, ..Insert::new(uri, "d.c") };
    write(&mut *sink(&typed.build().unwrap()), batch("t", 0, 0, 5))
}

fn check(answer: Document, class: FailureClass) {
    match judged(answer.clone()) {
        Verdict::Failed(failure) => assert_eq!(failure.class, class, "{answer}: {}", failure.reason),
        written => panic!("{answer}: {written:?}"),
    }
}

fn failed(code: i32) -> Document {
    doc! {"ok": 0.0, "code": code, "errmsg": "no"}
}

fn errors(code: i32, indices: &[i32]) -> Document {
    let pattern = doc! {"user": 1};
    let error =
        |index: &i32| doc! {"index": *index, "code": code, "keyPattern": pattern.clone(), "errmsg": "no"};
    let errors: Vec<_> = indices.iter().map(error).collect();
    doc! {"ok": 1.0, "n": 5 - indices.len() as i32, "writeErrors": errors}
}

#[test]
fn a_transient_error_is_retried() {
    // Codes: PrimarySteppedDown, ShutdownInProgress, NotWritablePrimary, out of tickets, InternalError, UnknownError.
    for code in [189, 91, 10107, 202, 1, 8] {
        check(failed(code), FailureClass::Transient);
    }
    check(errors(112, &[2]), FailureClass::Transient);
    let late = doc! {"ok": 1.0, "n": 5, "writeConcernError": {"code": 64, "errmsg": "waiting timed out"}};
    check(late, FailureClass::Transient);
    check(doc! {"ok": 1.0, "n": 3}, FailureClass::Transient);
}

#[test]
fn permanent_errors_stop_the_pipeline() {
    // Codes of missing rights, a bad name, a view, and an unknown command.
    for code in [13, 73, 166, 59] {
        check(failed(code), FailureClass::Final);
    }
}

#[test]
fn a_refusal_without_document_splits_the_batch() {
    // InvalidBSON, BadValue, BSONObjectTooLarge, and an unknown code.
    for code in [22, 2, 10334, 99_999] {
        check(failed(code), FailureClass::RefusedEvent);
    }
}

#[test]
fn documents_with_new_ids_are_never_split_once_some_are_written() {
    assert_eq!(refused(&judged(errors(16755, &[1, 2]))), [1, 2]);
    check(errors(16755, &[0, 1, 2, 3, 4]), FailureClass::RefusedEvent);
}

#[test]
fn an_error_of_one_document_refuses_that_event() {
    for code in [11000, 121, 16755] {
        assert_eq!(refused(&judged(errors(code, &[3, 1]))), [1, 3], "{code}");
    }
    assert_eq!(judged(doc! {"ok": 1.0, "n": 5}), Verdict::WRITTEN);
}
