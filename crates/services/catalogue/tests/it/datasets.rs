//! Tests the life of a dataset.

use bson::{Document, doc};
use mongodb::IndexModel;
use mongodb::options::IndexOptions;
use plimsoll_catalogue::Refusal;
use plimsoll_catalogue::documents::attachment;
use plimsoll_catalogue::documents::dataset::{Form, Patch, Version, patch};
use plimsoll_catalogue::storage::{Error, Store};
use serde_json::json;

use crate::samples::{add, any, at, catalogue, create, stored, without_transactions};
use crate::server;

#[tokio::test]
async fn a_dataset_is_read_back_as_it_was_stored_and_its_pid_is_taken() {
    let store = catalogue("created").await;
    let dataset = create(&store, "20.500/a", 1).await;
    assert_eq!(store.dataset("20.500/a").await.unwrap(), Some(dataset));
    assert_eq!(store.dataset("20.500").await.unwrap(), None);
    let again = store.create(&stored("20.500/a", 2)).await.unwrap_err();
    assert_eq!(again.to_string(), "A dataset with pid 20.500/a already exists!");
    assert!(matches!(again, Error::Refused(Refusal::Conflict(_))));
}

#[tokio::test]
async fn a_database_with_other_indexes_and_documents_without_a_pid_opens() {
    let database = server::database(server::shared(), "existing").await;
    let datasets = database.collection::<Document>("Dataset");
    datasets.insert_many([doc! {"_id": "old/1"}, doc! {"_id": "old/2"}]).await.unwrap();
    let sparse = IndexOptions::builder().sparse(true).build();
    let other = IndexModel::builder().keys(doc! {"updatedAt": 1, "_id": 1}).options(sparse).build();
    datasets.create_index(other).await.unwrap();
    let store = Store::open(&database).await.unwrap();
    create(&store, "new", 1).await;
    let again = store.create(&stored("old/1", 2)).await.unwrap_err();
    assert!(matches!(again, Error::Refused(Refusal::Conflict(_))), "{again}");
    let names = datasets.list_index_names().await.unwrap();
    assert!(names.iter().any(|name| name == "isPublished_1_createdAt_-1__id_-1"), "{names:?}");
}

#[tokio::test]
async fn an_update_changes_the_dataset_and_its_history_together() {
    for store in [catalogue("updated").await, without_transactions("updated_in_steps").await] {
        let dataset = create(&store, "a", 1).await;
        let body = json!({"description": "new", "scientificMetadata": {"only.odd": null}, "comment": "c"});
        let change = patch(&dataset, &body, Version::V4, Form::Merge).unwrap();
        let changed = store.update(&dataset, &change, "eve", at(100)).await.unwrap();
        assert_eq!(store.dataset("a").await.unwrap().unwrap(), changed);
        assert_eq!(changed.get_str("updatedBy").unwrap(), "eve");
        assert_eq!(changed.get_datetime("updatedAt").unwrap(), &at(100));
        assert_eq!(
            changed.get_document("scientificMetadata").unwrap().keys().collect::<Vec<_>>(),
            ["field%201"]
        );
        let removal = Patch { set: doc! {}, unset: vec!["comment".into()] };
        let changed = store.update(&changed, &removal, "eve", at(100)).await.unwrap();
        assert!(!store.dataset("a").await.unwrap().unwrap().contains_key("comment"));
        assert_eq!(changed.get_datetime("updatedAt").unwrap(), &at(101), "no two changes have one time");
        let history = store.history(&changed, &any).await.unwrap();
        assert_eq!(history.len(), 2);
        assert_eq!(history[0].get_document("before").unwrap(), &doc! {"comment": "c"});
        assert_eq!(history[1].get_document("after").unwrap().get_str("description").unwrap(), "new");
    }
}

#[tokio::test]
async fn blocks_and_attachments_follow_the_groups_of_their_dataset() {
    let store = catalogue("inherited").await;
    let dataset = create(&store, "a", 1).await;
    add(&store, &dataset, "1", 2).await.unwrap();
    let body = attachment::read(&json!({"caption": "c"}), Some("a")).unwrap();
    store
        .attach(&attachment::store(body, &dataset, "x", "ann", at(0)), std::slice::from_ref(&dataset))
        .await
        .unwrap();
    let change =
        Patch { set: doc! {"ownerGroup": "new", "isPublished": true, "description": "d"}, unset: vec![] };
    store.update(&dataset, &change, "ann", at(5)).await.unwrap();
    for document in
        [&store.blocks("a", &any).await.unwrap()[0], &store.attachments("a", &any).await.unwrap()[0]]
    {
        assert_eq!(document.get_str("ownerGroup").unwrap(), "new");
        assert!(document.get_bool("isPublished").unwrap() && !document.contains_key("description"));
    }
}

#[tokio::test]
async fn a_change_of_an_older_state_is_refused_and_leaves_no_history() {
    let store = catalogue("stale").await;
    let dataset = create(&store, "a", 1).await;
    let change = |text: &str| Patch { set: doc! {"description": text}, unset: vec![] };
    store.update(&dataset, &change("first"), "ann", at(5)).await.unwrap();
    let stale = store.update(&dataset, &change("second"), "bob", at(6)).await;
    assert!(matches!(stale, Err(Error::Changed)), "{stale:?}");
    assert_eq!(store.dataset("a").await.unwrap().unwrap().get_str("description").unwrap(), "first");
    assert_eq!(store.history(&dataset, &any).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_removal_takes_blocks_and_attachments_along() {
    let store = catalogue("removed").await;
    let dataset = create(&store, "a", 1).await;
    let other = create(&store, "b", 2).await;
    add(&store, &dataset, "1", 5).await.unwrap();
    add(&store, &other, "2", 5).await.unwrap();
    for (aid, dataset) in [("x", &dataset), ("y", &other)] {
        let body = attachment::read(&json!({"caption": "c"}), dataset.get_str("_id").ok()).unwrap();
        store
            .attach(&attachment::store(body, dataset, aid, "ann", at(0)), std::slice::from_ref(dataset))
            .await
            .unwrap();
    }
    assert_eq!(store.attachments("a", &any).await.unwrap().len(), 1);
    store.delete(&dataset, "ann", at(9)).await.unwrap();
    assert_eq!(store.dataset("a").await.unwrap(), None);
    assert!(
        store.blocks("a", &any).await.unwrap().is_empty()
            && store.attachments("a", &any).await.unwrap().is_empty()
    );
    assert!(
        store.blocks("b", &any).await.unwrap().len() == 1
            && store.attachments("b", &any).await.unwrap().len() == 1
    );
    assert!(store.history(&dataset, &any).await.unwrap().is_empty(), "a removal ends the history");
    let again = store.delete(&dataset, "ann", at(9)).await.unwrap_err();
    assert_eq!(again.to_string(), "dataset: a not found");
}

#[tokio::test]
async fn an_attachment_of_a_dataset_that_is_gone_or_has_another_owner_is_not_stored() {
    for store in [catalogue("late").await, without_transactions("late_in_steps").await] {
        let dataset = create(&store, "a", 1).await;
        let attached = |id: &str| {
            let body = attachment::read(&json!({"caption": "c"}), Some("a")).unwrap();
            attachment::store(body, &dataset, id, "ann", at(0))
        };
        let moved = Patch { set: doc! {"ownerGroup": "new"}, unset: vec![] };
        let changed = store.update(&dataset, &moved, "ann", at(5)).await.unwrap();
        let late = store.attach(&attached("x"), std::slice::from_ref(&dataset)).await;
        assert!(matches!(late, Err(Error::Changed)), "{late:?}");
        store.attach(&attached("y"), std::slice::from_ref(&changed)).await.unwrap();
        let stored = store.attachments("a", &any).await.unwrap().remove(0);
        store.delete(&changed, "ann", at(9)).await.unwrap();
        for late in [
            store.attach(&attached("z"), std::slice::from_ref(&changed)).await,
            store.update_attachment(&stored, &attached("y"), std::slice::from_ref(&changed)).await,
            store.remove_attachment(&stored).await,
        ] {
            assert!(matches!(late, Err(Error::Changed)), "{late:?}");
        }
        assert!(store.attachments("a", &any).await.unwrap().is_empty());
    }
}
