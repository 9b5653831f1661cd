//! Tests refusals: their status, and that no data is stored.

use plimsoll_telemetry::serve::Running;
use serde_json::{Value, json};

use super::bench::{now_ms, reading, served, stored};
use super::client::Client;

const INGEST: &str = "/api/telemetry/ingest";

/// A service with one reading of the sensor `known`.
async fn with_one(name: &str) -> (Running, Client) {
    let (service, mut client) = served(name).await;
    client.post(INGEST, &reading("known", now_ms(), 1.0)).await.is(201);
    (service, client)
}

#[tokio::test]
async fn an_invalid_reading_is_refused_with_its_field() {
    let (service, mut client) = with_one("bad_readings").await;
    let now = now_ms();
    let with = |field: &str, value: Value| {
        let mut json = reading("s", now, 1.0);
        json[field] = value;
        json
    };
    for (body, field) in [
        (with("timestamp", json!(now + 3_600_000)), "timestamp"),
        (with("timestamp", json!("2999-01-01T00:00:00Z")), "timestamp"),
        (with("timestamp", json!("yesterday")), "timestamp"),
        (with("timestamp", json!({"$date": 0})), "timestamp"),
        (with("temperature", json!("21.5")), "temperature"),
        (with("temperature", json!("NaN")), "temperature"),
        (with("temperature", json!(null)), "temperature"),
        (with("temperature", json!({"$gt": 0})), "temperature"),
        (with("temperature", json!([1])), "temperature"),
        (with("temperature", json!(1.7e308)), "temperature"),
        (with("temperature", json!(-1.1e300)), "temperature"),
        (with("sensorId", json!(7)), "sensorId"),
        (with("sensorId", json!({"$ne": null})), "sensorId"),
        (with("sensorId", json!("$where")), "sensorId"),
        (with("sensorId", json!("stats")), "sensorId"),
        (with("eventId", json!({"$exists": true})), "eventId"),
        (with("$where", json!("sleep(1000)")), "$where"),
        (with("$set", json!({"admin": 1})), "$set"),
        (with("a.b", json!(1)), "a.b"),
        (json!({"timestamp": now, "temperature": 1}), "sensorId"),
    ] {
        let problem = client.post(INGEST, &body).await.problem(422);
        assert_eq!(problem["fields"][0]["field"], field, "{problem}");
        let batch = client.post("/api/telemetry/ingest/batch", &json!([body])).await.problem(422);
        assert_eq!(batch["failed"][0]["field"], field, "{batch}");
    }
    assert_eq!(stored("bad_readings").await, 1, "only the good one");
    service.stop().await;
}

#[tokio::test]
async fn invalid_json_is_refused() {
    let (service, mut client) = with_one("no_json").await;
    let good = reading("s", now_ms(), 1.0).to_string();
    let bodies = [
        String::new(),
        "{".into(),
        good.replace("1.0", "NaN"),
        good.replace("1.0", "Infinity"),
        good.replace("1.0", "1e999"),
        good.replace('}', ",}"),
        format!("{good} {good}"),
        "[".repeat(50_000),
        "\u{0}".into(),
    ];
    for path in [INGEST, "/api/telemetry/stats", "/api/activity", "/api/activity/ann/following"] {
        for body in &bodies {
            client.post_text(path, body).await.problem(400);
        }
    }
    for body in &bodies[1..] {
        client.post_text("/api/telemetry/ingest/batch", &format!("[{good}, {body}]")).await.problem(400);
    }
    let head = [("content-type", "application/json")];
    client.send("POST", INGEST, &head, b"{\"sensorId\":\"\xff\"}").await.problem(400);
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/bson", "application/x-ndjson"]
    {
        client.send("POST", INGEST, &[("content-type", kind)], good.as_bytes()).await.problem(415);
    }
    assert_eq!(stored("no_json").await, 1);
    service.stop().await;
}

#[tokio::test]
async fn a_duplicate_key_is_refused() {
    let (service, mut client) = with_one("twice").await;
    let now = now_ms();
    let twice = format!(r#"{{"sensorId":"s","timestamp":{now},"t":1,"t":2}}"#);
    for (path, body) in [
        (INGEST, twice.clone()),
        (INGEST, format!(r#"{{"sensorId":"s","sensorId":"x","timestamp":{now},"t":1}}"#)),
        ("/api/telemetry/ingest/batch", format!("[{},{twice}]", reading("s", now, 1.0))),
        ("/api/telemetry/stats", r#"{"sensors":["known"],"window":"1h","window":"2h"}"#.into()),
        ("/api/activity", r#"{"userId":"ann","userId":"bob","type":"post"}"#.into()),
        ("/api/activity/ann/following", r#"{"userIds":["bob"],"userIds":["cid"]}"#.into()),
    ] {
        let problem = client.post_text(path, &body).await.problem(400);
        assert!(problem["detail"].as_str().unwrap().contains("duplicate key"), "{problem}");
    }
    let lines = format!("{twice}\n{}", reading("s", now, 1.0));
    let head = [("content-type", "application/x-ndjson")];
    let some =
        client.send("POST", "/api/telemetry/ingest/batch", &head, lines.as_bytes()).await.is(207).json();
    assert_eq!((&some["failed"][0]["line"], &some["new"]), (&json!(1), &json!(1)), "a line fails alone");
    assert_eq!(stored("twice").await, 2);
    service.stop().await;
}

#[tokio::test]
async fn a_body_of_10_mb_is_refused_everywhere_with_the_reason() {
    let (service, _) = with_one("large").await;
    let filling = " ".repeat(10 << 20);
    for path in [INGEST, "/api/telemetry/ingest/batch", "/api/activity", "/api/telemetry/stats"] {
        let mut client = Client::connect(service.address()).await;
        let problem = client.post_text(path, &filling).await.problem(413);
        assert!(problem["detail"].as_str().unwrap().contains("bytes"), "{problem}");
    }
    assert_eq!(stored("large").await, 1);
    service.stop().await;
}

#[tokio::test]
async fn a_chunked_body_is_limited_as_it_arrives() {
    use tokio::io::AsyncWriteExt;
    let (service, mut client) = with_one("chunked").await;
    let head = "POST /api/telemetry/ingest HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n";
    client.stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..10 {
        client.stream.write_all(format!("2800\r\n{}\r\n", " ".repeat(0x2800)).as_bytes()).await.unwrap();
    }
    client.stream.write_all(b"0\r\n\r\n").await.unwrap();
    client.answer().await.unwrap().problem(413);
    assert_eq!(stored("chunked").await, 1, "as before");
    service.stop().await;
}

#[tokio::test]
async fn a_page_in_a_browser_may_not_use_a_service_without_security() {
    let (service, mut client) = with_one("origin").await;
    let body = reading("s", now_ms(), 1.0).to_string();
    let batch = format!("[{body}]");
    // The request that a page may send to another site without a preflight: a body without a type, or with the type of a form.
    for origin in ["https://page.example", "null", "http://127.0.0.1:3000"] {
        for (path, body) in [(INGEST, &body), ("/api/telemetry/ingest/batch", &batch)] {
            let problem =
                client.send("POST", path, &[("origin", origin)], body.as_bytes()).await.problem(403);
            assert!(problem["detail"].as_str().unwrap().contains("keys"), "{problem}");
        }
        let head = [("origin", origin), ("content-type", "application/json")];
        client.send("POST", INGEST, &head, body.as_bytes()).await.problem(403);
        client.send("PUT", "/api/activity/ann/following/bob", &head, b"").await.problem(403);
        client.send("GET", "/api/telemetry/known/latest", &head, b"").await.problem(403);
        client.send("GET", "/healthz", &head, b"").await.is(200);
    }
    assert_eq!(stored("origin").await, 1, "as before");
    client.send("POST", INGEST, &[], body.as_bytes()).await.is(201);
    service.stop().await;
}

#[tokio::test]
async fn an_unknown_sensor_is_not_found() {
    let (service, mut client) = with_one("unknown").await;
    for path in
        ["/api/telemetry/stats/nobody?window=1h", "/api/telemetry/nobody/latest", "/api/telemetry/nobody"]
    {
        client.get(path).await.problem(404);
    }
    client.get("/api/telemetry/stats/known?window=1h").await.is(200);
    for path in ["/", "/api", "/api/telemetry", "/api/telemetry/a/b/c", "/admin", "/api/telemetry/%00%ff"] {
        let answer = client.get(path).await;
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.status);
    }
    let wrong = client.send("DELETE", INGEST, &[], b"").await;
    assert_eq!(wrong.header("allow"), Some("POST"));
    wrong.problem(405);
    service.stop().await;
}

#[tokio::test]
async fn hostile_queries_and_names_are_refused() {
    let (service, mut client) = with_one("hostile").await;
    for (path, status) in [
        ("/api/telemetry/stats/known?window[$gt]=1h", 400),
        ("/api/telemetry/stats/known?$where=1", 400),
        ("/api/telemetry/stats/known?window=1h&window=2h", 400),
        ("/api/telemetry/stats/known?window=-1h", 422),
        ("/api/telemetry/stats/known?window=99999999999d", 422),
        ("/api/telemetry/stats/known?window=9000d", 422),
        ("/api/telemetry/stats/known?window=1d&interval=1ms", 422),
        ("/api/telemetry/stats/known?interval=0s", 422),
        ("/api/telemetry/stats/known?from=5&to=4", 422),
        ("/api/telemetry/stats/known?from=5&window=1h", 422),
        ("/api/telemetry/stats/known?detail=everything", 422),
        ("/api/telemetry/stats/%24where", 422),
        ("/api/telemetry/stats/a%00b", 422),
        ("/api/telemetry/%7B%22%24ne%22%3Anull%7D/latest", 404),
        ("/api/telemetry/known?limit=0", 422),
        ("/api/telemetry/known?limit=1000000", 422),
        ("/api/telemetry/known?cursor=%7B%22%24gt%22%3A0%7D", 422),
        ("/api/activity/%24ne", 422),
        ("/api/activity/ann?limit=-1", 422),
        ("/api/activity/ann?cursor=AAAA", 422),
        ("/api/activity/ann?filter=%7B%7D", 400),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        answer.problem(status);
    }
    for body in [
        json!({"sensors": {"$gt": ""}}),
        json!({"sensors": [{"$gt": ""}]}),
        json!({"sensors": ["a"], "$where": "1"}),
        json!({"sensors": []}),
        json!({"sensors": ["a", "a"]}),
        json!({"sensors": vec!["a"; 101]}),
        json!({"sensors": ["a"], "window": {"$gt": 1}}),
        json!({"sensors": ["a"], "from": [1]}),
        json!(["a"]),
    ] {
        client.post("/api/telemetry/stats", &body).await.problem(422);
    }
    assert_eq!(stored("hostile").await, 1, "as before");
    service.stop().await;
}

#[tokio::test]
async fn an_invalid_activity_or_follower_is_refused() {
    let (service, mut client) = with_one("bad_activities").await;
    let now = now_ms();
    for body in [
        json!({"userId": {"$ne": null}, "type": "post"}),
        json!({"userId": "ann"}),
        json!({"userId": "ann", "type": "post", "$set": {"a": 1}}),
        json!({"userId": "ann", "type": "post", "timestamp": now + 3_600_000}),
        json!({"userId": "ann", "type": "post", "text": "x".repeat(5_000)}),
        json!([]),
    ] {
        client.post("/api/activity", &body).await.problem(422);
    }
    client.send("PUT", "/api/activity/ann/following/ann", &[], b"").await.problem(422);
    client.send("PUT", "/api/activity/ann/following/%24ne", &[], b"").await.problem(422);
    client.post("/api/activity/ann/following", &json!({"userIds": [{"$ne": 1}]})).await.problem(422);
    assert_eq!(stored("bad_activities").await, 1);
    let ours = json!({"activityId": "1", "userId": "ann", "type": "post"});
    client.post("/api/activity", &ours).await.is(201);
    let theirs = json!({"activityId": "1", "userId": "bob", "type": "post"});
    client.post("/api/activity", &theirs).await.problem(409);
    assert_eq!(stored("bad_activities").await, 2, "the first alone");
    service.stop().await;
}

#[tokio::test]
async fn invalid_http_ends_only_its_connection() {
    use tokio::io::AsyncWriteExt;
    let (service, mut client) = with_one("no_http").await;
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n"]
    {
        let mut broken = Client::connect(service.address()).await;
        broken.stream.write_all(bytes).await.unwrap();
        broken.stream.shutdown().await.unwrap();
        if let Ok(answer) = broken.answer().await {
            assert!((400..506).contains(&answer.status), "{}", answer.status);
        }
    }
    let long = format!("/{}", "x".repeat(40_000));
    let mut greedy = Client::connect(service.address()).await;
    if let Ok(answer) = greedy.try_send("GET", &long, &[], b"").await {
        assert!([414, 431].contains(&answer.status), "{}", answer.status);
    }
    client.get("/healthz").await.is(200);
    service.stop().await;
}
