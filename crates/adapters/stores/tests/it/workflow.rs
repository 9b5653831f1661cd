//! Tests the promises of the workflow engine's store.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use plimsoll_host::proxy::{Direction, Disturbance, Proxy};
use plimsoll_measure::clock;
use plimsoll_stores::workflow::Mongo;
use plimsoll_workflow::contract;
use plimsoll_workflow::definition::Version;
use plimsoll_workflow::instance::{DeadLetter, DeadReason, Signal, Status};
use plimsoll_workflow::port::{
    Clock, Commit, Committed, Find, Inserted, LeaseRequest, Record, Redrive, SignalKey, Store, StoreError,
    partition_of,
};
use plimsoll_workflow::worker::Settings;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::bench::{LIMIT, ask, shared, standalone, start, uri};

/// More partitions than one query covers.
const PARTITIONS: u16 = 230;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn the_store_keeps_every_promise() {
    let (server, next) = (shared(), AtomicU32::new(0));
    let empty = || async {
        let db = format!("workflow_{}", next.fetch_add(1, Ordering::Relaxed));
        Mongo::open(&uri(&server), &db, 4, PARTITIONS).await.unwrap()
    };
    runtime().block_on(async {
        contract::check(empty).await.unwrap();
        contract::check_concurrency(&empty().await).await.unwrap();
        let store = empty().await;
        contract::fill(&store, 600).await.unwrap();
        contract::steady(&store).await.unwrap();
        let pass = || tokio::time::sleep(Duration::from_millis(120));
        let store = Mongo::open(&uri(&server), "workflow_expiry", 2, 8).await.unwrap();
        contract::check_expiry(&store, 100, pass).await.unwrap();
    });
}

#[test]
fn documents_of_a_later_version_hide_no_others() {
    let server = shared();
    runtime().block_on(async {
        let store = Mongo::open(&uri(&server), "workflow_damage", 2, PARTITIONS).await.unwrap();
        let body = || doc! {"$set": {"b": Binary { subtype: BinarySubtype::Generic, bytes: b"{".to_vec() }}};
        let damage = || async {
            update("workflow_damage", "instances", doc! {"_id": "b"}, doc! {"$set": {"s": "later"}}).await;
            update("workflow_damage", "signals", doc! {"_id.i": "b"}, body()).await;
            update("workflow_damage", "dead", doc! {"_id.i": "a"}, doc! {"$set": {"why": "later"}}).await;
            update("workflow_damage", "tasks", doc! {"_id": "b/2"}, body()).await;
            update("workflow_damage", "definitions", doc! {"_id.n": "b"}, body()).await;
        };
        contract::check_damage(&store, damage).await.unwrap();
    });
}

#[test]
fn a_damaged_document_shortens_no_page_and_is_shown_with_its_reason() {
    let server = shared();
    runtime().block_on(async {
        let store = Mongo::open(&uri(&server), "workflow_page", 2, PARTITIONS).await.unwrap();
        let record = |id: &str| Record {
            id: id.into(),
            partition: partition_of(id, PARTITIONS),
            version: 1,
            epoch: 0,
            status: Status::Running,
            due_ms: None,
            definition: Version { name: "page".into(), hash: "h".into() },
            key: None,
            note: None,
            body: vec![1],
            changed_ms: 5,
        };
        store.start(&["pa", "pb", "pc"].map(record)).await.unwrap();
        update(
            "workflow_page",
            "instances",
            doc! {"_id": "pb"},
            doc! {"$unset": {"v": "", "b": "", "h": ""}},
        )
        .await;
        let page = Find { definition: Some("page".into()), limit: 2, ..Find::default() };
        for rows in [store.find(&page).await.unwrap(), store.list(&page).await.unwrap()] {
            let ids: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
            assert_eq!(ids, ["pa", "pb"]);
            assert_eq!(rows[1].status, Status::Quarantined);
            assert!(rows[1].note.as_ref().unwrap().contains("damaged"), "{rows:?}");
        }
    });
}

#[test]
fn a_store_that_is_missing_is_not_created_by_readers() {
    let server = shared();
    runtime().block_on(async {
        for _ in 0..2 {
            let error = Mongo::open_existing(&uri(&server), "workflow_missing", 2).await.unwrap_err();
            assert!(error.to_string().contains("no workflow store here"), "{error}");
        }
        let made = Mongo::open(&uri(&server), "workflow_made", 2, 7).await.unwrap();
        let read = Mongo::open_existing(&uri(&server), "workflow_made", 2).await.unwrap();
        assert_eq!((made.partitions(), read.partitions()), (7, 7));
    });
}

/// Changes one document behind the store's back.
async fn update(db: &'static str, collection: &'static str, filter: Document, change: Document) {
    let server = shared();
    let command = doc! {"update": collection, "updates": [{"q": filter, "u": change}], "writeConcern": {"w": "majority"}};
    let ask = move || ask(&server, db, command);
    let reply = tokio::task::spawn_blocking(ask).await.unwrap();
    assert_eq!(reply.get_i32("nModified").unwrap(), 1, "{collection}: {reply}");
}

#[test]
fn a_store_in_transactions_keeps_every_promise() {
    let (server, next) = (shared(), AtomicU32::new(0));
    let empty = || async {
        let db = format!("workflow_transactions_{}", next.fetch_add(1, Ordering::Relaxed));
        Mongo::open_in_transactions(&uri(&server), &db, 2, PARTITIONS).await.unwrap()
    };
    runtime().block_on(async { contract::check(empty).await.unwrap() });
}

#[test]
fn a_store_without_transactions_keeps_every_promise() {
    let (server, next) = (shared(), AtomicU32::new(0));
    let empty = || async {
        let db = format!("workflow_plain_{}", next.fetch_add(1, Ordering::Relaxed));
        Mongo::open(&uri(&server), &db, 2, PARTITIONS).await.unwrap().without_transactions()
    };
    runtime().block_on(async { contract::check(empty).await.unwrap() });
}

#[test]
fn a_refused_write_keeps_the_code_of_the_server() {
    let server = shared();
    runtime().block_on(async {
        let store = Mongo::open(&uri(&server), "workflow_refused", 2, PARTITIONS).await.unwrap();
        let change = doc! {"collMod": "instances", "validator": {"never": {"$exists": true}}};
        let ask = move || ask(&server, "workflow_refused", change);
        tokio::task::spawn_blocking(ask).await.unwrap();
        let error = store.start(&[record("one", vec![1])]).await.unwrap_err();
        assert!(matches!(&error, StoreError::Refused(reason) if reason.code == 121), "{error:?}");
    });
}

#[test]
fn a_document_that_is_too_large_is_refused_and_a_batch_of_large_ones_is_not() {
    let server = shared();
    runtime().block_on(async {
        let store = Mongo::open(&uri(&server), "workflow_large", 2, PARTITIONS).await.unwrap();
        let refused = store.start(&[record("small", vec![1]), record("huge", vec![1; 17 << 20])]).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
        let large: Vec<_> =
            (0..7).map(|number| record(&format!("large{number}"), vec![1; 8 << 20])).collect();
        assert_eq!(store.start(&large).await, Ok(vec![Inserted::New; 7]));
    });
}

fn record(id: &str, body: Vec<u8>) -> Record {
    Record {
        id: id.into(),
        partition: partition_of(id, PARTITIONS),
        version: 1,
        epoch: 0,
        status: Status::Running,
        due_ms: None,
        definition: Version { name: "d".into(), hash: "h".into() },
        key: None,
        note: None,
        body,
        changed_ms: 1,
    }
}

#[test]
fn a_store_works_again_after_the_server_was_killed_and_keeps_its_number_of_partitions() {
    let mut server = start();
    let uri = uri(&server);
    runtime().block_on(async {
        let store = Mongo::open(&uri, "workflow", 1, PARTITIONS).await.unwrap();
        let one = Find { limit: 1, ..Find::default() };
        let find = || store.find(&one);
        assert!(find().await.unwrap().is_empty());
        server.kill().unwrap();
        let dead = find().await;
        assert!(matches!(dead, Err(StoreError::Unavailable(_))), "{dead:?}");
        server.restart().unwrap();
        assert!(find().await.unwrap().is_empty());
        assert_eq!(Mongo::open(&uri, "workflow", 1, 64).await.unwrap().partitions(), PARTITIONS);
    });
}

/// A signal, and its dead letter.
fn letter(id: &str) -> (Signal, DeadLetter) {
    let signal = Signal::named("r", id, "go", serde_json::Value::Null, 1);
    (signal.clone(), DeadLetter { signal, reason: DeadReason::Ended, buried_ms: 9 })
}

fn redrive(id: &str) -> Redrive {
    Redrive { key: SignalKey { instance: "r".into(), id: id.into() }, by: "ann".into(), at_ms: 11 }
}

#[test]
fn a_letter_that_is_buried_again_during_its_redrive_is_not_lost() {
    let server = shared();
    runtime().block_on(async {
        let store = Mongo::open(&uri(&server), "workflow_reburied", 4, PARTITIONS).await.unwrap();
        for round in 0..40 {
            let id = format!("s{round:02}");
            let (signal, letter) = letter(&id);
            store.bury(std::slice::from_ref(&letter)).await.unwrap();
            let bury_again = async {
                while !store.signals(None, 100).await.unwrap().contains(&signal) {}
                store.bury(std::slice::from_ref(&letter)).await.unwrap();
            };
            let redrives = [redrive(&id)];
            let (redriven, ()) = tokio::join!(store.redrive(&redrives), bury_again);
            assert_eq!(redriven, Ok(1));
            let letters = store.dead(None, 100).await.unwrap();
            assert!(letters.contains(&letter), "round {round}: neither signal nor letter is left");
        }
    });
}

#[test]
fn an_unusable_uri_is_refused() {
    runtime().block_on(async {
        let refused = Mongo::open("nonsense://", "workflow", 1, 1).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    });
}

/// A record that only its test changes.
fn at_version(id: &str, version: u64) -> Record {
    Record { version, epoch: 1, ..record(id, b"{}".to_vec()) }
}

fn changes(version: u64) -> Vec<Commit> {
    ["a", "b"].map(|id| Commit { consumed: vec!["1".into()], ..Commit::of(at_version(id, version)) }).to_vec()
}

fn lease(owner: &str, ttl_ms: u64) -> LeaseRequest {
    LeaseRequest { owner: owner.into(), ttl_ms, want: PARTITIONS.into(), release: Vec::new() }
}

#[test]
fn a_connection_that_is_lost_in_a_transaction_leaves_no_lock() {
    let server = shared();
    let proxy = Proxy::start(server.address().to_string().parse().unwrap(), 1).unwrap();
    let slow = format!("mongodb://{}/?directConnection=true", proxy.address());
    runtime().block_on(async {
        let store = Mongo::open(&slow, "workflow_cut", 1, PARTITIONS).await.unwrap();
        store.start(&[at_version("a", 1), at_version("b", 1)]).await.unwrap();
        let signals = ["a", "b"].map(|id| Signal::named(id, "1", "go", serde_json::Value::Null, 1));
        store.publish(&signals).await.unwrap();
        // The server changes the instances, and its answer never comes.
        let cut = proxy.begin(Disturbance::HalfOpen { direction: Direction::ToClient }).unwrap();
        let (first, second) = (changes(2), changes(2));
        let mut commit = pin!(store.commit(&first));
        timeout(Duration::from_secs(1), &mut commit).await.unwrap_err();
        proxy.end(cut);
        let lost = commit.await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        let other = Mongo::open(&uri(&server), "workflow_cut", 2, PARTITIONS).await.unwrap();
        let again = timeout(Duration::from_secs(2), other.commit(&second)).await.unwrap();
        assert_eq!(again, Ok(vec![Committed::Won; 2]));
    });
}

#[test]
fn the_next_owner_ends_the_transaction_that_a_dead_owner_left_open() {
    let server = shared();
    let proxy = Proxy::start(server.address().to_string().parse().unwrap(), 1).unwrap();
    let slow = format!("mongodb://{}/?directConnection=true", proxy.address());
    runtime().block_on(async {
        let dead = Mongo::open(&slow, "workflow_dead", 1, PARTITIONS).await.unwrap();
        dead.start(&[at_version("a", 1), at_version("b", 1)]).await.unwrap();
        let signals = ["a", "b"].map(|id| Signal::named(id, "1", "go", serde_json::Value::Null, 1));
        dead.publish(&signals).await.unwrap();
        let held = dead.lease(&lease("dead", 1)).await.unwrap().held;
        assert_eq!(held.len(), usize::from(PARTITIONS));
        // The server changes the instances, and its answer never arrives: the transaction stays open.
        let _cut = proxy.begin(Disturbance::HalfOpen { direction: Direction::ToClient }).unwrap();
        timeout(Duration::from_secs(1), dead.commit(&changes(2))).await.unwrap_err();
        drop(dead);

        let next = Mongo::open(&uri(&server), "workflow_dead", 2, PARTITIONS).await.unwrap();
        let find = next.load(&["a".into()]).await.unwrap();
        assert_eq!(find[0].as_ref().unwrap().version, 1, "nothing of the open transaction is seen");
        assert_eq!(next.lease(&lease("next", 60_000)).await.unwrap().held.len(), usize::from(PARTITIONS));
        let began = clock::now();
        let results = next.commit(&changes(2)).await.unwrap();
        assert_eq!(results, [Committed::Won; 2]);
        assert!(clock::now().since(began) < 20 * clock::SECOND_NS, "the server alone ends it after 60 s");
    });
}

struct Now;

impl Clock for Now {
    fn now_ms(&self) -> u64 {
        clock::wall_ms()
    }

    async fn until(&self, at_ms: u64) {
        tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(self.now_ms()))).await;
    }
}

/// The time from the start of an instance in one process to its end in another process that scans every `poll_ms`, in milliseconds.
async fn latency_ms(uri: &str, db: &str, poll_ms: u64) -> u64 {
    let open = || async { Mongo::open(uri, db, 2, PARTITIONS).await.unwrap() };
    let settings = Settings { poll_max_ms: poll_ms, poll_min_ms: poll_ms, ..Settings::new(db) };
    contract::news_ms(open().await, open().await, settings, Now).await.unwrap()
}

#[test]
fn starts_and_signals_of_another_process_wake_a_worker_without_its_poll() {
    let server = shared();
    runtime().block_on(async {
        let passed_ms = latency_ms(&uri(&server), "workflow_news", 20_000).await;
        assert!(passed_ms < 10_000, "{passed_ms}");
    });
}

#[test]
fn a_server_without_change_streams_brings_no_news_and_its_workers_poll() {
    let server = standalone();
    runtime().block_on(async {
        let store = Mongo::open(&uri(&server), "workflow_deaf", 2, PARTITIONS).await.unwrap();
        timeout(Duration::from_secs(2), store.news()).await.unwrap_err();
        assert!(!store.is_listening());
        let passed_ms = latency_ms(&uri(&server), "workflow_polled", 500).await;
        assert!(passed_ms < 60_000, "{passed_ms}");
    });
}

/// The partitions of the next news, within the limit of a test.
async fn news(store: &Mongo) -> Vec<u16> {
    timeout(LIMIT, store.news()).await.unwrap()
}

async fn publish(store: &Mongo, instance: &str) -> u16 {
    let signal = Signal::named(instance, "1", "go", serde_json::Value::Null, 1);
    assert_eq!(store.publish(&[signal]).await, Ok(vec![Inserted::New]));
    partition_of(instance, PARTITIONS)
}

#[test]
fn a_stream_that_is_cut_continues_with_the_news_of_the_meantime() {
    let server = shared();
    let proxy = Proxy::start(server.address().to_string().parse().unwrap(), 1).unwrap();
    let behind = format!("mongodb://{}/?directConnection=true", proxy.address());
    runtime().block_on(async {
        let ours = Mongo::open(&uri(&server), "workflow_stream", 2, PARTITIONS).await.unwrap();
        let theirs = Mongo::open(&behind, "workflow_stream", 2, PARTITIONS).await.unwrap();
        let all: Vec<_> = (0..PARTITIONS).collect();
        assert_eq!(news(&theirs).await, all, "nothing is known of the time before a stream");
        assert!(theirs.is_listening());
        // The inserts of the listening process are no news to it.
        publish(&theirs, "mine").await;
        let first = publish(&ours, "first").await;
        assert_eq!(news(&theirs).await, [first]);
        let cut = proxy.begin(Disturbance::Reset).unwrap();
        let mut waiting = pin!(news(&theirs));
        timeout(Duration::from_millis(100), &mut waiting).await.unwrap_err();
        let second = publish(&ours, "second").await;
        assert_eq!(ours.start(&[record("third", vec![1])]).await, Ok(vec![Inserted::New]));
        let mut expected = [second, partition_of("third", PARTITIONS)];
        expected.sort_unstable();
        proxy.end(cut);
        assert_eq!(waiting.await, expected, "the stream resumes where it was cut");
    });
}

#[test]
fn a_stream_that_the_server_ends_begins_anew() {
    let server = shared();
    runtime().block_on(async {
        let (ours, theirs) = (
            Mongo::open(&uri(&server), "workflow_dropped", 2, PARTITIONS).await.unwrap(),
            Mongo::open(&uri(&server), "workflow_dropped", 2, PARTITIONS).await.unwrap(),
        );
        news(&theirs).await;
        let drop = || ask(&shared(), "workflow_dropped", doc! {"dropDatabase": 1});
        let mut waiting = pin!(news(&theirs));
        timeout(Duration::from_millis(100), &mut waiting).await.unwrap_err();
        tokio::task::spawn_blocking(drop).await.unwrap();
        let all: Vec<_> = (0..PARTITIONS).collect();
        assert_eq!(waiting.await, all);
        let partition = publish(&ours, "new").await;
        assert_eq!(news(&theirs).await, [partition]);
    });
}

#[test]
fn many_inserts_are_few_news() {
    let server = shared();
    runtime().block_on(async {
        let (ours, theirs) = (
            Mongo::open(&uri(&server), "workflow_many", 2, PARTITIONS).await.unwrap(),
            Mongo::open(&uri(&server), "workflow_many", 2, PARTITIONS).await.unwrap(),
        );
        news(&theirs).await;
        let signal = |id: u32| Signal::named(format!("i{id}"), "1", "go", serde_json::Value::Null, 1);
        ours.publish(&(0..5_000).map(signal).collect::<Vec<_>>()).await.unwrap();
        let mut heard = std::collections::BTreeSet::new();
        let mut replies = 0;
        while heard.len() < usize::from(PARTITIONS) {
            heard.extend(news(&theirs).await);
            replies += 1;
        }
        assert!(replies <= 20, "{replies} replies");
    });
}
