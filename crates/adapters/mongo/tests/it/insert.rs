//! Tests the retry of an insert whose first attempt had no answer.

use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Document, doc};
use plimsoll_host::scripted::Server;
use plimsoll_ledger::Counts;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_mongo::lean::Lean;

use crate::scripts::{deployment, ledger, name, run, setup};

const REJECTED: Outcome = Outcome::Rejected(Rejection::DuplicateKey);

/// Inserts two documents twice: the first attempt is interrupted; in the second, `refusal` refuses the first document.
fn check(refusal: Document, outcome: Outcome, documents: u64) {
    let refused = refusal.clone();
    let interrupted = AtomicBool::new(false);
    let server = Server::start(move |command| match name(command) {
        "insert" if !interrupted.swap(true, Ordering::Relaxed) => {
            Some(doc! {"ok": 0.0, "code": 91, "errmsg": "shutting down"})
        }
        "insert" => {
            let mut error = doc! {"index": 0, "code": 11000};
            error.extend(refusal.clone());
            Some(doc! {"n": 1, "writeErrors": [error], "ok": 1.0})
        }
        _ => None,
    });
    let server = server.unwrap();
    let setup = setup(r#"{"insert": {"batch": 2, "ordered": false}}"#);
    let target = Lean::new(setup.clone(), deployment(server.address().port()), ledger(&setup));
    run(async {
        let mut lane = target.open().await.unwrap();
        assert_eq!(target.prepare(&mut lane, 0, 0), Prepared::Ready);
        let first = target.send(&mut lane).await;
        assert_eq!(first.outcome, Outcome::Unknown(Doubt::Interrupted));
        let second = target.send(&mut lane).await;
        assert_eq!((second.outcome, second.documents), (outcome, documents), "{refused}");
    });
    // The first document was never acknowledged, and its refusal reveals nothing about the first attempt.
    let expected = Counts { acknowledged: 1, unknown: 1, rejected: 0 };
    assert_eq!(target.close().unwrap().ledger.counts(), expected, "{refused}");
}

#[test]
fn a_duplicate_document_was_inserted_by_the_first_attempt() {
    check(doc! {"keyPattern": {"_id": 1}, "errmsg": "E11000 duplicate key error"}, Outcome::Acknowledged, 2);
    let words = "E11000 duplicate key error collection: d.c index: _id_ dup key: { _id: 1 }";
    check(doc! {"errmsg": words}, Outcome::Acknowledged, 2);
}

#[test]
fn a_document_refused_by_another_unique_index_is_refused() {
    check(doc! {"keyPattern": {"a": 1}, "errmsg": "E11000 duplicate key error"}, REJECTED, 1);
    let words = "E11000 duplicate key error collection: d.c index: a_1 dup key: { a: 1 }";
    check(doc! {"errmsg": words}, REJECTED, 1);
    check(doc! {"errmsg": "E11000 duplicate key error"}, REJECTED, 1);
}
