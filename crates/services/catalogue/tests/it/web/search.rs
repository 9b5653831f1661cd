//! Tests the text search over HTTP.

use serde_json::{Value, json};

use super::bench::{raw, serve};
use super::client::{Client, encoded};
use super::stream::LINES;

async fn found(client: &mut Client, text: &str) -> Value {
    let fields = encoded(&json!({"text": text}).to_string());
    client.get(&format!("/api/v3/datasets/fullquery?fields={fields}")).await.is(200)
}

#[tokio::test]
async fn the_index_of_texts_is_in_no_answer_and_no_client_changes_it() {
    let service = serve("search_hidden", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let mut named = raw("p/1");
    named["datasetName"] = "overview scan".into();
    let mut answers = vec![ann.post("/api/v3/datasets", &named).await.is(201)];
    named["searchGrams"] = json!([1]);
    ann.post("/api/v3/datasets", &named).await.is(400);
    ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"searchGrams": [1]})).await.is(400);
    answers.push(ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"datasetName": "detail"})).await.is(200));
    answers.push(ann.get("/api/v3/datasets/p%2F1").await.is(200));
    let fields = encoded(&json!({"fields": ["searchGrams", "datasetName"]}).to_string());
    answers.push(ann.get(&format!("/api/v3/datasets?filter={fields}")).await.is(200));
    answers.push(found(&mut ann, "etai").await);
    assert_eq!(answers[4][0]["datasetName"], "detail");
    assert_eq!(found(&mut ann, "overview").await, json!([]));
    let line = bulk_line();
    let bulk = ann.send("POST", "/api/v4/datasets/bulk", &LINES, line.as_bytes()).await.is(201);
    assert_eq!(bulk["created"], 1, "{bulk}");
    answers.push(found(&mut ann, "many").await);
    assert_eq!(answers[5][0]["pid"], "p/2");
    let mut admin = Client::user(service.address(), "admin").await;
    answers.push(admin.delete("/api/v3/datasets/p%2F2").await.is(200));
    let history = encoded(&json!({"subsystem": "Dataset", "documentId": "p/2"}).to_string());
    answers.push(admin.get(&format!("/api/v3/history?filter={history}")).await.is(200));
    assert_eq!(answers[7]["items"][0]["before"]["datasetName"], "one of many");
    for answer in answers {
        assert!(!answer.to_string().contains("searchGrams"), "{answer}");
    }
    service.stop().await;
}

fn bulk_line() -> String {
    let mut line = raw("p/2");
    line["datasetName"] = "one of many".into();
    line.as_object_mut().unwrap().remove("principalInvestigator");
    format!("{line}\n")
}

#[tokio::test]
async fn a_text_without_a_word_of_three_characters_is_refused_with_the_rule() {
    let service = serve("search_short", "").await;
    let mut anyone = Client::connect(service.address()).await;
    let refused = anyone.get("/api/v3/datasets/fullquery?fields=%7B%22text%22:%22ab%22%7D").await.is(400);
    assert_eq!(refused["message"], "search for a word of 3 characters or more");
    service.stop().await;
}
