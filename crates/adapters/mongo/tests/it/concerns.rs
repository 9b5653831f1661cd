//! Tests that each operation sends its own concerns, over both clients.

use std::sync::Arc;

use bson::{Document, doc};
use plimsoll_host::scripted::Server;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::Outcome;
use plimsoll_mongo::driver::Driver;
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::setup::Setup;

use crate::scripts::{deployment, ledger, name, plan, run, taken};

/// The operations, and the write concern that each must send.
const OPERATIONS: [(&str, &str); 5] = [
    ("own", r#"{"insert": {"write_concern": {"w": "majority", "j": true}}}"#),
    ("default", r#"{"insert": {}}"#),
    ("change", r#"{"update": {"filter": {}, "update": {"$set": {"b": 1}}, "write_concern": {"w": 2}}}"#),
    ("swap", r#"{"find_and_modify": {"filter": {}, "change": "remove", "write_concern": {"w": 3}}}"#),
    (
        "transfer",
        r#"{"transaction": {"operations": [{"insert": {}}], "write_concern": {"w": 4}, "read_concern": "snapshot"}}"#,
    ),
];

/// A primary that takes every command.
fn primary() -> Server {
    let script = |command: &Document| match name(command) {
        "hello" | "isMaster" | "ismaster" => Some(doc! {
            "helloOk": true, "isWritablePrimary": true, "ismaster": true, "setName": "rs", "hosts": ["h:1"],
            "minWireVersion": 0, "maxWireVersion": 25, "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "logicalSessionTimeoutMinutes": 30,
            "ok": 1.0,
        }),
        "insert" => Some(taken(command)),
        _ => Some(doc! {"n": 1, "nModified": 1, "value": {}, "ok": 1.0}),
    };
    Server::start(script).unwrap()
}

fn setup() -> Arc<Setup> {
    Arc::new(plan(r#"{"write_concern": {"w": 1}}"#, &OPERATIONS))
}

async fn send_all<T: Target>(target: &T) {
    let mut lane = target.open().await.unwrap();
    for (operation, (name, _)) in OPERATIONS.iter().enumerate() {
        assert_eq!(target.prepare(&mut lane, operation, operation as u64), Prepared::Ready);
        assert_eq!(target.send(&mut lane).await.outcome, Outcome::Acknowledged, "{name}");
    }
}

fn check(heard: &[Document]) {
    let concerns = |command: &str| {
        let of = |it: &&Document| name(it) == command;
        let concern = |it: &Document| it.get_document("writeConcern").ok().cloned();
        heard.iter().filter(of).map(concern).collect::<Vec<_>>()
    };
    // The last insert is part of the transaction, whose commit has the concern.
    assert_eq!(concerns("insert"), [Some(doc! {"w": "majority", "j": true}), Some(doc! {"w": 1}), None]);
    assert_eq!(concerns("update"), [Some(doc! {"w": 2})]);
    assert_eq!(concerns("findAndModify"), [Some(doc! {"w": 3})]);
    assert_eq!(concerns("commitTransaction"), [Some(doc! {"w": 4})]);
    let started = heard.iter().find(|command| command.contains_key("startTransaction")).unwrap();
    assert_eq!(started.get_document("readConcern").unwrap().get_str("level").unwrap(), "snapshot");
}

#[test]
fn the_lean_client_sends_the_concerns_of_each_operation() {
    let server = primary();
    let setup = setup();
    let target = Lean::new(setup.clone(), deployment(server.address().port()), ledger(&setup));
    run(send_all(&target));
    check(&server.commands());
}

#[test]
fn the_driver_sends_the_concerns_of_each_operation() {
    let server = primary();
    let setup = setup();
    let target = Driver::new(setup.clone(), deployment(server.address().port()), ledger(&setup));
    run(send_all(&target));
    check(&server.commands());
}
