//! Makes catalogues, datasets and blocks for the tests.

use bson::{DateTime, Document, doc};
use plimsoll_catalogue::documents::block::{self, Head};
use plimsoll_catalogue::documents::dataset::{self, Version};
use plimsoll_catalogue::storage::{Store, Transactions};
use serde_json::{Value, json};

use crate::server;

/// The time of the tests.
pub const NOW_MS: i64 = 1_790_000_000_000;

pub fn at(ms: i64) -> DateTime {
    DateTime::from_millis(NOW_MS + ms)
}

/// An empty catalogue on the shared server.
pub async fn catalogue(name: &str) -> Store {
    let database = server::database(server::shared(), name).await;
    Store::open(&database).await.unwrap()
}

/// The same catalogue, as on a server without transactions.
pub async fn without_transactions(name: &str) -> Store {
    let database = server::database(server::shared(), name).await;
    Store::open(&database).await.unwrap();
    Store::of(&database, Transactions::Missing)
}

/// The body of a dataset. Every second one is published.
pub fn body(pid: &str, number: usize) -> Value {
    json!({
        "pid": pid, "datasetName": format!("scan {number}"), "type": if number.is_multiple_of(3) { "derived" } else { "raw" },
        "owner": "ann", "ownerGroup": format!("g{}", number % 4), "accessGroups": [format!("h{}", number % 5)],
        "contactEmail": "ann@x.org", "sourceFolder": "/data", "isPublished": number.is_multiple_of(2),
        "creationTime": format!("2024-01-{:02}T00:00:00Z", 1 + number % 28), "keywords": ["k", format!("k{}", number % 3)],
        "scientificMetadata": {"field 1": {"value": number, "unit": "mm"}, "only.odd": number % 2},
    })
}

/// A stored dataset.
pub fn stored(pid: &str, number: usize) -> Document {
    let creation = dataset::Creation {
        pid: String::new(),
        by: "ann",
        at: at(number as i64),
        types: &[],
        tape_redundancy: None,
    };
    dataset::create(&body(pid, number), Version::V4, &creation).unwrap()
}

/// Stores a dataset, and returns it as a reader gets it.
pub async fn create(store: &Store, pid: &str, number: usize) -> Document {
    let mut dataset = stored(pid, number);
    store.create(&dataset).await.unwrap();
    dataset.remove("searchGrams");
    dataset
}

pub fn file(number: usize) -> Document {
    doc! {"path": format!("{number:08}.dat"), "size": 3_i64, "time": at(0), "chk": "c".repeat(64), "perm": "-rw-r--r--"}
}

pub fn head(pid: &str, size: i64) -> Head {
    Head { dataset: pid.into(), size, checksum: Some("sha256".into()) }
}

/// Stores a block of files.
pub async fn add(
    store: &Store,
    dataset: &Document,
    id: &str,
    files: usize,
) -> Result<Document, plimsoll_catalogue::storage::Error> {
    let creation = block::Creation { id, dataset, by: "ann", at: at(0) };
    let pid = dataset.get_str("_id").unwrap();
    store
        .add_block(
            &head(pid, 3 * files as i64),
            creation,
            &(0..files).map(file).collect::<Vec<_>>(),
            &everyone,
        )
        .await
}

/// Lets every caller change every dataset.
pub fn everyone(_: &Document) -> Result<(), plimsoll_catalogue::Refusal> {
    Ok(())
}

/// The size and the number of files that a dataset has.
pub async fn counts(store: &Store, pid: &str) -> (i64, i64) {
    let dataset = store.dataset(pid).await.unwrap().unwrap();
    (dataset.get_i64("size").unwrap(), dataset.get_i64("numberOfFiles").unwrap())
}

/// A limit on memory that accepts an answer of any size.
pub fn any(_: usize) -> Result<(), plimsoll_catalogue::Refusal> {
    Ok(())
}
