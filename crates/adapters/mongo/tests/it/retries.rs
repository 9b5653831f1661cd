//! Tests which operations carry transaction numbers, and which are sent again.

use std::sync::Arc;

use bson::{Document, doc};
use plimsoll_deployment::Deployment;
use plimsoll_host::scripted::Server;
use plimsoll_load::retry::Retry;
use plimsoll_load::target::{Prepared, Target};
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

/// A server with the fields `more` in its greeting; it accepts everything.
fn server(more: Document) -> Server {
    Server::start(move |command| match name(command) {
        "hello" => {
            let mut hello = doc! {
                "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 25, "maxBsonObjectSize": 1 << 24,
                "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "ok": 1.0,
            };
            hello.extend(more.clone());
            Some(hello)
        }
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
        let site = Arc::new(Deployment::find(&uri, TIMEOUT).await.unwrap());
        let target = Lean::new(setup.clone(), site, ledger(&setup));
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
    let no_sessions = doc! {"setName": "rs", "hosts": ["127.0.0.1:1", "127.0.0.1:2"]};
    let alone = doc! {"setName": "rs", "hosts": ["127.0.0.1:1"], "logicalSessionTimeoutMinutes": 30};
    for (more, options, retry) in [
        (doc! {"logicalSessionTimeoutMinutes": 30}, "", "{}"),
        (no_sessions, "", "{}"),
        (alone, "", "{}"),
        (set(), "?retryWrites=false", "{}"),
        (set(), "", r#"{"retry": "none"}"#),
    ] {
        let (commands, retries) = sent(more, options, retry);
        assert!(commands.iter().all(|command| !command.contains_key("txnNumber")), "{options} {retry}");
        assert_eq!(retries, [Retry::None; OPERATIONS.len()], "{options} {retry}");
    }
}
