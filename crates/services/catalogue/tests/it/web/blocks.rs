//! Tests single blocks: they are read, changed and removed by their key, and their dataset counts them.

use serde_json::{Value, json};

use super::bench::{block, raw, serve};
use super::client::Client;
use super::stream::{LINES, PATH, lines};

/// The size and the number of files of a dataset.
async fn counts(client: &mut Client) -> (Value, Value) {
    let dataset = client.get("/api/v3/datasets/p%2F1").await.is(200);
    (dataset["size"].clone(), dataset["numberOfFiles"].clone())
}

#[tokio::test]
async fn a_block_is_read_changed_and_removed_by_its_key() {
    let service = serve("one_block", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let added = ann.post("/api/v3/origdatablocks", &block("p/1", 3)).await.is(201);
    let id = added["_id"].as_str().unwrap();
    let (v3, v4) = (format!("/api/v3/OrigDatablocks/{id}"), format!("/api/v4/origdatablocks/{id}"));
    for path in [&v3, &v4] {
        assert_eq!(ann.get(path).await.is(200), added);
    }
    let changed = ann.patch(&v3, &[], &json!({"size": 100, "chkAlg": "md5"})).await.is(200);
    assert_eq!((&changed["size"], &changed["chkAlg"]), (&json!(100), &json!("md5")));
    assert_eq!(counts(&mut ann).await, (json!(100), json!(3)));
    let files = json!({"dataFileList": block("p/1", 5)["dataFileList"], "size": 10, "datasetId": "p/1"});
    let of_dataset = format!("/api/v3/datasets/p%2F1/origdatablocks/{id}");
    assert_eq!(
        ann.patch(&of_dataset, &[], &files).await.is(200)["dataFileList"].as_array().unwrap().len(),
        5
    );
    assert_eq!(counts(&mut ann).await, (json!(10), json!(5)));
    for body in
        [json!({"size": -1}), json!({"datasetId": "p/2"}), json!({"dataFileList": []}), json!({"$set": {}})]
    {
        ann.patch(&v4, &[], &body).await.is(400);
    }
    ann.delete(&v3).await.is(403);
    let mut cleaner = Client::user(service.address(), "cleaner").await;
    assert_eq!(cleaner.delete(&v4).await.is(200)["_id"], added["_id"]);
    assert_eq!(counts(&mut ann).await, (json!(0), json!(0)));
    for path in [&v3, &v4] {
        ann.get(path).await.is(404);
        ann.patch(path, &[], &json!({"size": 1})).await.is(404);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_block_of_others_is_neither_read_nor_changed() {
    let service = serve("foreign_block", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let added = ann.post("/api/v3/origdatablocks", &block("p/1", 3)).await.is(201);
    let path = format!("/api/v3/origdatablocks/{}", added["_id"].as_str().unwrap());
    let mut bob = Client::user(service.address(), "bob").await;
    let mut nobody = Client::connect(service.address()).await;
    for client in [&mut bob, &mut nobody] {
        client.get(&path).await.is(403);
        client.patch(&path, &[], &json!({"size": 1})).await.is(403);
        client.delete(&path).await.is(403);
    }
    nobody.get("/api/v4/origdatablocks/none").await.is(403);
    nobody.delete("/api/v3/origdatablocks/none").await.is(403);
    ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"isPublished": true})).await.is(200);
    assert_eq!(nobody.get(&path).await.is(200)["dataFileList"].as_array().unwrap().len(), 3);
    assert_eq!(counts(&mut ann).await, (json!(6), json!(3)));
    service.stop().await;
}

#[tokio::test]
async fn a_long_block_changes_its_size_alone_and_a_refusal_names_the_pages_of_files() {
    const FILES: usize = 60_000;
    let service = serve("one_long_block", "limits: {answers_bytes_max: 10000000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let added = ann.send("POST", PATH, &LINES, lines(FILES).as_bytes()).await.is(201);
    let path = format!("/api/v3/origdatablocks/{}", added["_id"].as_str().unwrap());
    for path in [
        path.as_str(),
        "/api/v3/datasets/p%2F1/origdatablocks",
        "/api/v4/datasets/p%2F1?include=origdatablocks",
    ] {
        let refused = ann.get(path).await.is(400);
        let said = refused["message"].as_str().unwrap();
        for pages in ["/api/v3/origdatablocks/fullquery/files", "/api/v4/origdatablocks/files"] {
            assert!(said.contains(pages), "{said}");
        }
    }
    service.stop().await;
    let service = serve("one_long_block_again", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let added = ann.send("POST", PATH, &LINES, lines(FILES).as_bytes()).await.is(201);
    let path = format!("/api/v3/origdatablocks/{}", added["_id"].as_str().unwrap());
    assert_eq!(ann.get(&path).await.is(200)["dataFileList"].as_array().unwrap().len(), FILES);
    let changed = ann.patch(&path, &[], &json!({"size": 1})).await.is(200);
    assert_eq!((&changed["numberOfFiles"], changed.get("dataFileList")), (&json!(FILES), None));
    assert_eq!(counts(&mut ann).await, (json!(1), json!(FILES)));
    let files = json!({"dataFileList": block("p/1", 1)["dataFileList"]});
    let refused = ann.patch(&path, &[], &files).await.is(400);
    assert!(refused["message"].as_str().unwrap().contains("remove the block"), "{refused}");
    service.stop().await;
}
