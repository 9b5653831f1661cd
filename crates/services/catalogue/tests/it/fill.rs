//! Tests the fill of a database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::{DateTime, Document, doc};
use futures_util::TryStreamExt;
use plimsoll_catalogue::fill::{Fill, fill};
use plimsoll_catalogue::storage::Store;

use crate::samples::NOW_MS;
use crate::server;

const ORDER: Fill = Fill { seed: 1, end_ms: NOW_MS, datasets: 1_200, fields: 2 };

/// A fill that was interrupted sends the incomplete batches again, and changes nothing that exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_fill_continues() {
    let (inserts, late): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
    let (counted, counted_late) = (inserts.clone(), late.clone());
    let database = server::watched("fill_continued", move |started| match started.command_name.as_str() {
        "insert" => _ = counted.fetch_add(1, Ordering::Relaxed),
        "createIndexes" if counted.load(Ordering::Relaxed) > 0 => {
            counted_late.fetch_add(1, Ordering::Relaxed);
        }
        _ => (),
    });
    let database = database.await;
    let mut said = Vec::new();
    fill(&database, &ORDER, &mut |message| said.push(message)).await.unwrap();
    assert_eq!((said.len(), late.load(Ordering::Relaxed), inserts.swap(0, Ordering::Relaxed)), (0, 0, 3));
    let datasets = database.collection::<Document>("Dataset");
    let indexes = datasets.list_index_names().await.unwrap();
    let progress = database.collection::<Document>("MetadataKeysProgress").find(doc! {}).await.unwrap();
    let progress: Vec<Document> = progress.try_collect().await.unwrap();
    let first = datasets.find_one(doc! {}).sort(doc! {"updatedAt": 1}).await.unwrap().unwrap();
    assert_eq!(progress.len(), 2, "the jobs begin at the first dataset, not in 1970");
    assert!(progress.iter().all(|it| it.get("at") == first.get("updatedAt")), "{progress:?}");
    let later = DateTime::from_millis(NOW_MS + 10_000);
    let store = Store::open(&database).await.unwrap();
    let (mut read, mut all) = (usize::MAX, 0);
    while read > 0 {
        read = store.collect_keys(later).await.unwrap().datasets;
        all += read;
    }
    assert_eq!(all, 1_200);
    assert!(indexes.len() > 20 && indexes.iter().any(|name| name.contains("Grams")), "{indexes:?}");
    let whole = datasets.find_one(doc! {"_id": "PID.SAMPLE.PREFIX/predefined_700"}).await.unwrap().unwrap();
    datasets
        .delete_many(
            doc! {"_id": {"$in": [whole.get_str("_id").unwrap(), "PID.SAMPLE.PREFIX/predefined_1199"]}},
        )
        .await
        .unwrap();
    datasets
        .update_one(doc! {"_id": "PID.SAMPLE.PREFIX/predefined_701"}, doc! {"$set": {"owner": "kept"}})
        .await
        .unwrap();
    fill(&database, &ORDER, &mut |message| said.push(message)).await.unwrap();
    assert_eq!(said[0], "continuing: the database has 1198 datasets");
    assert_eq!(inserts.load(Ordering::Relaxed), 2, "the first batch is complete");
    assert_eq!(datasets.count_documents(doc! {}).await.unwrap(), 1_200);
    assert_eq!(datasets.find_one(doc! {"_id": whole.get("_id").cloned()}).await.unwrap().unwrap(), whole);
    let kept = datasets.find_one(doc! {"_id": "PID.SAMPLE.PREFIX/predefined_701"}).await.unwrap().unwrap();
    assert_eq!(kept.get_str("owner").unwrap(), "kept");
}
