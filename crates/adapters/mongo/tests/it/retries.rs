//! Tests which operations carry transaction numbers, and which are sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bson::{Document, doc};
use plimsoll_deployment::Deployment;
use plimsoll_host::scripted::Server;
use plimsoll_load::retry::Retry;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_mongo::lean::Lean;

use crate::scripts::{TIMEOUT, ledger, name, plan, run};

const OPERATIONS: [(&str, &str); 8] = [
    ("insert", r#"{"insert": {"batch": 2}}"#),
    ("update", r#"{"update": {"update": {"$inc": {"n": 1}}}}"#),
    ("replace", r#"{"replace": {}}"#),
    ("delete", r#"{"delete": {}}"#),
    ("modify", r#"{"find_and_modify": {"change": {"update": {"$inc": {"n": 1}}}}}"#),
    ("many", r#"{"update": {"filter": {}, "multi": true, "update": {"$inc": {"n": 1}}}}"#),
    ("find", r#"{"find": {}}"#),
    ("transaction", r#"{"transaction": {"operations": [{"insert": {}}]}}"#),
];

const INSERT: usize = 0;
const MODIFY: usize = 4;
const FIND: usize = 6;

/// A server's description of itself, with the fields `more`.
fn greeting(more: Document) -> Document {
    let mut hello = doc! {
        "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 25, "maxBsonObjectSize": 1 << 24,
        "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "ok": 1.0,
    };
    hello.extend(more);
    hello
}

/// A server with the fields `more` in its greeting; it accepts everything.
fn server(more: Document) -> Server {
    Server::start(move |command| match name(command) {
        "hello" => Some(greeting(more.clone())),
        "find" => Some(doc! {"cursor": {"firstBatch": [], "id": 0_i64, "ns": "d.c"}, "ok": 1.0}),
        _ => Some(doc! {"n": 2, "nModified": 1, "lastErrorObject": {"n": 1}, "ok": 1.0}),
    })
    .unwrap()
}

/// The commands of all operations but the transaction, each sent twice, and the retry of each operation.
fn sent(more: Document, options: &str, retry: &str) -> (Vec<Document>, Vec<Retry>) {
    let server = server(more);
    let setup = Arc::new(plan(retry, &OPERATIONS));
    let uri = format!("mongodb://{}/{options}", server.address());
    let retries = run(async {
        let deployment = Arc::new(Deployment::find(&uri, TIMEOUT).await.unwrap());
        let target = Lean::new(setup.clone(), deployment, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        let mut retries = Vec::new();
        for operation in 0..OPERATIONS.len() {
            assert_eq!(target.prepare(&mut lane, operation, 0), Prepared::Ready);
            retries.push(target.retry(&lane, setup.retry));
            if operation < OPERATIONS.len() - 1 {
                target.send(&mut lane).await;
                target.send(&mut lane).await;
            }
        }
        target.discard(&mut lane);
        retries
    });
    let heard = server
        .commands()
        .into_iter()
        .filter(|command| ["insert", "update", "delete", "findAndModify", "find"].contains(&name(command)));
    (heard.collect(), retries)
}

fn set() -> Document {
    doc! {"setName": "rs", "hosts": ["127.0.0.1:1", "127.0.0.1:2"], "logicalSessionTimeoutMinutes": 30}
}

fn alone() -> Document {
    doc! {"setName": "rs", "hosts": ["127.0.0.1:1"], "logicalSessionTimeoutMinutes": 30}
}

#[test]
fn writes_of_one_document_carry_a_number_that_their_retry_repeats() {
    for more in [set(), doc! {"msg": "isdbgrid", "logicalSessionTimeoutMinutes": 30}] {
        let (commands, retries) = sent(more, "", "{}");
        let pairs: Vec<&[Document]> = commands.chunks(2).collect();
        assert_eq!(pairs.len(), OPERATIONS.len() - 1, "{commands:?}");
        let mark = |command: &Document| {
            Some((command.get_document("lsid").ok()?.clone(), command.get_i64("txnNumber").ok()?))
        };
        let marks: Vec<_> = pairs.iter().map(|pair| (mark(&pair[0]), mark(&pair[1]))).collect();
        assert!(marks.iter().all(|(first, second)| first == second), "{marks:?}");
        let numbered: Vec<bool> = marks.iter().map(|(first, _)| first.is_some()).collect();
        assert_eq!(numbered, [true, true, true, true, true, false, false]);
        let driver = Retry::Driver;
        assert_eq!(retries, [driver, driver, driver, driver, driver, Retry::None, driver, Retry::None]);
    }
}

#[test]
fn without_support_or_wish_no_write_carries_a_number() {
    let standalone = doc! {"logicalSessionTimeoutMinutes": 30};
    let no_sessions = doc! {"setName": "rs", "hosts": ["127.0.0.1:1", "127.0.0.1:2"]};
    let once = r#"{"retry": "once"}"#;
    for (more, options, retry, write, read) in [
        (standalone.clone(), "", "{}", Retry::None, Retry::None),
        (standalone.clone(), "", r#"{"retry": "driver"}"#, Retry::None, Retry::Driver),
        (standalone, "", once, Retry::Once, Retry::Once),
        (no_sessions, "", "{}", Retry::None, Retry::Driver),
        (alone(), "", "{}", Retry::None, Retry::None),
        (set(), "?retryWrites=false", "{}", Retry::None, Retry::Driver),
        (set(), "?retryWrites=false&retryReads=false", "{}", Retry::None, Retry::None),
        (set(), "", r#"{"retry": "none"}"#, Retry::None, Retry::None),
    ] {
        let (commands, retries) = sent(more, options, retry);
        assert!(commands.iter().all(|command| !command.contains_key("txnNumber")), "{options} {retry}");
        assert_eq!((retries[INSERT], retries[FIND]), (write, read), "{options} {retry}");
    }
}

#[test]
fn an_explicit_retry_numbers_its_writes_whatever_the_uri_says() {
    for (more, options, retry) in [
        (set(), "?retryWrites=false", "driver"),
        (set(), "?retryWrites=false", "once"),
        (alone(), "", "driver"),
        (alone(), "?retryWrites=false&directConnection=true", "once"),
    ] {
        let (commands, _) = sent(more, options, &format!(r#"{{"retry": "{retry}"}}"#));
        let numbered = commands.iter().filter(|command| command.contains_key("txnNumber")).count();
        assert_eq!(numbered, 10, "both attempts of five writes: {options} {retry}");
    }
}

/// Whether an operation is sent again after an answer.
fn judged(operation: usize, answer: &Document) -> bool {
    let (answer, is_armed) = (answer.clone(), Arc::new(AtomicBool::new(false)));
    let armed = is_armed.clone();
    let server = Server::start(move |command| match name(command) {
        "hello" => Some(greeting(set())),
        _ if armed.load(Ordering::Relaxed) => Some(answer.clone()),
        _ => Some(doc! {"n": 2, "ok": 1.0}),
    })
    .unwrap();
    let setup = Arc::new(plan("{}", &OPERATIONS));
    run(async {
        let uri = format!("mongodb://{}/", server.address());
        let deployment = Arc::new(Deployment::find(&uri, TIMEOUT).await.unwrap());
        let target = Lean::new(setup.clone(), deployment, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        // Documents to change.
        assert_eq!(target.prepare(&mut lane, INSERT, 0), Prepared::Ready);
        assert_eq!(target.send(&mut lane).await.outcome, Outcome::Acknowledged);
        is_armed.store(true, Ordering::Relaxed);
        assert_eq!(target.prepare(&mut lane, operation, 0), Prepared::Ready);
        let outcome = target.send(&mut lane).await.outcome;
        let is_retryable = target.is_retryable(&lane, outcome);
        target.discard(&mut lane);
        target.retry(&lane, None).again(outcome, is_retryable, 0)
    })
}

#[test]
fn writes_are_sent_again_by_the_servers_label_and_reads_by_the_code() {
    let error = |code: i32, labels: &[&str]| doc! {"ok": 0.0, "code": code, "errorLabels": labels.to_vec()};
    let label = &["RetryableWriteError"][..];
    for (answer, write, read) in [
        (error(11601, &[]), false, false),
        (error(24, &[]), false, false),
        (error(50, &[]), false, false),
        (error(237, &[]), false, false),
        (error(290, &[]), false, false),
        (error(91, &[]), false, true),
        (error(11600, &[]), false, true),
        (error(10107, &[]), false, true),
        (error(262, &[]), false, true),
        (error(134, &[]), false, true),
        (error(91, label), true, true),
        (error(24, label), true, false),
        (error(91, &["RetryableWriteError", "NoWritesPerformed"]), true, true),
    ] {
        for operation in [INSERT, 1, 2, 3, MODIFY] {
            assert_eq!(judged(operation, &answer), write, "{} after {answer}", OPERATIONS[operation].0);
        }
        assert_eq!(judged(FIND, &answer), read, "a find after {answer}");
    }
    let unconfirmed = |labels: &[&str]| {
        doc! {"ok": 1.0, "n": 2, "lastErrorObject": {"n": 1}, "errorLabels": labels.to_vec(),
        "writeConcernError": {"code": 11602, "errmsg": "x"}}
    };
    for operation in [INSERT, MODIFY] {
        assert!(judged(operation, &unconfirmed(label)) && !judged(operation, &unconfirmed(&[])));
    }
}

#[test]
fn a_lost_cursor_is_not_read_again() {
    let lost = doc! {"ok": 0.0, "code": 91};
    let server = Server::start(move |command| match name(command) {
        "hello" => Some(greeting(set())),
        "getMore" => Some(lost.clone()),
        _ => Some(doc! {"cursor": {"firstBatch": [], "id": 7_i64, "ns": "d.c"}, "ok": 1.0}),
    })
    .unwrap();
    let operations =
        [("all", r#"{"find": {"filter": {}}}"#), ("count", r#"{"aggregate": {"pipeline": []}}"#)];
    let setup = Arc::new(plan("{}", &operations));
    run(async {
        let uri = format!("mongodb://{}/", server.address());
        let deployment = Arc::new(Deployment::find(&uri, TIMEOUT).await.unwrap());
        let target = Lean::new(setup.clone(), deployment, ledger(&setup));
        for operation in 0..operations.len() {
            let mut lane = target.open().await.unwrap();
            assert_eq!(target.prepare(&mut lane, operation, 0), Prepared::Ready);
            let outcome = target.send(&mut lane).await.outcome;
            assert!(matches!(outcome, Outcome::Rejected(_)) && !target.is_retryable(&lane, outcome));
        }
    });
}

/// Two attempts of an insert: the first gets `first`, the second `second`.
fn second_outcome(first: Document, second: Document) -> Outcome {
    let attempts = AtomicUsize::new(0);
    let server = Server::start(move |command| match name(command) {
        "hello" => Some(greeting(set())),
        "insert" if attempts.fetch_add(1, Ordering::Relaxed) == 0 => Some(first.clone()),
        _ => Some(second.clone()),
    })
    .unwrap();
    let setup = Arc::new(plan("{}", &OPERATIONS));
    run(async {
        let uri = format!("mongodb://{}/", server.address());
        let deployment = Arc::new(Deployment::find(&uri, TIMEOUT).await.unwrap());
        let target = Lean::new(setup.clone(), deployment, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        assert_eq!(target.prepare(&mut lane, INSERT, 0), Prepared::Ready);
        target.send(&mut lane).await;
        let reply = target.send(&mut lane).await;
        assert_eq!(reply.failed.total(), u64::from(reply.outcome != Outcome::Acknowledged) * 2);
        reply.outcome
    })
}

#[test]
fn a_retry_that_wrote_nothing_reports_the_earlier_error() {
    let labels = |labels: &[&str], code: i32| doc! {"ok": 0.0, "code": code, "errorLabels": labels.to_vec()};
    let first = labels(&["RetryableWriteError"], 91);
    let nothing = labels(&["RetryableWriteError", "NoWritesPerformed"], 10107);
    let interrupted = Outcome::Unknown(Doubt::Interrupted);
    assert_eq!(second_outcome(first.clone(), nothing), interrupted);
    let refused = Outcome::Rejected(Rejection::NotPrimary);
    assert_eq!(second_outcome(first.clone(), labels(&[], 10107)), refused);
    assert_eq!(second_outcome(first, doc! {"n": 2, "ok": 1.0}), Outcome::Acknowledged);
}
