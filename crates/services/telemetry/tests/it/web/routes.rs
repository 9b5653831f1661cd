//! Tests the success of every route.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::bench::{now_ms, reading, served, stored};
use super::client::Client;

const INGEST: &str = "/api/telemetry/ingest";
const BATCH: &str = "/api/telemetry/ingest/batch";
const LINES: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];

#[tokio::test]
async fn a_retried_reading_is_stored_once_and_answered_201() {
    let (service, mut client) = served("ingest").await;
    let now = now_ms();
    let sent = json!({
        "sensorId": "sensor-1", "timestamp": "2026-01-31T12:00:00.000Z", "temperature": 21.5, "humidity": 40,
        "pressure": 1013.25, "batteryLevel": 99.5,
    });
    assert_eq!(client.post(INGEST, &sent).await.is(201).json(), json!({"stored": "new"}));
    assert_eq!(client.post(INGEST, &sent).await.is(201).json(), json!({"stored": "known"}));
    let part = |humidity: f64| json!({"sensorId": "s", "timestamp": now, "humidity": humidity});
    for (sent, outcome) in [
        (reading("s", now, 21.5), "new"),
        (part(40.0), "known, merged"),
        (part(40.0), "known"),
        (part(41.0), "known, differs"),
    ] {
        assert_eq!(client.post(INGEST, &sent).await.is(201).json(), json!({"stored": outcome}));
    }
    let latest = client.get("/api/telemetry/s/latest").await.is(200).json();
    assert_eq!((&latest["temperature"], &latest["humidity"]), (&json!(21.5), &json!(40.0)));
    let mut other = reading("sensor-1", now, 1.0);
    other["eventId"] = json!("e1");
    assert_eq!(client.post(INGEST, &other).await.is(201).json()["stored"], "new");
    other["eventId"] = json!("e2");
    assert_eq!(client.post(INGEST, &other).await.is(201).json()["stored"], "new");
    let latest = client.get("/api/telemetry/sensor-1/latest").await.is(200).json();
    assert_eq!(latest["timestamp"], now);
    assert_eq!(stored("ingest").await, 4);
    service.stop().await;
}

#[tokio::test]
async fn a_batch_is_answered_line_by_line_in_either_form() {
    let (service, mut client) = served("batch").await;
    let now = now_ms();
    let good: Vec<Value> = (0..2_000).map(|n| reading(&format!("s{}", n % 10), now - n, n as f64)).collect();
    let all = client.post(BATCH, &Value::Array(good.clone())).await.is(201).json();
    assert_eq!(
        all,
        json!({"received": 2000, "new": 2000, "known": 0, "merged": 0, "differs": [], "failed": []})
    );
    let again = [
        good[0].clone(),
        reading("s1", now - 1, 7.0),
        json!({"sensorId": "s2", "timestamp": now - 2, "a": 1}),
    ];
    let again = client.post(BATCH, &json!(again)).await.is(201).json();
    let differs = json!([{"line": 2, "stored": "known, differs"}]);
    let expected =
        json!({"received": 3, "new": 0, "known": 3, "merged": 1, "differs": differs, "failed": []});
    assert_eq!(again, expected);

    let late = reading("s0", now - 5_000_000, 1.0).to_string();
    let body = format!(
        "{}\n{{\"sensorId\":\n\n{late}\n{{\"sensorId\":\"s\",\"timestamp\":{now},\"t\":\"x\"}}\n",
        good[0]
    );
    let some = client.send("POST", BATCH, &LINES, body.as_bytes()).await.is(207).json();
    assert_eq!((&some["new"], &some["known"], &some["received"]), (&json!(1), &json!(1), &json!(4)));
    let failed = some["failed"].as_array().unwrap();
    assert_eq!(failed.iter().map(|it| it["line"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 5]);
    assert_eq!((&failed[1]["field"], &failed[1]["retry"]), (&json!("t"), &json!(false)));

    let none = client.send("POST", BATCH, &LINES, b"NaN\n[]\n").await.problem(422);
    assert_eq!(none["failed"].as_array().unwrap().len(), 2);
    assert_eq!(stored("batch").await, 2_001);
    service.stop().await;
}

#[tokio::test]
async fn the_lists_of_a_batch_are_capped_and_say_so() {
    let (service, mut client) = served("batch_lists").await;
    let now = now_ms();
    let good: Vec<String> = (0..150).map(|n| reading("s", now - n, 1.0).to_string()).collect();
    let body = good.join("\n") + &"\n{}".repeat(350);
    let some = client.send("POST", BATCH, &LINES, body.as_bytes()).await.is(207).json();
    assert_eq!((some["failed"].as_array().unwrap().len(), &some["omitted"]), (100, &json!(250)));
    assert_eq!(
        (&some["new"], &some["received"], &some["failed"][0]["line"]),
        (&json!(150), &json!(500), &json!(151))
    );
    let changed: Vec<Value> = (0..150).map(|n| reading("s", now - n, 2.0)).collect();
    let known = client.post(BATCH, &json!(changed)).await.is(201).json();
    assert_eq!((known["differs"].as_array().unwrap().len(), &known["differs_omitted"]), (100, &json!(50)));
    let none = client.send("POST", BATCH, &LINES, "{}\n".repeat(350).as_bytes()).await.problem(422);
    assert_eq!((none["failed"].as_array().unwrap().len(), &none["omitted"]), (100, &json!(250)));
    assert_eq!(none["received"], json!(350));
    service.stop().await;
}

async fn fill(client: &mut Client, now: i64) {
    let minute = 60_000;
    let readings: Vec<Value> = (0..100)
        .flat_map(|n| {
            [("a", 1.0), ("b", -1.0)].map(|(name, sign)| reading(name, now - n * minute, sign * n as f64))
        })
        .collect();
    client.post(BATCH, &Value::Array(readings)).await.is(201);
}

#[tokio::test]
async fn statistics_cover_the_window_and_its_intervals() {
    let (service, mut client) = served("statistics").await;
    let now = now_ms();
    fill(&mut client, now).await;
    let hour = client.get("/api/telemetry/stats/a?window=1h").await.is(200).json();
    let metric = &hour["metrics"]["temperature"];
    let count = metric["count"].as_u64().unwrap();
    // The test may take a minute, and the window then excludes the oldest reading.
    assert!((59..=60).contains(&count), "{hour}");
    assert_eq!((&metric["min"], &metric["max"]), (&json!(0.0), &json!((count - 1) as f64)));
    assert_eq!(metric["mean"], json!((count - 1) as f64 / 2.0));
    assert_eq!(metric["p50"], json!(((count - 1) / 2) as f64));

    let (from, to) = (now - 99 * 60_000, now + 1);
    let path = format!("/api/telemetry/stats/a?from={from}&to={to}&interval=50m&detail=summary");
    let two = client.get(&path).await.is(200).json();
    let intervals = two["intervals"].as_array().unwrap();
    let metric = |n: usize| &intervals[n]["metrics"]["temperature"];
    assert_eq!((&metric(0)["count"], &metric(1)["count"]), (&json!(50), &json!(50)));
    assert_eq!((&metric(0)["min"], &metric(1)["max"]), (&json!(50.0), &json!(49.0)));
    assert!(metric(0).get("p50").is_none());

    let asked = json!({"sensors": ["a", "b", "none"], "from": from, "to": to, "interval": "50m"});
    let many = client.post("/api/telemetry/stats", &asked).await.is(200).json();
    let sensors = many["sensors"].as_array().unwrap();
    assert_eq!(sensors.iter().map(|it| it["sensorId"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(many["unknown"], json!(["none"]), "the GET answers 404 for this sensor");
    assert_eq!(sensors[0]["intervals"][0]["metrics"]["temperature"]["p99"], 99.0);
    assert_eq!(sensors[1]["intervals"][1]["metrics"]["temperature"]["max"], 0.0);
    let silent = json!({"sensors": ["none", "a"], "from": 0, "to": 1000});
    let silent = client.post("/api/telemetry/stats", &silent).await.is(200).json();
    assert_eq!(silent["sensors"], json!([{"sensorId": "a", "intervals": []}]));
    let nobody = client.post("/api/telemetry/stats", &json!({"sensors": ["none", "nix"]})).await.problem(404);
    assert_eq!(nobody["unknown"], json!(["none", "nix"]));

    let empty = client.get("/api/telemetry/stats/a?from=0&to=1000").await.is(200).json();
    assert_eq!(empty["metrics"], json!({}));
    service.stop().await;
}

#[tokio::test]
async fn readings_are_paged_in_order() {
    let (service, mut client) = served("range").await;
    let now = now_ms();
    fill(&mut client, now).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/telemetry/a?from={}&to={}&limit=33{cursor}", now - 90 * 60_000, now + 1);
        let page = client.get(&path).await.is(200).json();
        let readings = page["readings"].as_array().unwrap();
        seen.extend(readings.iter().map(|it| it["timestamp"].as_i64().unwrap()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..=90).rev().map(|n| now - n * 60_000).collect::<Vec<_>>());
    service.stop().await;
}

#[tokio::test]
async fn a_feed_shows_the_activities_of_followed_users() {
    let (service, mut client) = served("feed").await;
    for (id, user) in [("1", "bob"), ("2", "cid"), ("3", "ann")] {
        let activity = json!({"activityId": id, "userId": user, "type": "post", "text": "hi", "timestamp": id.parse::<i64>().unwrap()});
        let first = client.post("/api/activity", &activity).await.is(201).json();
        assert_eq!(first["stored"], "new");
        assert_eq!(client.post("/api/activity", &activity).await.is(201).json()["stored"], "known");
    }
    async fn ids(client: &mut Client) -> Vec<String> {
        let feed = client.get("/api/activity/ann?limit=50").await.is(200).json();
        let ids = feed["activities"].as_array().unwrap().iter().map(|it| it["activityId"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    }
    assert_eq!(ids(&mut client).await, ["3"]);
    client.send("PUT", "/api/activity/ann/following/bob", &[], b"").await.is(204);
    assert_eq!(ids(&mut client).await, ["3", "1"]);
    client.post("/api/activity/ann/following", &json!({"userIds": ["cid", "bob"]})).await.is(204);
    assert_eq!(ids(&mut client).await, ["3", "2", "1"]);
    client.send("DELETE", "/api/activity/ann/following/bob", &[], b"").await.is(204);
    assert_eq!(ids(&mut client).await, ["3", "2"]);
    let page = client.get("/api/activity/ann?limit=1").await.is(200).json();
    let next =
        client.get(&format!("/api/activity/ann?limit=1&cursor={}", page["next"].as_str().unwrap())).await;
    assert_eq!(next.is(200).json()["activities"][0]["activityId"], "2");
    assert_eq!(
        client.get("/api/activity/nobody").await.is(200).json(),
        json!({"activities": [], "next": null})
    );
    service.stop().await;
}

#[tokio::test]
async fn health_readiness_and_metrics_are_served() {
    let (service, mut client) = served("health").await;
    assert_eq!(client.get("/healthz").await.is(200).json(), json!({"status": "ok"}));
    assert_eq!(client.get("/readyz").await.is(200).json(), json!({"status": "ready"}));
    client.post(INGEST, &reading("s", now_ms(), 1.0)).await.is(201);
    client.post(INGEST, &json!({})).await.is(422);
    let metrics = client.get("/metrics").await.is(200);
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    for line in [
        "telemetry_http_requests_total{endpoint=\"ingest\",status=\"201\"} 1\n",
        "telemetry_http_requests_total{endpoint=\"ingest\",status=\"422\"} 1\n",
        "telemetry_http_request_duration_seconds_count{endpoint=\"ingest\"} 2\n",
        "telemetry_readings_total{outcome=\"new\"} 1\n",
        "telemetry_commit_readings_count 1\n",
        "telemetry_http_connections 1\n",
        "telemetry_http_requests_in_flight 0\n",
        "telemetry_pool_waiting 0\n",
        "telemetry_pool_checkout_failures_total{reason=\"timeout\"} 0\n",
    ] {
        assert!(metrics.text().contains(line), "{line} is not in {}", metrics.text());
    }
    let waited =
        metrics.text().lines().find_map(|line| line.strip_prefix("telemetry_pool_wait_seconds_count "));
    assert!(
        waited.unwrap().parse::<u64>().unwrap() > 0,
        "every operation has taken a connection of the pool"
    );
    service.stop().await;
}

#[tokio::test]
async fn every_line_of_the_metrics_is_valid_for_prometheus() {
    let (service, mut client) = served("exposition").await;
    let metrics = client.get("/metrics").await.is(200);
    let mut begun = String::new();
    for line in metrics.text().lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            begun = rest.split(' ').next().unwrap().to_owned();
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(&begun), "{line} does not belong to {begun}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn every_described_route_exists() {
    let (service, mut client) = served("openapi").await;
    let document = client.get("/openapi.json").await.is(200).json();
    let paths = document["paths"].as_object().unwrap();
    let described: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
        })
        .collect();
    assert_eq!(document, plimsoll_telemetry::api::document());
    assert_eq!(described.len(), 15);
    for (method, path) in described {
        let path = path.replace(['{', '}'], "");
        let answer = client.send(&method.to_uppercase(), &path, &[], b"").await;
        let there = answer.status != 405 && (answer.status != 404 || answer.text().contains("no reading"));
        assert!(there, "{method} {path}: {} {}", answer.status, answer.text());
    }
    service.stop().await;
}

#[tokio::test]
async fn every_reference_of_the_description_resolves() {
    fn check(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = target.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{target} is missing");
                }
                fields.values().for_each(|value| check(value, document));
            }
            Value::Array(all) => all.iter().for_each(|value| check(value, document)),
            _ => {}
        }
    }
    let document = plimsoll_telemetry::api::document();
    check(&document, &document);
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|it| it.as_object().unwrap().values());
    for operation in operations {
        assert!(operation["summary"].is_string() && operation["responses"].is_object(), "{operation}");
    }
}
