//! Tests that a fault of the caller has the status of a fault of the caller, and that a refused request stores nothing.

use bson::{Document, doc};
use serde_json::{Value, json};

use super::bench::{block, raw, serve};
use super::client::{Client, encoded};

#[tokio::test]
async fn a_write_whose_answer_has_no_room_is_refused_before_it_is_stored() {
    let service = serve("answer_room", "limits: {answers_bytes_max: 262144}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let long = "x".repeat(120_000);
    let mut body = raw("p/1");
    body["description"] = long.as_str().into();
    ann.post("/api/v3/datasets", &body).await.is(400);
    ann.get("/api/v3/datasets/p%2F1").await.is(404);
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"description": long})).await.is(400);
    let attachment = json!({"thumbnail": long, "caption": "c"});
    ann.post("/api/v3/datasets/p%2F1/attachments", &attachment).await.is(400);
    assert_eq!(ann.get("/api/v3/datasets/p%2F1").await.is(200).get("description"), None);
    assert_eq!(ann.get("/api/v3/datasets/p%2F1/attachments/count").await.is(200), json!({"count": 0}));
    service.stop().await;
}

#[tokio::test]
async fn a_query_that_the_database_does_not_accept_is_a_bad_request() {
    let service = serve("bad_query", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    for filter in [
        json!({"where": {"datasetName": {"like": "*abc*"}}}),
        json!({"where": {"datasetName": {"like": "[z-a]"}}}),
    ] {
        let path = format!("/api/v3/datasets?filter={}", encoded(&filter.to_string()));
        let answer = ann.get(&path).await;
        assert_eq!(answer.status, 400, "{filter}: {}", String::from_utf8_lossy(&answer.body));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_long_login_is_refused_and_a_body_of_millions_of_values_too() {
    let service = serve("long_login", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let long = json!({"username": "ann", "password": "x".repeat(5_000)});
    ann.post("/api/v3/auth/login", &long).await.is(413);
    let mut body = raw("p/1");
    body["scientificMetadata"]["list"] = json!({"value": vec![0; 2_000_001], "unit": ""});
    let refused = ann.post("/api/v3/datasets", &body).await.is(400);
    assert!(refused["message"].as_str().unwrap().starts_with("more than 2000000 values"), "{refused}");
    service.stop().await;
}

#[tokio::test]
async fn sizes_that_no_count_can_hold_are_refused() {
    let service = serve("large_sizes", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let with = |size: u64, of_file: u64| {
        let mut body = block("p/1", 1);
        body["size"] = size.into();
        body["dataFileList"][0]["size"] = of_file.into();
        body
    };
    const MAX: u64 = 1 << 53;
    for (size, of_file) in [(MAX + 1, 1), (1, MAX + 1), (i64::MAX as u64, 1)] {
        let refused = ann.post("/api/v3/origdatablocks", &with(size, of_file)).await.is(400);
        assert!(refused["message"][0].as_str().unwrap().contains("size must not be"), "{refused}");
    }
    let line = with(1, MAX + 1)["dataFileList"][0].to_string();
    let path = "/api/v4/origdatablocks/stream?datasetId=p%2F1";
    let lines = [("content-type", "application/x-ndjson")];
    ann.send("POST", path, &lines, line.as_bytes()).await.is(400);
    ann.send("POST", &format!("{path}&size={}", MAX + 1), &lines, b"{}").await.is(400);
    ann.post("/api/v3/origdatablocks", &with(MAX, MAX)).await.is(201);
    let small = line.replace(&(MAX + 1).to_string(), "1");
    ann.send("POST", &format!("{path}&size={MAX}"), &lines, small.as_bytes()).await.is(201);
    service.stop().await;
}

#[tokio::test]
async fn a_body_of_many_faults_has_a_short_answer() {
    let service = serve("many_faults", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let body: Value = (0..10_000).map(|n| (format!("unheard_{n}"), json!(1))).collect();
    for (method, path) in [
        ("POST", "/api/v3/datasets"),
        ("POST", "/api/v4/datasets"),
        ("PATCH", "/api/v3/datasets/p%2F1"),
        ("PATCH", "/api/v4/datasets/p%2F1"),
        ("PATCH", "/api/v4/datasets/p%2F1/datasetlifecycle"),
        ("PUT", "/api/v4/datasets/p%2F1"),
        ("POST", "/api/v3/origdatablocks"),
        ("POST", "/api/v3/datasets/p%2F1/attachments"),
        ("POST", "/api/v4/datasets/isvalid"),
        ("POST", "/api/v4/origdatablocks/isvalid"),
    ] {
        let mut body = body.clone();
        body["ownerGroup"] = "group1".into();
        let json = [("content-type", "application/json")];
        let answer = ann.send(method, path, &json, body.to_string().as_bytes()).await;
        assert!(answer.body.len() < 5_000, "{method} {path}: {} bytes", answer.body.len());
        assert!([200, 400].contains(&answer.status), "{method} {path}: {}", answer.status);
    }
    service.stop().await;
}

/// Metadata that the database stores in about eight times the bytes of its JSON.
fn wide(numbers: usize) -> Value {
    json!({"list": {"value": vec![1.5; numbers], "unit": ""}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_the_database_cannot_hold_is_too_large() {
    let service = serve("large_document", "limits: {answers_bytes_max: 2000000000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let mut body = raw("p/1");
    body["scientificMetadata"] = wide(1_100_000);
    ann.post("/api/v3/datasets", &body).await.is(413);
    let small = raw("p/2")
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "principalInvestigator")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<Value>();
    let mut large = small.clone();
    large["pid"] = "p/3".into();
    large["scientificMetadata"] = wide(1_100_000);
    let lines = format!("{large}\n{small}\n");
    let answer = ann
        .send("POST", "/api/v4/datasets/bulk", &[("content-type", "application/x-ndjson")], lines.as_bytes())
        .await
        .is(201);
    let status = |line: usize| answer["results"][line]["statusCode"].clone();
    assert_eq!([status(0), status(1)], [413, 201], "a line that is too large fails alone");
    let mut file = block("p/2", 1);
    file["dataFileList"][0]["chk"] = "c".repeat(15_900_000).into();
    ann.post("/api/v3/origdatablocks", &file).await.is(413);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_dataset_can_be_changed_and_removed() {
    let service = serve("large_history", "limits: {answers_bytes_max: 2000000000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let path = "/api/v3/datasets/p%2F1";
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    // As SciCat may have stored it: only just below the limit of the server.
    let datasets = service.context().state.database.collection::<Document>("Dataset");
    let large = "x".repeat((16 << 20) - 2_000);
    datasets.update_one(doc! {"_id": "p/1"}, doc! {"$set": {"description": &large}}).await.unwrap();
    ann.patch(path, &[], &json!({"description": "y".repeat(9 << 20)})).await.is(200);
    ann.patch(path, &[], &json!({"description": "short"})).await.is(200);
    let history = ann.get(path).await.is(200)["history"].clone();
    assert_eq!(history[0]["description"]["currentValue"], "short");
    datasets.update_one(doc! {"_id": "p/1"}, doc! {"$set": {"description": &large}}).await.unwrap();
    let mut cleaner = Client::user(service.address(), "cleaner").await;
    cleaner.delete(path).await.is(200);
    ann.get(path).await.is(404);
    service.stop().await;
}

#[tokio::test]
async fn a_write_is_answered_whatever_the_client_has() {
    let service = serve("none_match", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let any = [("if-none-match", "*")];
    let path = "/api/v3/datasets/p%2F1";
    let changed = ann.patch(path, &any, &json!({"description": "d"})).await.is(200);
    assert_eq!(changed["description"], "d");
    ann.send("POST", "/api/v4/datasets/p%2F1/size/verify", &any, b"").await.is(200);
    ann.send("POST", "/api/v3/datasets/isvalid", &any, raw("p/2").to_string().as_bytes()).await.is(200);
    assert_eq!(ann.send("GET", path, &any, b"").await.status, 304);
    let mut cleaner = Client::user(service.address(), "cleaner").await;
    assert_eq!(cleaner.send("DELETE", path, &any, b"").await.is(200)["pid"], "p/1");
    service.stop().await;
}
