//! Tests the limits: refusals with a retry time, and slow clients that do not block others.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::CursorType;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::bench::{now_ms, reading, start, stored};
use super::client::Client;

const INGEST: &str = "/api/telemetry/ingest";
const BATCH: &str = "/api/telemetry/ingest/batch";
/// The timeout on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn batch(readings: i64) -> Value {
    let now = now_ms();
    Value::Array((0..readings).map(|n| reading("s", now - n, 1.0)).collect())
}

#[tokio::test]
async fn readings_beyond_the_queue_get_a_retry_time() {
    let service = start("queue", "readings: {queue_max: 10, gather: 1s}").await;
    let (address, now) = (service.address(), now_ms());
    let first = (0..10).map(|n| {
        tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            client.post(INGEST, &reading("s", now - n, 1.0)).await.is(201);
        })
    });
    let first: Vec<_> = first.collect();
    // A caller that arrives while the first readings are gathered finds the queue full.
    let mut late = Client::connect(address).await;
    let full = async {
        while !late.get("/metrics").await.text().contains("telemetry_readings_queued 10\n") {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, full).await.unwrap();
    let refused = late.post(INGEST, &reading("late", now_ms(), 1.0)).await;
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    refused.problem(429);
    let problem = late.post(BATCH, &batch(3)).await.problem(429);
    assert_eq!(problem["failed"].as_array().unwrap().len(), 3);
    assert!(problem["failed"].as_array().unwrap().iter().all(|it| it["retry"] == true), "{problem}");
    for one in first {
        one.await.unwrap();
    }
    assert_eq!(stored("queue").await, 10);
    late.post(BATCH, &batch(30)).await.is(201);
    service.stop().await;
}

#[tokio::test]
async fn a_batch_of_too_many_readings_is_refused() {
    let service = start("many", "limits: {batch_readings_max: 10}").await;
    let mut client = Client::connect(service.address()).await;
    client.post(BATCH, &batch(11)).await.problem(413);
    client.post(BATCH, &batch(10)).await.is(201);
    service.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_limit_get_a_retry_time() {
    let service =
        start("room", "limits: {requests_max: 1, queries_max: 1, query_wait: 30s, body: 30s}").await;
    let mut slow = Client::connect(service.address()).await;
    let body = reading("s", now_ms(), 1.0).to_string();
    let head = format!("POST {INGEST} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", body.len());
    slow.stream.write_all(head.as_bytes()).await.unwrap();
    let mut client = Client::connect(service.address()).await;
    in_flight(&mut client, 1).await;
    client.get("/api/activity/ann").await.is(200);
    let running = service.context().state.queries.begin().await.unwrap();
    let mut waiting = Client::connect(service.address()).await;
    let waits = tokio::spawn(async move { waiting.get("/api/activity/ann").await.status });
    in_flight(&mut client, 2).await;
    let refused = client.get("/api/activity/ann").await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.problem(429);
    client.get("/healthz").await.is(200);
    drop(running);
    assert_eq!(waits.await.unwrap(), 200);
    slow.stream.write_all(body.as_bytes()).await.unwrap();
    slow.answer().await.unwrap().is(201);
    service.stop().await;
}

/// Waits until so many requests are in flight.
async fn in_flight(client: &mut Client, count: u32) {
    timeout(PATIENCE, async {
        while !client
            .get("/metrics")
            .await
            .text()
            .contains(&format!("telemetry_http_requests_in_flight {count}\n"))
        {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn bodies_beyond_the_budget_get_a_retry_time() {
    let limits =
        "limits: {bodies_bytes_max: 65536, body_bytes_max: 65536, batch_bytes_max: 65536, body: 30s}";
    let service = start("memory", limits).await;
    let mut slow = Client::connect(service.address()).await;
    let head = format!("POST {BATCH} HTTP/1.1\r\nhost: t\r\ncontent-length: 65536\r\n\r\n");
    slow.stream.write_all(format!("{head}{}", " ".repeat(65_535)).as_bytes()).await.unwrap();
    let mut client = Client::connect(service.address()).await;
    timeout(PATIENCE, async {
        while !client.get("/metrics").await.text().contains("telemetry_http_body_bytes 65536\n") {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    client.post(INGEST, &reading("s", now_ms(), 1.0)).await.problem(429);
    drop(slow);
    timeout(PATIENCE, async {
        while client.post(INGEST, &reading("s", now_ms(), 1.0)).await.status != 201 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    service.stop().await;
}

#[tokio::test]
async fn statistics_beyond_the_limits_are_refused_with_a_hint() {
    let service = start("figures", "limits: {summaries_max: 800}").await;
    let mut client = Client::connect(service.address()).await;
    let now = now_ms();
    let readings: Vec<Value> = (0..10)
        .map(|n| json!({"sensorId": "s", "timestamp": now - n * 60_000, "a": 1, "b": 2, "c": 3, "d": 4}))
        .collect();
    client.post(BATCH, &Value::Array(readings)).await.is(201);
    let sensors: Vec<String> = (0..100).map(|n| format!("s{n}")).collect();
    let asked = json!({"sensors": sensors, "window": "31d", "interval": "5m", "detail": "summary"});
    let problem = client.post("/api/telemetry/stats", &asked).await.problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("longer intervals"), "{problem}");
    // Intervals count with or without readings, and summaries when they are found.
    client.get("/api/telemetry/stats/s?window=15h&interval=1m").await.problem(422);
    client.get("/api/telemetry/stats/s?window=10h&interval=1m").await.is(200);
    service.stop().await;
    let service = start("figures", "limits: {summaries_max: 39}").await;
    let mut client = Client::connect(service.address()).await;
    let path = format!("/api/telemetry/stats/s?from={}&to={}&detail=summary", now - 600_000, now + 1);
    client.get(&format!("{path}&interval=30m")).await.is(200);
    let problem = client.get(&format!("{path}&interval=1m")).await.problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("metrics"), "{problem}");
    service.stop().await;
}

#[tokio::test]
async fn answers_beyond_the_budget_get_a_retry_time() {
    let service = start("answers", "limits: {answers_bytes_max: 262144}").await;
    let mut client = Client::connect(service.address()).await;
    client.post(BATCH, &batch(10)).await.is(201);
    client.post("/api/activity", &json!({"userId": "ann", "type": "post"})).await.is(201);
    let answers = service.context().answers.clone();
    let others = answers.reservation();
    others.grow(262_144).unwrap();
    let many = json!({"sensors": ["s"]});
    for path in ["/api/telemetry/stats/s", "/api/telemetry/s", "/api/activity/ann"] {
        let refused = client.get(path).await;
        assert_eq!(refused.header("retry-after"), Some("1"), "{path}");
        refused.problem(429);
    }
    client.post("/api/telemetry/stats", &many).await.problem(429);
    assert!(client.get("/metrics").await.text().contains("telemetry_http_answer_bytes 262144\n"));
    drop(others);
    for path in ["/api/telemetry/stats/s", "/api/telemetry/s", "/api/activity/ann"] {
        client.get(path).await.is(200);
    }
    client.post("/api/telemetry/stats", &many).await.is(200);

    // The answer exceeds the part of a connection: a retry would not help.
    client.post(BATCH, &batch(5_000)).await.is(201);
    let problem = client.get("/api/telemetry/stats/s?window=1h").await.problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("shorter window"), "{problem}");
    client.get("/api/telemetry/stats/s?window=1h&detail=summary").await.is(200);
    timeout(PATIENCE, async {
        while answers.taken_bytes() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    service.stop().await;
}

#[tokio::test]
async fn writes_are_acknowledged_while_as_many_queries_run_as_may() {
    let service = start("queries", "limits: {queries_max: 2, query_wait: 20ms}").await;
    let mut client = Client::connect(service.address()).await;
    client.post(INGEST, &reading("s", now_ms(), 1.0)).await.is(201);
    let context = service.context().clone();
    let running =
        [context.state.queries.begin().await.unwrap(), context.state.queries.begin().await.unwrap()];
    let paths =
        ["/api/telemetry/stats/s", "/api/telemetry/s", "/api/telemetry/s/latest", "/api/activity/ann"];
    for path in paths {
        let refused = client.get(path).await;
        assert_eq!(refused.header("retry-after"), Some("1"), "{path}");
        refused.problem(429);
    }
    client.post("/api/telemetry/stats", &json!({"sensors": ["s"]})).await.problem(429);
    assert!(client.get("/metrics").await.text().contains("telemetry_queries_running 2\n"));
    client.post(INGEST, &reading("s", now_ms(), 1.0)).await.is(201);
    client.post(BATCH, &batch(10)).await.is(201);
    client.post("/api/activity", &json!({"userId": "ann", "type": "post"})).await.is(201);
    drop(running);
    for path in paths {
        client.get(path).await.is(200);
    }
    service.stop().await;
}

#[tokio::test]
async fn writes_have_connections_of_their_own() {
    let service = start("pools", "database: {pool_max: 1, pool_min: 0}").await;
    let reads = service.context().state.read_database.clone();
    reads.create_collection("log").capped(true).size(4_096).await.unwrap();
    let log = reads.collection::<Document>("log");
    log.insert_one(doc! {}).await.unwrap();
    let tail = log.find(doc! {}).cursor_type(CursorType::TailableAwait).max_await_time(PATIENCE);
    let mut tail = tail.await.unwrap();
    assert!(tail.advance().await.unwrap());
    // The server keeps this query waiting for a second document, and with it the only connection of queries.
    let waiting = tokio::spawn(async move { tail.advance().await });
    let mut client = Client::connect(service.address()).await;
    let held = async {
        while !client.get("/metrics").await.text().contains("telemetry_pool_in_use 1\n") {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, held).await.unwrap();
    client.post(INGEST, &reading("s", now_ms(), 1.0)).await.is(201);
    client.post("/api/activity", &json!({"userId": "ann", "type": "post"})).await.is(201);
    assert!(!waiting.is_finished(), "the connection of queries was held all the time");
    waiting.abort();
    service.stop().await;
}

#[tokio::test]
async fn slow_clients_time_out() {
    let service = start("slow", "limits: {idle: 3s, body: 1s, request: 1s}").await;
    for beginning in ["", "G", "GET /healthz HTTP/1.1\r\nhost: t", "PRI * HTTP/2.0\r\n"] {
        let mut client = Client::connect(service.address()).await;
        client.stream.write_all(beginning.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended = timeout(PATIENCE, client.stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "no timeout after {beginning:?}");
    }
    let mut client = Client::connect(service.address()).await;
    let head = format!("POST {INGEST} HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\n{{");
    client.stream.write_all(head.as_bytes()).await.unwrap();
    timeout(PATIENCE, client.answer()).await.unwrap().unwrap().problem(408);
    service.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let service = start("turn", "limits: {connections_max: 2}").await;
    let mut first = Client::connect(service.address()).await;
    let mut second = Client::connect(service.address()).await;
    first.get("/healthz").await.is(200);
    second.get("/healthz").await.is(200);
    let mut third = Client::connect(service.address()).await;
    let (early, ()) = tokio::join!(timeout(Duration::from_millis(300), third.get("/healthz")), async {
        second.get("/healthz").await.is(200);
    });
    assert!(early.is_err(), "a third connection is not served while two are open");
    drop(first);
    // The request was sent; only its answer is missing.
    timeout(PATIENCE, third.answer()).await.unwrap().unwrap().is(200);
    service.stop().await;
}
