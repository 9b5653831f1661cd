//! Tests that the official driver's CPU time is counted as the worker thread's.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_deployment::{COMMAND_TIMEOUT, Deployment};
use plimsoll_host::{null, scripted};
use plimsoll_ledger::{Allocation, Run};
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Doubt, Outcome};
use plimsoll_mongo::driver::Driver;
use plimsoll_mongo::scenario::{Operation, Section};
use plimsoll_mongo::setup::{Context, Setup};
use plimsoll_mongo::worker_ledger::WorkerLedger;
use plimsoll_wire::Address;

/// The number of operations of each kind.
const TIMES: u64 = 20;

fn setup() -> Setup {
    let section: Section = serde_json::from_str(
        r#"{"collection": "d.c", "document": {"a": 1, "text": {"$text": {"bytes": 100}}}, "client": "driver"}"#,
    )
    .unwrap();
    let operations = [
        ("insert", r#"{"insert": {"batch": 1000}}"#),
        ("find", r#"{"find": {}}"#),
        ("update", r#"{"update": {"update": {"$inc": {"a": 1}}}}"#),
    ];
    let operations = operations.map(|(name, typed)| {
        let operation: Operation = serde_json::from_str(typed).unwrap();
        (name.to_owned(), operation)
    });
    let context = Context { seed: 1, run: Run { time_s: 1, tag: [1, 2, 3] }, base: Path::new(".") };
    Setup::build(&section, &operations, context).unwrap()
}

#[test]
fn the_driver_works_only_on_the_workers_thread() {
    let server = null::Server::start(null::Options::default()).unwrap();
    let setup = Arc::new(setup());
    let address = Address { host: "127.0.0.1".into(), port: server.address().port() };
    let deployment = Arc::new(Deployment::single(address, Duration::from_secs(20)));
    let mut ledger = WorkerLedger::new(Allocation::new(setup.block(), 1, None).unwrap(), 0, None);
    ledger.pretend(1000);
    let target = Driver::new(setup.clone(), deployment, ledger);
    let threads = Arc::new(AtomicUsize::new(0));
    let started = threads.clone();
    // The runtime of a worker, which reports every thread that it starts for blocking work. The driver itself starts none.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(move || {
            started.fetch_add(1, Ordering::Relaxed);
        })
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut lane = target.open().await.unwrap();
        for number in 0..TIMES {
            for operation in 0..setup.commands.len() {
                assert_eq!(target.prepare(&mut lane, operation, number), Prepared::Ready);
                target.send(&mut lane).await;
            }
        }
    });
    assert_eq!(server.acknowledged(), TIMES * 1001, "inserts and updates were sent");
    assert_eq!(threads.load(Ordering::Relaxed), 0, "the driver starts no threads");
    let blocking = runtime.spawn_blocking(|| ());
    runtime.block_on(blocking).unwrap();
    assert_eq!(threads.load(Ordering::Relaxed), 1, "a started thread is counted");
}

#[test]
fn the_time_limit_of_a_uri_bounds_operations() {
    // The server answers an insert when the test ends.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    let server = scripted::Server::start(move |command| {
        if command.contains_key("insert") {
            let _ = ended.lock().unwrap().recv();
        }
        None
    })
    .unwrap();
    let setup = Arc::new(setup());
    assert_eq!(setup.timeout, COMMAND_TIMEOUT, "the scenario sets no other limit");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let uri = format!("mongodb://{}/?directConnection=true&timeoutMS=2000", server.address());
        let deployment = Arc::new(Deployment::new(&uri, COMMAND_TIMEOUT).await.unwrap());
        let ledger = WorkerLedger::new(Allocation::new(setup.block(), 1, None).unwrap(), 0, None);
        let target = Driver::new(setup.clone(), deployment, ledger);
        let mut lane = target.open().await.unwrap();
        assert_eq!(target.prepare(&mut lane, 0, 0), Prepared::Ready);
        let sent = tokio::time::timeout(Duration::from_secs(8), target.send(&mut lane)).await;
        let reply = sent.expect("the limit of the URI ends the operation before that of the scenario");
        let errors = target.first_errors();
        assert!(errors[0].error.message.contains("no answer within 2s"), "{errors:?}");
        reply.outcome
    });
    drop(end);
    assert_eq!(outcome, Outcome::Unknown(Doubt::Timeout));
}
