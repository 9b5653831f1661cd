//! Tests the job that collects the keys of metadata.

use plimsoll_catalogue::storage::{Batch, Store};

use crate::samples::{at, catalogue, create};

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
    assert_eq!(store.collect_keys(later).await.unwrap(), Batch { datasets: 50, keys: 2 });
    assert_eq!(store.collect_keys(later).await.unwrap(), Batch { datasets: 0, keys: 0 });
    assert_eq!(keys(&store, &["g1"], "").await, ["field 1", "only.odd"]);
    assert_eq!(keys(&store, &["h1"], "on").await, ["only.odd"]);
    assert_eq!(keys(&store, &["other"], "").await, [""; 0]);
    assert_eq!(store.metadata_keys(None, "f", 100).await.unwrap(), ["field 1"]);
    assert_eq!(keys(&store, &[], "").await, [""; 0]);
    create(&store, "published", 2).await;
    store.collect_keys(later).await.unwrap();
    assert_eq!(keys(&store, &[], "field").await, ["field 1"]);
}
