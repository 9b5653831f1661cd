//! Tests a stop of the service under load: acknowledged data is stored.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_telemetry::readings::{RangeQuery, Readings, Settings};
use plimsoll_telemetry::serve::Ending;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::bench::{database, now_ms, reading, start};
use super::client::Client;
use crate::activities;

const INGEST: &str = "/api/telemetry/ingest";
const BATCH: &str = "/api/telemetry/ingest/batch";
const BATCH_READINGS: i64 = 20;

/// Sends readings until the connection ends, and returns the times of those answered 201.
async fn load(address: SocketAddr, sensor: String, stop: Arc<AtomicBool>) -> Vec<i64> {
    let mut client = Client::connect(address).await;
    let (begun, mut acknowledged) = (now_ms(), Vec::new());
    for n in 0.. {
        let at = begun - n;
        let body = reading(&sensor, at, 1.0).to_string();
        match client.try_send("POST", INGEST, &[], body.as_bytes()).await {
            Ok(answer) if answer.status == 201 => acknowledged.push(at),
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
            Err(_) => break,
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    acknowledged
}

/// The times of all stored readings of a sensor.
async fn found(readings: &Readings, sensor: &str) -> BTreeSet<i64> {
    let (from_ms, to_ms) = (0, i64::MAX);
    let mut query = RangeQuery { sensor: sensor.to_owned(), from_ms, to_ms, after: None, limit: 10_000 };
    let mut found = BTreeSet::new();
    loop {
        let page = readings.range(&query).await.unwrap();
        found.extend(page.readings.iter().map(|it| it.at_ms));
        query.after = page.next;
        if query.after.is_none() {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_loses_no_acknowledged_reading() {
    let service = start("shutdown", "readings: {gather: 20ms}").await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..16).map(|n| tokio::spawn(load(service.address(), format!("s{n}"), stop.clone()))).collect();
    let counters = service.context().state.readings.clone();
    while counters.counters().new < 500 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(service.stop().await, Ending::Drained);
    stop.store(true, Ordering::Relaxed);

    let readings = Readings::open(&database("shutdown").await, Settings::default()).await.unwrap();
    let mut all = 0;
    for (n, writer) in writers.into_iter().enumerate() {
        let acknowledged = writer.await.unwrap();
        let found = found(&readings, &format!("s{n}")).await;
        assert!(acknowledged.iter().all(|at| found.contains(at)), "a reading answered 201 is missing");
        all += acknowledged.len();
    }
    assert!(all >= 400, "{all}");
}

/// Sends batches until the connection ends, each with one invalid reading if `mixed`. Returns the times of the acknowledged
/// readings: all in a 201 or 207 except those listed as failed.
async fn load_batches(address: SocketAddr, sensor: String, mixed: bool, stop: Arc<AtomicBool>) -> Vec<i64> {
    let mut client = Client::connect(address).await;
    let (begun, mut acknowledged) = (now_ms(), Vec::new());
    for n in 0.. {
        let times: Vec<i64> = (0..BATCH_READINGS).map(|k| begun - n * BATCH_READINGS - k).collect();
        let mut batch: Vec<Value> = times.iter().map(|at| reading(&sensor, *at, 1.0)).collect();
        if mixed {
            batch[2]["temperature"] = json!("warm");
        }
        let body = Value::Array(batch).to_string();
        match client.try_send("POST", BATCH, &[], body.as_bytes()).await {
            Ok(answer) if [201, 207].contains(&answer.status) => {
                assert!(answer.status == 207 || !mixed);
                let failed = answer.json()["failed"].clone();
                let failed: BTreeSet<_> =
                    failed.as_array().unwrap().iter().filter_map(|it| it["line"].as_u64()).collect();
                let stored = (1..).zip(times).filter(|(line, _)| !failed.contains(line));
                acknowledged.extend(stored.map(|(_, at)| at));
            }
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
            Err(_) => break,
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    acknowledged
}

/// Posts activities until the connection ends, and returns the ids of those answered 201.
async fn load_activities(address: SocketAddr, user: String, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut client = Client::connect(address).await;
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let id = format!("{user}-{n}");
        let body = json!({"activityId": id, "userId": user, "type": "post"}).to_string();
        match client.try_send("POST", "/api/activity", &[], body.as_bytes()).await {
            Ok(answer) if answer.status == 201 => acknowledged.push(id),
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
            Err(_) => break,
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_loses_no_acknowledged_batch_or_activity() {
    let service = start("shutdown_many", "readings: {gather: 20ms}").await;
    let (address, stop) = (service.address(), Arc::new(AtomicBool::new(false)));
    let batches: Vec<_> = (0..8)
        .map(|n| tokio::spawn(load_batches(address, format!("s{n}"), n % 2 == 0, stop.clone())))
        .collect();
    let posts: Vec<_> =
        (0..4).map(|n| tokio::spawn(load_activities(address, format!("u{n}"), stop.clone()))).collect();
    let database = database("shutdown_many").await;
    let counters = service.context().state.readings.clone();
    while counters.counters().new < 1_000 || activities::stored(&database).await.len() < 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(service.stop().await, Ending::Drained);
    stop.store(true, Ordering::Relaxed);

    let readings = Readings::open(&database, Settings::default()).await.unwrap();
    for (n, batches) in batches.into_iter().enumerate() {
        let acknowledged = batches.await.unwrap();
        let found = found(&readings, &format!("s{n}")).await;
        assert!(!acknowledged.is_empty() && acknowledged.iter().all(|at| found.contains(at)), "s{n}");
    }
    let found = activities::stored(&database).await;
    for posts in posts {
        let acknowledged = posts.await.unwrap();
        assert!(acknowledged.iter().all(|id| found.contains(id)), "an activity answered 201 is missing");
    }
}

#[tokio::test]
async fn a_stop_finishes_a_begun_request_and_accepts_no_other() {
    let service = start("last", "").await;
    let address = service.address();
    let mut client = Client::connect(address).await;
    let mut idle = Client::connect(address).await;
    idle.get("/healthz").await.is(200);
    let body = reading("s", now_ms(), 1.0).to_string();
    let head = format!("POST {INGEST} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", body.len());
    client.stream.write_all(head.as_bytes()).await.unwrap();
    // The request has begun once the metric counts it.
    while !idle.get("/metrics").await.text().contains("in_flight 1\n") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let shared = service.context().clone();
    let ending = tokio::spawn(service.stop());
    while !shared.is_stopping() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(client.answer().await.unwrap().is(201).json(), json!({"stored": "new"}));
    assert_eq!(ending.await.unwrap(), Ending::Drained);
    assert!(idle.try_send("GET", "/healthz", &[], b"").await.is_err(), "an idle connection is closed");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn a_connection_beyond_the_drain_time_is_cut_off() {
    let service = start("cut", "limits: {drain: 200ms}").await;
    let mut client = Client::connect(service.address()).await;
    let head = format!("POST {INGEST} HTTP/1.1\r\nhost: t\r\ncontent-length: 10\r\n\r\n");
    client.stream.write_all(head.as_bytes()).await.unwrap();
    let mut other = Client::connect(service.address()).await;
    while !other.get("/metrics").await.text().contains("in_flight 1\n") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(service.stop().await, Ending::Cut { connections: 1 });
    assert!(client.answer().await.is_err());
}
