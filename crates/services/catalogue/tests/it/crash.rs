//! Tests crashes: of the service between two writes, and of the server during them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::Client;
use plimsoll_catalogue::documents::block;
use plimsoll_catalogue::storage::{Store, Transactions};
use plimsoll_host::Profile;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::samples::{add, any, at, catalogue, counts, create, without_transactions};
use crate::server;

/// The states that a crash leaves where the server has no transactions: after the head is stored, after the counts are added, and after
/// the mark `uncounted` of the head is removed.
#[tokio::test]
async fn a_crash_between_two_steps_is_repaired_once() {
    let database = server::database(server::shared(), "crashed").await;
    Store::open(&database).await.unwrap();
    let store = Store::of(&database, Transactions::Missing);
    let (blocks, datasets) =
        (database.collection::<Document>("OrigDatablock"), database.collection::<Document>("Dataset"));
    for steps in 0..3 {
        let pid = format!("p{steps}");
        let dataset = create(&store, &pid, 1).await;
        let id = format!("b{steps}");
        let uncounted =
            doc! {"_id": &id, "datasetId": &pid, "size": 15_i64, "fileCount": 5_i64, "uncounted": true};
        blocks.insert_one(uncounted).await.unwrap();
        if steps >= 1 {
            let more =
                doc! {"$inc": {"size": 15_i64, "numberOfFiles": 5_i64}, "$push": {"uncountedBlocks": &id}};
            datasets.update_one(doc! {"_id": &pid}, more).await.unwrap();
        }
        if steps >= 2 {
            blocks.update_one(doc! {"_id": &id}, doc! {"$unset": {"uncounted": ""}}).await.unwrap();
        }
        for _ in 0..2 {
            store.repair(at(0)).await.unwrap();
            assert_eq!(counts(&store, &pid).await, (15, 5), "after {steps} steps");
        }
        assert!(store.verify(&pid).await.unwrap().is_right());
        add(&store, &dataset, &format!("c{steps}"), 1).await.unwrap();
        assert_eq!(counts(&store, &pid).await, (18, 6));
    }
}

/// A verification before or after the counts are added does not count the block twice.
#[tokio::test]
async fn a_verification_between_two_steps_keeps_the_size_right() {
    let database = server::database(server::shared(), "verified_between").await;
    Store::open(&database).await.unwrap();
    let store = Store::of(&database, Transactions::Missing);
    let (blocks, datasets) =
        (database.collection::<Document>("OrigDatablock"), database.collection::<Document>("Dataset"));
    for steps in 0..2 {
        let (pid, id) = (format!("p{steps}"), format!("b{steps}"));
        create(&store, &pid, 1).await;
        let uncounted =
            doc! {"_id": &id, "datasetId": &pid, "size": 15_i64, "fileCount": 5_i64, "uncounted": true};
        blocks.insert_one(uncounted).await.unwrap();
        if steps >= 1 {
            let more =
                doc! {"$inc": {"size": 15_i64, "numberOfFiles": 5_i64}, "$push": {"uncountedBlocks": &id}};
            datasets.update_one(doc! {"_id": &pid}, more).await.unwrap();
        }
        store.verify(&pid).await.unwrap();
        store.repair(at(0)).await.unwrap();
        assert_eq!(counts(&store, &pid).await, (15, 5), "after {steps} steps");
    }
}

/// A store without transactions whose command of this number, from 0 on, is cut off: the server gets it, and `cut` resolves before its
/// answer.
async fn with_cut_at(name: &str, number: usize) -> (Store, Arc<Notify>) {
    let cut = Arc::new(Notify::new());
    let (seen, commands) = (cut.clone(), AtomicUsize::new(0));
    let database = server::watched(name, move |started| {
        let is_write = ["update", "delete"].contains(&started.command_name.as_str());
        if is_write && commands.fetch_add(1, Ordering::Relaxed) == number {
            seen.notify_one();
        }
    });
    (Store::of(&database.await, Transactions::Missing), cut)
}

/// A removal whose service dies after any of its steps is finished by a repair, which may be repeated.
#[tokio::test]
async fn a_removal_of_a_block_that_is_cut_off_between_two_steps_is_finished_once() {
    const MINUTE_MS: i64 = 60_000;
    for (number, step) in ["mark", "subtract", "remove"].into_iter().enumerate() {
        let name = format!("cut_off_{step}");
        let store = without_transactions(&name).await;
        let dataset = create(&store, "a", 1).await;
        add(&store, &dataset, "1", 5).await.unwrap();
        add(&store, &dataset, "2", 2).await.unwrap();
        let blocks = server::database(server::shared(), &name).await.collection::<Document>("OrigDatablock");
        let head = blocks.find_one(doc! {"_id": "1"}).await.unwrap().unwrap();
        // Its addition was cut off before the dataset forgot it.
        let datasets = server::database(server::shared(), &name).await.collection::<Document>("Dataset");
        let remembered = doc! {"$push": {"uncountedBlocks": "1"}};
        datasets.update_one(doc! {"_id": "a"}, remembered).await.unwrap();
        let (dying, cut) = with_cut_at(&name, number).await;
        tokio::select! {
            biased;
            () = cut.notified() => (),
            result = dying.delete_block(&head, at(0)) => panic!("{step}: {result:?}"),
        }
        let stored = async {
            loop {
                let left = blocks.find_one(doc! {"_id": "1"}).await.unwrap();
                let is_marked = left.as_ref().is_some_and(|it| it.contains_key("removed"));
                let done = match step {
                    "mark" => is_marked,
                    "subtract" => counts(&store, "a").await == (6, 2),
                    _ => left.is_none(),
                };
                if done {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), stored).await.unwrap();
        assert!(store.verify("a").await.unwrap().is_right(), "after {step}");
        for _ in 0..2 {
            store.repair(at(MINUTE_MS + 1)).await.unwrap();
            assert_eq!(counts(&store, "a").await, (6, 2), "after {step}");
            assert_eq!(store.count_blocks("a").await.unwrap(), 1, "after {step}");
        }
        assert!(store.verify("a").await.unwrap().is_right(), "after {step}");
    }
}

/// A change of a block whose service dies after any of its steps is finished by a repair, which may be repeated.
#[tokio::test]
async fn a_change_of_a_block_that_is_cut_off_between_two_steps_is_counted_once() {
    const MINUTE_MS: i64 = 60_000;
    for (number, step) in ["change", "count", "unmark"].into_iter().enumerate() {
        let name = format!("cut_off_change_{step}");
        let store = without_transactions(&name).await;
        let dataset = create(&store, "a", 1).await;
        add(&store, &dataset, "1", 5).await.unwrap();
        add(&store, &dataset, "2", 2).await.unwrap();
        let blocks = server::database(server::shared(), &name).await.collection::<Document>("OrigDatablock");
        let read = || async { blocks.find_one(doc! {"_id": "1"}).await.unwrap().unwrap() };
        let (head, (dying, cut)) = (read().await, with_cut_at(&name, number).await);
        tokio::select! {
            biased;
            () = cut.notified() => (),
            result = dying.update_block(&head, smaller(), "ann", at(0)) => panic!("{step}: {result:?}"),
        }
        let stored = async {
            loop {
                let block = read().await;
                let done = match step {
                    "change" => block.get_i64("size").unwrap() == 4,
                    "count" => counts(&store, "a").await == (10, 3),
                    _ => !block.contains_key("uncounted"),
                };
                if done {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), stored).await.unwrap();
        assert!(store.verify("a").await.unwrap().is_right(), "after {step}");
        for _ in 0..2 {
            store.repair(at(MINUTE_MS + 1)).await.unwrap();
            assert_eq!(counts(&store, "a").await, (10, 3), "after {step}");
        }
        assert!(store.verify("a").await.unwrap().is_right(), "after {step}");
        assert!(!block::show_head(&read().await).to_string().contains("changed"), "after {step}");
        // The next change counts as well.
        let patch = block::patch(&json!({"size": 1}), "a").unwrap();
        store.update_block(&read().await, patch, "ann", at(2 * MINUTE_MS)).await.unwrap();
        assert_eq!(counts(&store, "a").await, (7, 3), "after {step}");
        assert!(store.verify("a").await.unwrap().is_right(), "after {step}");
    }
}

/// A patch to one file of four bytes.
fn smaller() -> block::Patch {
    let file = json!({"path": "new", "size": 4, "time": "2026-01-01T12:00:00Z"});
    block::patch(&json!({"size": 4, "dataFileList": [file]}), "a").unwrap()
}

/// A block in the middle of its steps belongs to the instance that publishes it, for a while.
#[tokio::test]
async fn a_repair_leaves_a_block_that_another_instance_publishes() {
    let database = server::database(server::shared(), "claimed").await;
    Store::open(&database).await.unwrap();
    let store = Store::of(&database, Transactions::Missing);
    create(&store, "a", 1).await;
    let uncounted = doc! {
        "_id": "b", "datasetId": "a", "size": 15_i64, "fileCount": 5_i64, "uncounted": true, "claimedAt": at(0),
    };
    database.collection::<Document>("OrigDatablock").insert_one(uncounted).await.unwrap();
    assert_eq!(store.repair(at(60_000)).await.unwrap(), 0);
    assert_eq!(counts(&store, "a").await, (0, 0));
    let (first, second) = tokio::join!(store.repair(at(60_001)), store.repair(at(60_001)));
    assert_eq!(first.unwrap() + second.unwrap(), 1, "one of two instances");
    assert_eq!(counts(&store, "a").await, (15, 5));
}

/// A killed service cannot end its transaction. The server keeps it open for up to a minute.
#[tokio::test]
async fn a_transaction_that_a_killed_service_left_open_blocks_its_dataset_until_it_ends() {
    let store = catalogue("left_open").await;
    let dataset = create(&store, "a", 1).await;
    let other = create(&store, "b", 2).await;
    let killed = server::database(server::shared(), "left_open").await;
    let mut session = killed.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let datasets = killed.collection::<Document>("Dataset");
    let change = doc! {"$inc": {"size": 1_i64}};
    datasets.update_one(doc! {"_id": "a"}, change).session(&mut session).await.unwrap();
    add(&store, &dataset, "1", 1).await.unwrap_err();
    add(&store, &other, "2", 1).await.unwrap();
    session.abort_transaction().await.unwrap();
    add(&store, &dataset, "1", 1).await.unwrap();
    assert_eq!(counts(&store, "a").await, (3, 1));
}

/// A store whose next commit is cut off: the server gets it, and `cut` resolves before its answer.
async fn with_cut(name: &str) -> (Store, Arc<Notify>) {
    let cut = Arc::new(Notify::new());
    let seen = cut.clone();
    let database = server::watched(name, move |started| {
        if started.command_name == "commitTransaction" {
            seen.notify_one();
        }
    });
    let database = database.await;
    (Store::of(&database, Transactions::Used), cut)
}

/// A removal whose service dies after the commit leaves the files of long blocks to the sweep.
#[tokio::test]
async fn a_removal_that_is_cut_off_after_its_commit_leaves_no_files() {
    const HOUR_MS: i64 = 3_600_000;
    for of_dataset in [true, false] {
        let name = format!("cut_removal_{of_dataset}");
        let store = catalogue(&name).await;
        let dataset = create(&store, "a", 1).await;
        add(&store, &dataset, "1", 60_000).await.unwrap();
        let head = store.blocks("a", &any).await.unwrap().remove(0);
        let (dying, cut) = with_cut(&name).await;
        tokio::select! {
            biased;
            () = cut.notified() => (),
            result = dying.delete(&dataset, "ann", at(0)), if of_dataset => panic!("{result:?}"),
            result = dying.delete_block(&head, at(0)), if !of_dataset => panic!("{result:?}"),
        }
        let gone = async {
            while !store.blocks("a", &any).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
        let database = server::database(server::shared(), &name).await;
        let parts = database.collection::<Document>("OrigDatablockPart");
        assert!(parts.count_documents(doc! {}).await.unwrap() > 0, "the removal was cut off too late");
        store.sweep(at(HOUR_MS + 1)).await.unwrap();
        assert_eq!(parts.count_documents(doc! {}).await.unwrap(), 0, "{name}");
    }
}

/// Adds blocks until the server dies. Returns the acknowledged ones.
async fn load(store: Store, dataset: Document, round: usize, writer: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let id = format!("{round}-{writer}-{number}");
        match add(&store, &dataset, &id, 3).await {
            Ok(_) => acknowledged.push(id),
            Err(_) => break,
        }
    }
    acknowledged
}

async fn open(uri: &str) -> Store {
    let database = Client::with_uri_str(uri).await.unwrap().database("killed");
    Store::of(&database, Transactions::Used)
}

/// Kills the server while four writers add blocks, and restarts it: every acknowledged block exists, and sizes are right.
async fn kill_rounds(rounds: usize) {
    let mut server = server::start(Profile::Journaled);
    let database = server::database(&server, "killed").await;
    let store = Store::open(&database).await.unwrap();
    let dataset = create(&store, "a", 1).await;
    let mut acknowledged = Vec::new();
    for round in 0..rounds {
        let store = open(&server::uri(&server)).await;
        let mut writers = JoinSet::new();
        for writer in 0..4 {
            writers.spawn(load(store.clone(), dataset.clone(), round, writer));
        }
        while store.blocks("a", &any).await.unwrap().len() < acknowledged.len() + 20 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        server.kill().unwrap();
        acknowledged.extend(writers.join_all().await.into_iter().flatten());
        server.restart().unwrap();
        let store = open(&server::uri(&server)).await;
        let stored = store.blocks("a", &any).await.unwrap();
        let ids: Vec<&str> = stored.iter().map(|block| block.get_str("_id").unwrap()).collect();
        let lost: Vec<_> = acknowledged.iter().filter(|id| !ids.contains(&id.as_str())).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        let sizes = store.verify("a").await.unwrap();
        assert!(sizes.is_right(), "round {round}: {sizes:?}");
    }
    assert!(acknowledged.len() >= rounds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_leaves_every_acknowledged_block_and_right_sizes() {
    kill_rounds(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: cargo xtask test --all runs it"]
async fn a_server_killed_a_hundred_times_leaves_right_sizes() {
    kill_rounds(100).await;
}
