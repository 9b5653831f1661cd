//! Tests blocks of files: counts that are always right, and blocks of any length.

use std::sync::atomic::{AtomicUsize, Ordering};

use bson::{Document, doc};
use plimsoll_catalogue::Refusal;
use plimsoll_catalogue::documents::block;
use plimsoll_catalogue::documents::dataset::Patch;
use plimsoll_catalogue::storage::{Error, Store, Transactions};

use crate::samples::{
    add, any, at, catalogue, counts, create, everyone, file, head, stored, without_transactions,
};
use crate::server;

#[tokio::test]
async fn a_block_and_the_counts_of_its_dataset_change_together() {
    for store in [catalogue("counts").await, without_transactions("counts_in_steps").await] {
        let dataset = create(&store, "a", 1).await;
        add(&store, &dataset, "1", 5).await.unwrap();
        add(&store, &dataset, "2", 7).await.unwrap();
        assert_eq!(counts(&store, "a").await, (36, 12));
        let taken = add(&store, &dataset, "2", 7).await.unwrap_err();
        assert!(matches!(taken, Error::Refused(_)), "{taken}");
        assert_eq!(counts(&store, "a").await, (36, 12), "a refused block counts nothing");
        let heads = store.blocks("a", &any).await.unwrap();
        store.delete_block(&heads[0], at(70)).await.unwrap();
        assert_eq!(counts(&store, "a").await, (21, 7));
        assert!(matches!(store.delete_block(&heads[0], at(70)).await, Err(Error::Changed)));
        assert!(store.verify("a").await.unwrap().is_right());
    }
}

#[tokio::test]
async fn a_block_has_the_access_that_its_dataset_has_when_it_is_published() {
    for store in [catalogue("moved").await, without_transactions("moved_in_steps").await] {
        let dataset = create(&store, "a", 1).await;
        let moved = Patch {
            set: doc! {"ownerGroup": "new", "isPublished": true},
            unset: vec!["accessGroups".into()],
        };
        store.update(&dataset, &moved, "ann", at(5)).await.unwrap();
        add(&store, &dataset, "1", 5).await.unwrap();
        let head = store.blocks("a", &any).await.unwrap().remove(0);
        assert_eq!(
            (head.get_str("ownerGroup").unwrap(), head.get_bool("isPublished").unwrap()),
            ("new", true)
        );
        assert!(!head.contains_key("accessGroups"));
        let creation = block::Creation { id: "2", dataset: &dataset, by: "ann", at: at(0) };
        let mut writer = store.block_writer(creation);
        for number in 0..60_000 {
            writer.push(file(number)).await.unwrap();
        }
        let foreign = |dataset: &Document| match dataset.get_str("ownerGroup") {
            Ok("new") => Err(Refusal::Foreign),
            _ => Ok(()),
        };
        let refused = writer.finish(&self::head("a", 1), &foreign).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::Foreign)), "{refused}");
        assert_eq!(counts(&store, "a").await, (15, 5));
        assert_eq!(store.sweep(at(9_000_000)).await.unwrap(), 0, "a refused block leaves no files");
    }
}

/// The first change comes before the block is inserted, the second one before the block gets the access of the first.
#[tokio::test]
async fn a_block_keeps_the_newest_access_of_two_changes_during_its_publication() {
    const NAME: &str = "moved_twice";
    let dataset = create(&without_transactions(NAME).await, "a", 1).await;
    let changes = AtomicUsize::new(0);
    let watched = server::watched(NAME, move |started| {
        let of_blocks = |name: &str| started.command.get_str(name).is_ok_and(|it| it == "OrigDatablock");
        let gives_access = of_blocks("update") && started.command.to_string().contains("ownerGroup");
        let is_due = match changes.load(Ordering::Relaxed) {
            0 => of_blocks("insert"),
            1 => gives_access,
            _ => false,
        };
        if is_due {
            move_to(NAME, format!("new {}", changes.fetch_add(1, Ordering::Relaxed)));
        }
    });
    let store = Store::of(&watched.await, Transactions::Missing);
    let added = add(&store, &dataset, "1", 5).await.unwrap();
    for document in
        [added, store.blocks("a", &any).await.unwrap().remove(0), store.dataset("a").await.unwrap().unwrap()]
    {
        assert_eq!(document.get_str("ownerGroup").unwrap(), "new 1");
    }
}

/// Gives the dataset `a` to a group, from another thread with its own connection.
fn move_to(name: &'static str, group: String) {
    let moving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let database = server::database(server::shared(), name).await;
            let store = Store::of(&database, Transactions::Missing);
            let dataset = store.dataset("a").await.unwrap().unwrap();
            let change = Patch { set: doc! {"ownerGroup": group}, ..Patch::default() };
            store.update(&dataset, &change, "ann", at(5)).await.unwrap();
        });
    });
    moving.join().unwrap();
}

#[tokio::test]
async fn a_block_without_a_dataset_is_refused_and_leaves_nothing() {
    for store in [catalogue("orphan").await, without_transactions("orphan_in_steps").await] {
        let refused = add(&store, &stored("gone", 1), "1", 5).await.unwrap_err();
        assert_eq!(refused.to_string(), "dataset: gone not found");
        assert!(store.blocks("gone", &any).await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_blocks_are_all_counted() {
    for store in [catalogue("concurrent").await, without_transactions("concurrent_in_steps").await] {
        let dataset = create(&store, "a", 1).await;
        let writers = (0..4).map(|writer| {
            let (store, dataset) = (store.clone(), dataset.clone());
            tokio::spawn(async move {
                for number in 0..8 {
                    add(&store, &dataset, &format!("{writer}-{number}"), 2).await.unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        assert_eq!(counts(&store, "a").await, (3 * 64, 64));
        assert!(store.verify("a").await.unwrap().is_right());
    }
}

#[tokio::test]
async fn a_long_block_appears_whole_and_is_read_in_order() {
    const FILES: usize = 60_000;
    let store = catalogue("long").await;
    let dataset = create(&store, "a", 1).await;
    let creation = block::Creation { id: "1", dataset: &dataset, by: "ann", at: at(0) };
    let mut writer = store.block_writer(creation);
    for number in 0..FILES {
        writer.push(file(number)).await.unwrap();
    }
    assert!(store.blocks("a", &any).await.unwrap().is_empty(), "an unfinished block is invisible");
    assert_eq!(counts(&store, "a").await, (0, 0));
    let stated = head("a", writer.bytes());
    let stored = writer.finish(&stated, &everyone).await.unwrap();
    assert!(stored.get_i32("parts").unwrap() >= 2);
    assert_eq!(counts(&store, "a").await, (3 * FILES as i64, FILES as i64));
    let heads = store.blocks("a", &any).await.unwrap();
    let whole = store.whole_block(heads[0].clone(), &any).await.unwrap();
    let expected = (0..FILES).map(file);
    let found = whole.get_array("dataFileList").unwrap();
    assert_eq!(found.len(), FILES);
    assert!(found.iter().zip(expected).all(|(found, expected)| found.as_document() == Some(&expected)));
    assert!(store.verify("a").await.unwrap().is_right());
    store.delete(&dataset, "ann", at(1)).await.unwrap();
    assert_eq!(store.whole_block(heads[0].clone(), &any).await.unwrap(), heads[0], "its parts are gone");
}

#[tokio::test]
async fn an_abandoned_block_is_swept_after_an_hour() {
    let store = catalogue("abandoned").await;
    let dataset = create(&store, "a", 1).await;
    let begin = async |id: &'static str, dataset: &Document| {
        let creation = block::Creation { id, dataset, by: "ann", at: at(0) };
        let mut writer = store.block_writer(creation);
        for number in 0..60_000 {
            writer.push(file(number)).await.unwrap();
        }
        drop(writer);
    };
    begin("lost", &dataset).await;
    assert_eq!(store.sweep(at(3_600_000)).await.unwrap(), 0, "it may still arrive");
    let mut late =
        store.block_writer(block::Creation { id: "late", dataset: &dataset, by: "ann", at: at(0) });
    for number in 0..60_000 {
        late.push(file(number)).await.unwrap();
    }
    assert_eq!(store.sweep(at(3_600_001)).await.unwrap(), 2);
    let refused = late.finish(&head("a", 1), &everyone).await.unwrap_err();
    assert_eq!(refused.to_string(), "the block took too long: send it again");
    assert!(store.blocks("a", &any).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_swept_block_is_refused_and_leaves_no_files() {
    for (name, store) in [
        ("swept", catalogue("swept").await),
        ("swept_in_steps", without_transactions("swept_in_steps").await),
    ] {
        let dataset = create(&store, "a", 1).await;
        let creation = block::Creation { id: "1", dataset: &dataset, by: "ann", at: at(0) };
        let mut writer = store.block_writer(creation);
        for number in 0..60_000 {
            writer.push(file(number)).await.unwrap();
        }
        assert_eq!(store.sweep(at(3_600_001)).await.unwrap(), 1);
        let mut pushed = Ok(());
        for number in 0..30_000 {
            pushed = pushed.and(writer.push(file(number)).await);
        }
        let refused = pushed.unwrap_err();
        assert_eq!(refused.to_string(), "the block took too long: send it again", "{name}");
        assert!(store.blocks("a", &any).await.unwrap().is_empty());
        let database = server::database(server::shared(), name).await;
        let parts = database.collection::<Document>("OrigDatablockPart");
        assert_eq!(parts.count_documents(doc! {}).await.unwrap(), 0, "{name}");
        assert_eq!(counts(&store, "a").await, (0, 0));
    }
}

#[tokio::test]
async fn a_block_that_arrives_for_hours_is_stored() {
    for store in [catalogue("hours").await, without_transactions("hours_in_steps").await] {
        let dataset = create(&store, "a", 1).await;
        let creation = block::Creation { id: "1", dataset: &dataset, by: "ann", at: at(0) };
        let mut writer = store.block_writer(creation);
        const HOUR_MS: i64 = 3_600_000;
        for hour in 0..3 {
            writer.alive(at(hour * HOUR_MS));
            for number in 0..60_000 {
                writer.push(file(number)).await.unwrap();
            }
            assert_eq!(store.sweep(at((hour + 1) * HOUR_MS - 1)).await.unwrap(), 0);
        }
        writer.finish(&head("a", 1), &everyone).await.unwrap();
        assert_eq!(counts(&store, "a").await, (1, 180_000));
    }
}

#[tokio::test]
async fn a_sweep_that_was_cut_off_is_finished_and_its_block_is_refused() {
    for (name, store) in
        [("cut", catalogue("cut").await), ("cut_in_steps", without_transactions("cut_in_steps").await)]
    {
        let dataset = create(&store, "a", 1).await;
        let creation = block::Creation { id: "1", dataset: &dataset, by: "ann", at: at(0) };
        let mut writer = store.block_writer(creation);
        for number in 0..60_000 {
            writer.push(file(number)).await.unwrap();
        }
        let database = server::database(server::shared(), name).await;
        let staging = database.collection::<Document>("OrigDatablockStaging");
        staging.update_one(doc! {"_id": "1"}, doc! {"$set": {"swept": true}}).await.unwrap();
        writer.finish(&head("a", 1), &everyone).await.unwrap_err();
        assert_eq!(store.sweep(at(3_600_001)).await.unwrap(), 1);
        for left in ["OrigDatablockPart", "OrigDatablockStaging"] {
            let left = database.collection::<Document>(left).count_documents(doc! {}).await.unwrap();
            assert_eq!(left, 0, "{name}");
        }
    }
}

#[tokio::test]
async fn verify_corrects_a_wrong_dataset() {
    let store = catalogue("verified").await;
    let mut dataset = stored("a", 1);
    dataset.extend(doc! {"size": 99_i64, "numberOfFiles": 1_i64});
    store.create(&dataset).await.unwrap();
    add(&store, &dataset, "1", 5).await.unwrap();
    let sizes = store.verify("a").await.unwrap();
    assert_eq!((sizes.stated.size, sizes.counted.size, sizes.counted.files), (114, 15, 5));
    assert_eq!(counts(&store, "a").await, (15, 5));
    assert!(store.verify("a").await.unwrap().is_right());
    assert_eq!(store.verify("b").await.unwrap_err().to_string(), "dataset: b not found");
}
