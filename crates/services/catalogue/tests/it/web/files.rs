//! Tests pages of the files of a dataset.

use bson::{Document, doc};
use serde_json::{Value, json};

use super::bench::{block, raw, serve};
use super::client::{Client, encoded};
use super::stream::{LINES, PATH, lines};

fn v3(path: &str, skip: usize, limit: usize) -> String {
    let fields = encoded(&json!({"datasetId": "p/1"}).to_string());
    let limits = encoded(&json!({"skip": skip, "limit": limit}).to_string());
    format!("/api/v3/origdatablocks/{path}?fields={fields}&limits={limits}")
}

fn v4(path: &str, filter: &Value) -> String {
    format!("/api/v4/origdatablocks/{path}?filter={}", encoded(&filter.to_string()))
}

#[tokio::test]
async fn files_of_a_dataset_are_paged_whatever_the_length_of_its_blocks() {
    const LONG: usize = 60_000;
    // An answer with all files has no room.
    let service = serve("files", "limits: {answers_bytes_max: 16000000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.send("POST", PATH, &LINES, lines(LONG).as_bytes()).await.is(201);
    ann.get("/api/v3/datasets/p%2F1/origdatablocks").await.is(400);
    let old = doc! {"_id": "\u{10ffff}", "datasetId": "p/1", "size": 4_i64, "dataFileList": [{"path": "old 0", "size": 2}, {"path": "old 1", "size": 2}]};
    let blocks = service.context().state.database.collection::<Document>("OrigDatablock");
    blocks.insert_one(old).await.unwrap();
    let expected: Vec<String> =
        (0..LONG).map(|n| format!("{n:08}.dat")).chain(["old 0".into(), "old 1".into()]).collect();
    for (skip, limit) in [(0, 5), (29_990, 900), (LONG - 1, 5), (LONG + 1, 5), (LONG + 2, 5)] {
        let rows = ann.get(&v3("fullquery/files", skip, limit)).await.is(200);
        let paths: Vec<&str> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["dataFileList"]["path"].as_str().unwrap())
            .collect();
        let page: Vec<&String> = expected.iter().skip(skip).take(limit).collect();
        assert_eq!(paths, page, "{skip} {limit}");
        assert!(
            rows.as_array()
                .unwrap()
                .iter()
                .all(|row| row["datasetId"] == "p/1" && row["datasetExist"] == true)
        );
    }
    let total = LONG + 2;
    let facet = ann.get(&v3("fullfacet/files", 0, 1)).await.is(200);
    assert_eq!(facet, json!([{"all": [{"totalSets": total}]}]));
    let of_dataset = json!({"where": {"datasetId": "p/1"}});
    assert_eq!(ann.get(&v4("files/count", &of_dataset)).await.is(200), json!({"count": total}));
    let page = json!({"where": {"datasetId": "p/1"}, "limits": {"skip": LONG, "limit": 1}});
    assert_eq!(ann.get(&v4("files", &page)).await.is(200)[0]["dataFileList"]["path"], "old 0");
    service.stop().await;
}

#[tokio::test]
async fn files_of_others_and_unclear_queries_are_refused() {
    let service = serve("files_foreign", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.post("/api/v3/origdatablocks", &block("p/1", 2)).await.is(201);
    let mut bob = Client::user(service.address(), "bob").await;
    let of_dataset = json!({"where": {"datasetId": "p/1"}});
    for path in [
        v3("fullquery/files", 0, 1),
        v3("fullfacet/files", 0, 1),
        v4("files", &of_dataset),
        v4("files/count", &of_dataset),
    ] {
        bob.get(&path).await.is(403);
    }
    for filter in [
        json!({}),
        json!({"where": {"datasetId": {"$ne": 1}}}),
        json!({"where": {"datasetId": "p/1", "size": 1}}),
        json!({"fields": ["size"]}),
        json!({"where": {"datasetId": "p/1"}, "limits": {"sort": {"size": "asc"}}}),
    ] {
        ann.get(&v4("files", &filter)).await.is(400);
    }
    let mut stranger = Client::connect(service.address()).await;
    stranger.get(&v4("files", &of_dataset)).await.is(403);
    stranger.get(&v3("fullquery/files", 0, 1)).await.is(403);
    service.stop().await;
}

/// A head that an earlier version has stored does not name the first file of each part.
#[tokio::test]
async fn a_long_block_without_the_places_of_its_parts_is_paged_and_gets_them() {
    const LONG: usize = 60_000;
    let service = serve("files_placeless", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.send("POST", PATH, &LINES, lines(LONG).as_bytes()).await.is(201);
    let blocks = service.context().state.database.collection::<Document>("OrigDatablock");
    let before = blocks.find_one(doc! {}).await.unwrap().unwrap();
    assert!(before.get_array("partStarts").is_ok_and(|starts| !starts.is_empty()));
    blocks.update_one(doc! {}, doc! {"$unset": {"partStarts": ""}}).await.unwrap();
    for skip in [0, 29_990, LONG - 5] {
        let rows = ann.get(&v3("fullquery/files", skip, 5)).await.is(200);
        let paths: Vec<&str> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["dataFileList"]["path"].as_str().unwrap())
            .collect();
        let expected: Vec<String> = (skip..skip + 5).map(|n| format!("{n:08}.dat")).collect();
        assert_eq!(paths, expected, "{skip}");
    }
    assert_eq!(blocks.find_one(doc! {}).await.unwrap().unwrap(), before);
    service.stop().await;
}
