//! Tests the text search and its index.

use bson::{Bson, Document, doc};
use plimsoll_catalogue::documents::dataset::Patch;
use plimsoll_catalogue::query::{Find, full};
use plimsoll_catalogue::storage::Store;
use serde_json::json;

use crate::samples::{NOW_MS, any, at, catalogue, create, stored};
use crate::server;

fn query(text: &str) -> Find {
    let limits = r#"{"limit": 100, "order": "creationTime:desc"}"#;
    full::translate(Some(&json!({"text": text}).to_string()), Some(limits)).unwrap()
}

/// The PIDs of the datasets with a text that the access part admits.
async fn found(store: &Store, access: &Document, text: &str) -> Vec<String> {
    let mut listing = store.list(access, &query(text), None, &|| NOW_MS, &any).await.unwrap();
    listing.documents.sort_by_key(|it| it.get_str("_id").unwrap().to_owned());
    listing.documents.iter().map(|it| it.get_str("_id").unwrap().to_owned()).collect()
}

/// Stores a dataset without grams.
async fn add(store: &Store, pid: &str, texts: Document) {
    let mut dataset = stored(pid, 1);
    dataset.extend(texts);
    dataset.remove("searchGrams");
    store.create(&dataset).await.unwrap();
}

async fn raw(database: &str, pid: &str) -> Document {
    let datasets = server::database(server::shared(), database).await.collection::<Document>("Dataset");
    datasets.find_one(doc! {"_id": pid}).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_word_is_found_inside_of_each_text_and_in_any_case() {
    let store = catalogue("search").await;
    add(&store, "name", doc! {"datasetName": "Silizium-Überlagerung 0042"}).await;
    add(&store, "keyword", doc! {"keywords": ["x-ray", "Überlager"]}).await;
    add(&store, "folder", doc! {"sourceFolder": "/data/überlagert"}).await;
    add(&store, "text", doc! {"description": "an ÜBERLAGERUNG (a.*b) at 100%"}).await;
    assert_eq!(store.index_texts(at(60_000)).await.unwrap(), 4);
    let everything = doc! {};
    for (text, pids) in [
        ("lager", vec!["folder", "keyword", "name", "text"]),
        ("LAGERUNG", vec!["name", "text"]),
        ("lagerung 42", vec!["name"]),
        ("4 lagerung", vec!["name"]),
        ("0042", vec!["name"]),
        ("a.*b", vec!["text"]),
        ("x.ray", vec![]),
        ("gal", vec![]),
        ("lager silver", vec![]),
    ] {
        assert_eq!(found(&store, &everything, text).await, pids, "{text}");
    }
    let total = store.count(&everything, &query("lager").filter, None, &|| 0).await.unwrap();
    assert_eq!(total, 4);
}

#[tokio::test]
async fn a_search_finds_only_datasets_of_the_caller() {
    let store = catalogue("search_access").await;
    for number in 0..8 {
        create(&store, &format!("p{number}"), number).await;
    }
    assert_eq!(found(&store, &doc! {"isPublished": true}, "scan").await, ["p0", "p2", "p4", "p6"]);
    let of_user = doc! {"$or": [{"isPublished": true}, {"ownerGroup": {"$in": ["g1", "g2"]}}]};
    assert_eq!(found(&store, &of_user, "scan").await, ["p0", "p1", "p2", "p4", "p5", "p6"]);
    assert_eq!(found(&store, &doc! {"ownerGroup": "g3"}, "scan").await, ["p3", "p7"]);
}

/// A dataset that SciCat has written is found before and after the upkeep has filled in its grams.
#[tokio::test]
async fn datasets_of_another_program_are_found_at_once_and_indexed_later() {
    let store = catalogue("search_existing").await;
    let datasets = server::database(server::shared(), "search_existing").await.collection("Dataset");
    for number in 0..150 {
        let mut old = stored(&format!("p{number:03}"), number);
        old.remove("searchGrams");
        datasets.insert_one(old).await.unwrap();
    }
    assert_eq!(found(&store, &doc! {}, "scan 149").await, ["p149"]);
    assert_eq!(store.index_texts(at(0)).await.unwrap(), 0, "the changes are too new");
    assert_eq!(store.index_texts(at(60_000)).await.unwrap(), 100, "a batch is bounded");
    assert!(raw("search_existing", "p000").await.contains_key("searchGrams"));
    assert!(!raw("search_existing", "p149").await.contains_key("searchGrams"));
    assert_eq!(store.index_texts(at(60_000)).await.unwrap(), 50);
    assert_eq!(store.index_texts(at(60_000)).await.unwrap(), 0);
    assert_eq!(raw("search_existing", "p149").await, stored("p149", 149));
    assert_eq!(found(&store, &doc! {}, "scan 149").await, ["p149"]);
    let renamed = doc! {"$set": {"datasetName": "renamed", "updatedAt": at(70_000)}};
    datasets.update_one(doc! {"_id": "p149"}, renamed).await.unwrap();
    assert_eq!(store.index_texts(at(80_000)).await.unwrap(), 1);
    assert_eq!(found(&store, &doc! {}, "rename").await, ["p149"]);
    assert_eq!(found(&store, &doc! {}, "scan 149").await, [""; 0]);
}

#[tokio::test]
async fn the_index_follows_each_change_and_no_reader_sees_it() {
    let store = catalogue("search_change").await;
    let mut dataset = create(&store, "p1", 1).await;
    assert!(raw("search_change", "p1").await.contains_key("searchGrams"));
    for (change, text) in [
        (doc! {"datasetName": "renamed"}, "rename"),
        (doc! {"description": "x".repeat(1 << 20) + " very long"}, "very long"),
        (doc! {"description": "short again"}, "again"),
    ] {
        let patch = Patch { set: change, unset: vec![] };
        dataset = store.update(&dataset, &patch, "ann", at(50)).await.unwrap();
        assert_eq!(found(&store, &doc! {}, text).await, ["p1"], "{text}");
    }
    assert!(matches!(raw("search_change", "p1").await.get("searchGrams"), Some(Bson::Array(_))));
    let patch = Patch { set: doc! {}, unset: vec!["description".into()] };
    store.update(&dataset, &patch, "ann", at(60)).await.unwrap();
    assert_eq!(found(&store, &doc! {}, "again").await, [""; 0]);
    let read = store.dataset("p1").await.unwrap().unwrap();
    let listed =
        store.list(&doc! {}, &query("renamed"), None, &|| NOW_MS, &any).await.unwrap().documents.remove(0);
    let entries = store.history(&read, &any).await.unwrap();
    for document in [&read, &listed].into_iter().chain(&entries) {
        assert!(!document.to_string().contains("searchGrams"), "{document}");
    }
}
