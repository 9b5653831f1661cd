//! Tests the outcome of transactions that the server ends in different ways.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use plimsoll_deployment::Deployment;
use plimsoll_host::scripted::Server;
use plimsoll_ledger::{Allocation, Counts, Ledger, Run};
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::scenario::{Operation, Section};
use plimsoll_mongo::setup::{Context, Setup};
use plimsoll_mongo::worker_ledger::WorkerLedger;
use plimsoll_wire::Address;

/// A primary that accepts every insert and answers a commit with `commit`.
fn primary(commit: Option<Document>) -> Server {
    let script = move |command: &Document| match command.keys().next().map(String::as_str) {
        Some("hello") => Some(doc! {
            "isWritablePrimary": true, "setName": "rs", "maxWireVersion": 25, "minWireVersion": 0,
            "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
            "ok": 1.0,
        }),
        Some("insert") => Some(doc! {"n": 2, "ok": 1.0}),
        Some("commitTransaction") => commit.clone(),
        _ => Some(doc! {"ok": 1.0}),
    };
    Server::start(script).unwrap()
}

/// Sends one transaction of two documents; returns its outcome, the ledger's counts and the number of transactions in doubt.
fn transact(server: &Server) -> (Outcome, Counts, usize) {
    let section: Section = serde_json::from_str(r#"{"collection": "d.c", "document": {"a": 1}}"#).unwrap();
    let operation: Operation =
        serde_json::from_str(r#"{"transaction": {"operations": [{"insert": {"batch": 2}}]}}"#).unwrap();
    let run = Run { time_s: 1, tag: [1, 2, 3] };
    let context = Context { seed: 1, run, base: Path::new(".") };
    let setup = Setup::build(&section, &[("transfer".to_owned(), operation)], context).unwrap();
    let address = Address { host: "127.0.0.1".into(), port: server.address().port() };
    let deployment = Arc::new(Deployment::single(address, Duration::from_secs(2)));
    let ledger = WorkerLedger::new(Allocation::new(setup.block(), 1, None).unwrap(), 0, None);
    let target = Lean::new(Arc::new(setup), deployment, ledger);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reply = runtime.block_on(async {
        let mut lane = target.open().await.unwrap();
        assert_eq!(target.prepare(&mut lane, 0, 0), Prepared::Ready);
        let reply = target.send(&mut lane).await;
        assert_eq!(target.send(&mut lane).await.outcome, reply.outcome, "it is not sent again");
        reply
    });
    let mut ledger = Ledger::new(run, Allocation::new(4096, 1, None).unwrap());
    ledger.adopt(0, target.close().unwrap().ledger);
    (reply.outcome, ledger.counts(), ledger.changes().unwrap().transactions.iter().count())
}

fn check(commit: Option<Document>, outcome: Outcome, counts: Counts) {
    let server = primary(commit);
    assert_eq!(transact(&server), (outcome, counts, usize::from(counts.unknown > 0)));
    let commits =
        server.commands().iter().filter(|command| command.contains_key("commitTransaction")).count();
    assert_eq!(commits, 1, "there is no retry");
}

#[test]
fn an_acknowledged_commit_acknowledges_its_documents() {
    check(Some(doc! {"ok": 1.0}), Outcome::Acknowledged, Counts { acknowledged: 2, ..Counts::default() });
}

#[test]
fn a_commit_of_unknown_result_leaves_its_documents_unknown() {
    let unknown = Counts { unknown: 2, ..Counts::default() };
    let labelled = doc! {
        "ok": 0.0, "code": 64, "errmsg": "waiting timed out", "errorLabels": ["UnknownTransactionCommitResult"],
    };
    check(Some(labelled), Outcome::Unknown(Doubt::Interrupted), unknown);
    let unsure = doc! {"ok": 1.0, "writeConcernError": {"code": 64, "errmsg": "waiting timed out"}};
    check(Some(unsure), Outcome::Unknown(Doubt::WriteConcern), unknown);
}

#[test]
fn an_aborted_transaction_was_never_sent() {
    let gone = doc! {
        "ok": 0.0, "code": 251, "errmsg": "has been aborted", "errorLabels": ["TransientTransactionError"],
    };
    let rejected = Counts { rejected: 2, ..Counts::default() };
    check(Some(gone), Outcome::Rejected(Rejection::Other), rejected);
}

#[test]
fn every_command_of_a_transaction_names_its_session_and_its_number() {
    let server = primary(Some(doc! {"ok": 1.0}));
    transact(&server);
    let heard = server.commands();
    let of = |name: &str| heard.iter().find(|command| command.contains_key(name)).unwrap();
    let (insert, commit) = (of("insert"), of("commitTransaction"));
    assert!(insert.get_bool("startTransaction").unwrap());
    assert!(commit.get("startTransaction").is_none());
    for command in [insert, commit] {
        assert_eq!(command.get_i64("txnNumber").unwrap(), 1);
        assert!(!command.get_bool("autocommit").unwrap());
        assert_eq!(command.get("lsid"), insert.get("lsid"));
    }
    assert_eq!(commit.get_str("$db").unwrap(), "admin");
}
