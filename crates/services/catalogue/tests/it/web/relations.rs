//! Tests the relations of a dataset: those that a filter asks for, and attachments of several datasets.

use bson::{DateTime, Document, doc};
use serde_json::json;

use super::bench::{block, raw, serve};
use super::client::{Client, encoded};

#[tokio::test]
async fn the_filter_of_one_dataset_adds_relations_and_selects_fields() {
    let service = serve("one_filter", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.post("/api/v3/origdatablocks", &block("p/1", 2)).await.is(201);
    let path =
        |filter: serde_json::Value| format!("/api/v3/datasets/p%2F1?filter={}", encoded(&filter.to_string()));
    let found = ann.get(&path(json!({"include": [{"relation": "origdatablocks"}]}))).await.is(200);
    assert_eq!(found["origdatablocks"][0]["dataFileList"].as_array().unwrap().len(), 2);
    assert_eq!(found["history"], json!([]));
    let found = ann.get(&path(json!({"fields": ["owner", "scientificMetadata.length"]}))).await.is(200);
    let names: Vec<_> = found.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["pid", "owner", "scientificMetadata"]);
    ann.get(&path(json!({"$where": "1"}))).await.is(400);
    ann.get("/api/v3/datasets/p%2F1?filter=%7B").await.is(400);
    let mut bob = Client::user(service.address(), "bob").await;
    bob.get(&path(json!({"fields": ["owner"]}))).await.is(403);
    service.stop().await;
}

#[tokio::test]
async fn an_attachment_that_scicat_stored_belongs_to_all_its_datasets() {
    let service = serve("related", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    for pid in ["p/1", "p/2"] {
        ann.post("/api/v3/datasets", &raw(pid)).await.is(201);
    }
    let attachments = service.context().state.database.collection::<Document>("Attachment");
    let related =
        |pid: &str| doc! {"targetId": pid, "targetType": "dataset", "relationType": "is attached to"};
    let stored = |id: &str, relationships: Vec<Document>| {
        doc! {"_id": id, "aid": id, "thumbnail": "t", "caption": id, "ownerGroup": "group1", "accessGroups": [],
        "createdAt": DateTime::from_millis(0), "relationships": relationships}
    };
    let sample = doc! {"targetId": "p/2", "targetType": "sample"};
    let all =
        [stored("both", vec![related("p/1"), related("p/2")]), stored("one", vec![related("p/1"), sample])];
    attachments.insert_many(all).await.unwrap();
    for (pid, expected) in [("p%2F1", 2), ("p%2F2", 1)] {
        let path = format!("/api/v3/datasets/{pid}");
        assert_eq!(
            ann.get(&format!("{path}/attachments")).await.is(200).as_array().unwrap().len(),
            expected,
            "{pid}"
        );
        assert_eq!(ann.get(&format!("{path}/attachments/count")).await.is(200), json!({"count": expected}));
        assert_eq!(ann.get(&format!("{path}/thumbnail")).await.is(200), json!({"thumbnail": "t"}));
    }
    ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"isPublished": true})).await.is(200);
    let one = attachments.find_one(doc! {"_id": "one"}).await.unwrap().unwrap();
    assert!(one.get_bool("isPublished").unwrap(), "it follows the access of its only dataset");
    let mut cleaner = Client::user(service.address(), "cleaner").await;
    cleaner.delete("/api/v3/datasets/p%2F1").await.is(200);
    let left = ann.get("/api/v3/datasets/p%2F2/attachments").await.is(200);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["aid"]), (1, &json!("both")));
    assert_eq!(left[0]["relationships"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(attachments.count_documents(doc! {}).await.unwrap(), 1);
    service.stop().await;
}

#[tokio::test]
async fn an_attachment_needs_the_right_to_change_every_dataset_that_it_names() {
    let service = serve("related_foreign", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let mut foreign = raw("q/1");
    foreign["ownerGroup"] = "group2".into();
    let mut bob = Client::user(service.address(), "bob").await;
    bob.post("/api/v3/datasets", &foreign).await.is(201);
    let to = |pid: &str| json!({"targetId": pid, "targetType": "dataset", "relationType": "is attached to"});
    let body = json!({"thumbnail": "t", "caption": "c", "relationships": [to("p/1"), to("q/1")]});
    ann.post("/api/v4/attachments", &body).await.is(403);
    let mut hidden = body.clone();
    hidden["datasetId"] = "p/1".into();
    ann.post("/api/v4/attachments", &hidden).await.is(403);
    ann.post("/api/v3/datasets/p%2F1/attachments", &body).await.is(403);
    assert_eq!(bob.get("/api/v3/datasets/q%2F1/attachments").await.is(200), json!([]));
    service.stop().await;
}
