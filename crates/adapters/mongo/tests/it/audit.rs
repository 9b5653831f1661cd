//! Tests that the audit scan waits for a majority before it trusts its reads, and looks twice at half transactions.

use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Document, doc};
use plimsoll_deployment::{MajorityError, Namespace};
use plimsoll_document::IdForm;
use plimsoll_host::scripted::Server;
use plimsoll_ledger::{
    Allocation, Changes, Findings, Ledger, OtherWriters, Run, Slot, Span, State, Touched, WorkerLedger,
};
use plimsoll_measure::clock;
use plimsoll_measure::integrity::Indexes;
use plimsoll_mongo::audit::{Error, Scope, scan};
use plimsoll_wire::{Address, ConnectOptions};

/// A member of a replica set that answers the majority wait with `waited`.
fn member(waited: Document) -> Server {
    let script = move |command: &Document| {
        let name = command.keys().next().map(String::as_str);
        match name {
            Some("hello") => Some(doc! {
                "isWritablePrimary": true, "setName": "rs", "maxWireVersion": 25, "minWireVersion": 0,
                "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
                "ok": 1.0,
            }),
            Some("update") => Some(waited.clone()),
            Some("find") => Some(doc! {"cursor": {"firstBatch": [], "id": 0_i64, "ns": "d.c"}, "ok": 1.0}),
            _ => None,
        }
    };
    Server::start(script).unwrap()
}

/// Audits one acknowledged document that the server does not return.
fn audit(server: &Server) -> Result<u64, Error> {
    let mut ledger = Ledger::new(Run { time_s: 1, tag: [0; 3] }, Allocation::new(10, 1, None).unwrap());
    let mut worker = WorkerLedger::unjournaled();
    worker.set(0..1, State::Acknowledged);
    ledger.adopt(0, worker);
    findings(server, &ledger).map(|findings| findings.lost)
}

fn findings(server: &Server, ledger: &Ledger) -> Result<Findings, Error> {
    audited(server, ledger, 100).map(|(findings, _)| findings)
}

fn audited(server: &Server, ledger: &Ledger, index_documents_max: u64) -> Result<(Findings, Indexes), Error> {
    audited_within(&[server], ledger, index_documents_max, Duration::from_secs(60))
}

fn audited_within(
    servers: &[&Server],
    ledger: &Ledger,
    index_documents_max: u64,
    index_time_max: Duration,
) -> Result<(Findings, Indexes), Error> {
    let namespace = Namespace { db: "d".into(), collection: "c".into() };
    let scope = Scope {
        namespace: &namespace,
        source: None,
        id: IdForm::ObjectId,
        counters: None,
        effects: None,
        index_documents_max,
        index_time_max,
        lag_max: Duration::from_millis(50),
        touched: &Touched::None,
        other_writers: OtherWriters::Excluded,
    };
    let options = |server: &&Server| {
        ConnectOptions::new(Address { host: "127.0.0.1".into(), port: server.address().port() })
    };
    let servers: Vec<_> = servers.iter().map(options).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let audited = runtime.block_on(scan(&servers, ledger, scope, &mut ()))?;
    Ok((audited.findings, audited.indexes))
}

#[test]
fn a_lagging_replica_set_is_not_audited() {
    let late =
        doc! {"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting for replication timed out"};
    let server = member(doc! {"n": 0, "nModified": 0, "writeConcernError": late, "ok": 1.0});
    let error = audit(&server).unwrap_err();
    assert!(matches!(error, Error::Majority(MajorityError::Behind(_))), "{error}");
    assert!(
        error.to_string().contains("did not catch up in time (waiting for replication timed out)"),
        "{error}"
    );
    assert!(!server.commands().iter().any(|command| command.contains_key("find")));
}

#[test]
fn a_replica_set_without_a_lag_is_read_at_majority() {
    let server = member(doc! {"n": 0, "nModified": 0, "ok": 1.0});
    assert_eq!(audit(&server).unwrap(), 1);
    let heard = server.commands();
    let waited = heard.iter().find(|command| command.contains_key("update")).unwrap();
    assert_eq!(waited.get_document("writeConcern").unwrap(), &doc! {"w": "majority", "wtimeout": 100_000});
    let find = heard.iter().find(|command| command.contains_key("find")).unwrap();
    assert_eq!(find.get_document("readConcern").unwrap(), &doc! {"level": "majority"});
}

/// Audits an unanswered transaction of two documents; the scan shows only the first document. `later`:
/// whether the server has the second document when it is looked up by its `_id`.
fn half_transactions(later: bool) -> u64 {
    let run = Run { time_s: 1, tag: [0; 3] };
    let stored = move |number: u64| doc! {"_id": ObjectId::from_bytes(run.receipt(number).to_object_id())};
    let server = Server::start(move |command| {
        if !command.contains_key("find") {
            return None;
        }
        let wanted = command.get_document("filter").ok().filter(|filter| !filter.is_empty());
        let present = [stored(0), stored(1)].into_iter().take(if wanted.is_some() && later { 2 } else { 1 });
        let batch: Vec<_> =
            present.filter(|document| wanted.is_none_or(|wanted| wanted == document)).collect();
        Some(doc! {"cursor": {"firstBatch": batch, "id": 0_i64, "ns": "d.c"}, "ok": 1.0})
    });
    let mut changes = Changes::default();
    changes.transactions.add(vec![Span { first: Slot { worker: 0, local: 0 }, count: 2 }]);
    let mut worker = WorkerLedger::unjournaled();
    worker.set(0..2, State::Unknown);
    let mut ledger = Ledger::new(run, Allocation::new(10, 1, None).unwrap());
    ledger.adopt(0, worker.with_changes(changes));
    let findings = findings(&server.unwrap(), &ledger).unwrap();
    assert_eq!((findings.unknown_present, findings.unknown_absent), (1, 1));
    findings.half_transactions
}

#[test]
fn a_transaction_is_half_only_if_a_second_look_does_not_find_the_rest() {
    assert_eq!((half_transactions(false), half_transactions(true)), (1, 0));
}

/// Audits two documents on a server. Its index `a_1` lacks the second document, its index `b_1` cannot be
/// scanned, and it reports that the collection is invalid.
fn check_indexes(index_documents_max: u64) -> (u64, Indexes) {
    let run = Run { time_s: 1, tag: [0; 3] };
    let stored = move |number: u64| doc! {"_id": ObjectId::from_bytes(run.receipt(number).to_object_id())};
    let batch = |documents: Vec<Document>| {
        Some(doc! {"cursor": {"firstBatch": documents, "id": 0_i64, "ns": "d.c"}, "ok": 1.0})
    };
    let index = |name: &str| doc! {"key": {name.trim_end_matches("_1"): 1}, "name": name};
    let server = Server::start(move |command| match command.keys().next().map(String::as_str) {
        Some("listIndexes") => batch(["a_1", "b_1"].map(index).to_vec()),
        Some("validate") => Some(doc! {"valid": false, "errors": ["wrong key"], "ok": 1.0}),
        Some("find") => match command.get_str("hint") {
            Ok("a_1") => batch(vec![stored(0)]),
            Ok(_) => Some(doc! {"ok": 0.0, "code": 2, "errmsg": "cannot use the hint"}),
            Err(_) => batch(vec![stored(0), stored(1)]),
        },
        _ => None,
    });
    let mut ledger = Ledger::new(run, Allocation::new(10, 1, None).unwrap());
    let mut worker = WorkerLedger::unjournaled();
    worker.set(0..2, State::Acknowledged);
    ledger.adopt(0, worker);
    let (findings, indexes) = audited(&server.unwrap(), &ledger, index_documents_max).unwrap();
    assert_eq!(findings.found, 2);
    (findings.missing_from_index, indexes)
}

#[test]
fn a_document_missing_from_an_index_is_found_and_a_failing_check_is_told() {
    let (missing, indexes) = check_indexes(2);
    assert_eq!(
        (missing, indexes.checked, indexes.errors),
        (1, vec!["a_1".to_owned()], vec!["wrong key".to_owned()])
    );
    let [skipped] = &indexes.skipped[..] else { panic!("{:?}", indexes.skipped) };
    assert!(skipped.contains("b_1") && skipped.contains("cannot use the hint"), "{skipped}");
}

#[test]
fn the_indexes_of_a_large_collection_are_left_out() {
    let (missing, indexes) = check_indexes(1);
    assert_eq!((missing, indexes.checked.len(), indexes.errors.len()), (0, 0, 0));
    assert!(indexes.skipped[0].contains("audit.index_documents_max is 1"), "{:?}", indexes.skipped);
    assert_eq!(check_indexes(0), (0, Indexes::default()));
}

/// Checks the indexes `a_1` and `b_1` of a document on two servers within a time. The first server answers a scan through `a_1` with `late`.
fn check_slow_indexes(
    limit: Duration,
    late: impl Fn() -> Option<Document> + Send + Sync + Copy + 'static,
) -> (Vec<Server>, Indexes) {
    let run = Run { time_s: 1, tag: [0; 3] };
    let stored = move || doc! {"_id": ObjectId::from_bytes(run.receipt(0).to_object_id())};
    let batch = |documents: Vec<Document>| {
        Some(doc! {"cursor": {"firstBatch": documents, "id": 0_i64, "ns": "d.c"}, "ok": 1.0})
    };
    let index = |name: &str| doc! {"key": {name.trim_end_matches("_1"): 1}, "name": name};
    let start = |is_first: bool| {
        Server::start(move |command| match command.keys().next().map(String::as_str) {
            Some("listIndexes") => batch(["a_1", "b_1"].map(index).to_vec()),
            Some("validate") => Some(doc! {"valid": true, "ok": 1.0}),
            Some("find") if is_first && command.get_str("hint").is_ok_and(|hint| hint == "a_1") => late(),
            Some("find") => batch(vec![stored()]),
            _ => None,
        })
        .unwrap()
    };
    let servers = vec![start(true), start(false)];
    let mut ledger = Ledger::new(run, Allocation::new(10, 1, None).unwrap());
    let mut worker = WorkerLedger::unjournaled();
    worker.set(0..1, State::Acknowledged);
    ledger.adopt(0, worker);
    let (_, indexes) = audited_within(&servers.iter().collect::<Vec<_>>(), &ledger, 10, limit).unwrap();
    (servers, indexes)
}

/// The limits of the scans through indexes that a server got, in milliseconds, by the name of the index.
fn limits(server: &Server) -> Vec<(String, i64)> {
    let scans = server.commands().into_iter().filter(|command| command.contains_key("hint"));
    scans.map(|scan| (scan.get_str("hint").unwrap().to_owned(), scan.get_i64("maxTimeMS").unwrap())).collect()
}

#[test]
fn a_server_gets_the_rest_of_the_time_with_each_scan_through_an_index() {
    let (servers, indexes) = check_slow_indexes(Duration::from_secs(50), || {
        Some(doc! {"ok": 0.0, "code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "too long"})
    });
    let [first, second] = [0, 1].map(|server| limits(&servers[server]));
    assert_eq!(first.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a_1", "b_1"]);
    assert_eq!(second.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b_1"]);
    let given: Vec<i64> = first.iter().chain(&second).map(|(_, limit)| *limit).collect();
    assert!(given[0] <= 50_000 && given[0] > 40_000 && given.is_sorted_by(|a, b| a >= b), "{given:?}");
    assert_eq!(indexes.checked, ["b_1"]);
    let [sentence] = &indexes.skipped[..] else { panic!("{indexes:?}") };
    let expected = "The index a_1 was not checked: a scan of 2 documents through it takes more than 0 s, and audit.index_time_max is 50s.";
    assert_eq!(sentence, expected);
}

#[test]
fn a_batch_that_takes_all_the_time_leaves_out_every_further_index_and_server_by_name() {
    // The answer comes 300 ms late, within the second that servers get to answer; then no time is left.
    let (servers, indexes) = check_slow_indexes(Duration::from_millis(200), || {
        std::thread::sleep(Duration::from_millis(500));
        Some(doc! {"ok": 0.0, "code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "too long"})
    });
    let skipped = &indexes.skipped;
    assert_eq!((indexes.checked.len(), skipped.len()), (0, 4), "{skipped:?}");
    assert!(skipped.iter().all(|sentence| sentence.contains("audit.index_time_max is 200ms")), "{skipped:?}");
    let second = format!("The indexes on 127.0.0.1:{} were", servers[1].address().port());
    for (sentence, part) in skipped.iter().zip([
        "The index a_1 was",
        "The index b_1 was",
        "The server's own validation was",
        &second,
    ]) {
        assert!(sentence.starts_with(part), "{sentence}");
    }
}

#[test]
fn a_server_that_ignores_the_time_limit_is_left_a_second_later() {
    let began = clock::now();
    let (_servers, indexes) = check_slow_indexes(Duration::from_millis(200), || {
        std::thread::sleep(Duration::from_secs(5));
        None
    });
    assert!(clock::now().since(began) < 4 * clock::SECOND_NS, "{indexes:?}");
    assert!(indexes.skipped[0].contains("takes more than 1 s"), "{indexes:?}");
}
