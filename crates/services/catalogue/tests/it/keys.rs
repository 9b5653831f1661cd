//! Tests the job that collects the keys of metadata.

use bson::Document;
use plimsoll_catalogue::storage::{Batch, Store};

use crate::samples::{at, catalogue, create, stored};
use crate::server;

async fn keys(store: &Store, groups: &[&str], prefix: &str) -> Vec<String> {
    let groups: Vec<String> = groups.iter().map(|&group| group.into()).collect();
    store.metadata_keys(Some(&groups), prefix, 100).await.unwrap()
}

#[tokio::test]
async fn keys_are_collected_in_batches_and_shown_to_their_readers() {
    let store = catalogue("keys").await;
    for number in 0..150 {
        create(&store, &format!("p{number:03}"), 1).await;
    }
    assert_eq!(
        store.collect_keys(at(5_000)).await.unwrap(),
        Batch { datasets: 0, keys: 0 },
        "the changes are too new"
    );
    let later = at(10_000);
    assert_eq!(store.collect_keys(later).await.unwrap(), Batch { datasets: 100, keys: 2 });
    assert_eq!(store.collect_keys(later).await.unwrap(), Batch { datasets: 50, keys: 0 }, "they are written");
    assert_eq!(store.collect_keys(later).await.unwrap(), Batch { datasets: 0, keys: 0 });
    assert_eq!(keys(&store, &["g1"], "").await, ["field 1", "only.odd"]);
    assert_eq!(keys(&store, &["h1"], "on").await, ["only.odd"]);
    assert_eq!(keys(&store, &["other"], "").await, [""; 0]);
    assert_eq!(store.metadata_keys(None, "f", 100).await.unwrap(), ["field 1"]);
    assert_eq!(keys(&store, &[], "").await, [""; 0]);
    create(&store, "published", 2).await;
    store.collect_keys(later).await.unwrap();
    assert_eq!(keys(&store, &[], "field").await, ["field 1"]);
    let database = server::database(server::shared(), "keys").await;
    for name in ["MetadataKeys", "MetadataKeysProgress"] {
        database.collection::<Document>(name).drop().await.unwrap();
    }
    assert_eq!(store.collect_keys(later).await.unwrap().keys, 2, "they are collected anew");
}

#[tokio::test]
async fn a_dataset_with_many_groups_and_keys_does_not_stop_the_job() {
    let store = catalogue("keys_many").await;
    let mut wide = stored("wide", 1);
    let groups: Vec<String> = (0..20_000).map(|n| format!("group-{n:05}")).collect();
    wide.insert("accessGroups", groups);
    let long = "k".repeat(100_000);
    let mut metadata: Document = (0..1_000).map(|n| (format!("wide {n:04}"), 1.into())).collect();
    metadata.insert(long.as_str(), 1);
    wide.insert("scientificMetadata", metadata);
    store.create(&wide).await.unwrap();
    create(&store, "next", 1).await;
    let batch = store.collect_keys(at(10_000)).await.unwrap();
    assert_eq!((batch.datasets, batch.keys), (2, 1_002), "a key of 100,000 bytes is left out");
    assert_eq!(keys(&store, &["group-00000"], "wide 0999").await, ["wide 0999"]);
    assert_eq!(keys(&store, &["g1"], "").await.len(), 100);
}
