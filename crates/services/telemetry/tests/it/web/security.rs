//! Tests keys, tokens, scopes and TLS.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use plimsoll_telemetry::serve::Running;
use ring::{digest, hmac};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::bench::{now_ms, reading, start_in, stored};
use super::client::Client;

const INGEST: &str = "/api/telemetry/ingest";
const SECRET: &[u8] = b"a secret of the tests, 32 bytes and more";

fn sha256(text: &str) -> String {
    digest::digest(&digest::SHA256, text.as_bytes())
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A service with tokens and with one key for each scope, which has the scope's name.
async fn guarded(name: &str, more: &str) -> Running {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), SECRET).unwrap();
    let key =
        |scope: &str| format!("    - {{name: '{scope}', sha256: {}, scopes: ['{scope}']}}\n", sha256(scope));
    let keys: String = ["telemetry:write", "telemetry:read", "activity:write", "activity:read"]
        .into_iter()
        .map(key)
        .collect();
    let settings = format!(
        "security:\n  keys:\n{keys}  jwt: {{algorithm: HS256, key_file: secret, issuer: tests}}\n{more}"
    );
    start_in(name, &settings, directory.path()).await
}

fn token(claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let body = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), body.as_bytes());
    format!("{body}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// A request to each route with a scope, and the scope.
fn requests() -> [(&'static str, &'static str, Option<Value>, &'static str); 11] {
    let now = now_ms();
    [
        ("POST", INGEST, Some(reading("s", now, 1.0)), "telemetry:write"),
        ("POST", "/api/telemetry/ingest/batch", Some(json!([reading("s", now, 1.0)])), "telemetry:write"),
        ("GET", "/api/telemetry/stats/s", None, "telemetry:read"),
        ("POST", "/api/telemetry/stats", Some(json!({"sensors": ["s"]})), "telemetry:read"),
        ("GET", "/api/telemetry/s/latest", None, "telemetry:read"),
        ("GET", "/api/telemetry/s", None, "telemetry:read"),
        ("POST", "/api/activity", Some(json!({"userId": "ann", "type": "post"})), "activity:write"),
        ("PUT", "/api/activity/ann/following/bob", None, "activity:write"),
        ("POST", "/api/activity/ann/following", Some(json!({"userIds": ["cid"]})), "activity:write"),
        ("DELETE", "/api/activity/ann/following/bob", None, "activity:write"),
        ("GET", "/api/activity/ann", None, "activity:read"),
    ]
}

async fn ask(service: &Running, request: &(&str, &str, Option<Value>, &str), secret: &str) -> u16 {
    let mut client = Client::connect(service.address()).await;
    let bearer = format!("Bearer {secret}");
    let mut headers = vec![("content-type", "application/json")];
    if !secret.is_empty() {
        headers.push(("authorization", &bearer));
    }
    let body = request.2.as_ref().map(ToString::to_string).unwrap_or_default();
    let answer = client.send(request.0, request.1, &headers, body.as_bytes()).await;
    let status = answer.status;
    if status == 401 {
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    if status >= 400 {
        answer.problem(status);
    }
    status
}

#[tokio::test]
async fn every_route_needs_a_key_with_its_scope() {
    let service = guarded("keys", "").await;
    for request in &requests() {
        assert_eq!(ask(&service, request, "").await, 401, "{request:?}");
        assert_eq!(ask(&service, request, "wrong").await, 401, "{request:?}");
    }
    assert_eq!(stored("keys").await, 0, "nothing is stored for a stranger");
    for request in &requests() {
        for scope in ["telemetry:write", "telemetry:read", "activity:write", "activity:read"] {
            let status = ask(&service, request, scope).await;
            assert_eq!(status == 403, scope != request.3, "{request:?} with {scope}: {status}");
            assert!(scope != request.3 || status < 300, "{request:?}: {status}");
        }
    }
    let mut client = Client::connect(service.address()).await;
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        client.get(path).await.is(200);
    }
    client.headers = vec![("x-api-key".into(), "activity:read".into())];
    client.get("/api/activity/ann").await.is(200);
    // A page in a browser may use a key.
    client.send("GET", "/api/activity/ann", &[("origin", "https://page.example")], b"").await.is(200);
    service.stop().await;
}

#[tokio::test]
async fn a_token_grants_its_scopes_until_it_expires() {
    let service = guarded("tokens", "").await;
    let now_s = now_ms() / 1000;
    let [write, .., read] = requests();
    let good =
        json!({"iss": "tests", "sub": "gateway", "exp": now_s + 600, "scope": "telemetry:write other:scope"});
    let with = |claim: &str, value: Value| {
        let mut claims = good.clone();
        claims[claim] = value;
        token(&claims)
    };
    for _ in 0..2 {
        assert_eq!(ask(&service, &write, &token(&good)).await, 201, "a cached token gives the same answer");
        assert_eq!(ask(&service, &read, &token(&good)).await, 403);
    }
    let forged = format!("{}x", &token(&good)[..token(&good).len() - 1]);
    for (bad, why) in [
        (with("exp", json!(now_s - 60)), "expired"),
        (with("nbf", json!(now_s + 600)), "not yet"),
        (with("iss", json!("others")), "of others"),
        (with("exp", json!(null)), "for ever"),
        (forged, "forged"),
        (token(&good).replace('.', ""), "no token"),
    ] {
        assert_eq!(ask(&service, &write, &bad).await, 401, "{why}");
    }
    service.stop().await;
}

#[tokio::test]
async fn the_rate_limit_is_for_each_key_and_gives_a_retry_time() {
    let service = guarded("rates", "limits: {rate: {per_s: 0.5, burst: 3}}").await;
    let [write, .., read] = requests();
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(ask(&service, &write, "telemetry:write").await);
    }
    assert_eq!(statuses, [201, 201, 201, 429, 429]);
    assert_eq!(ask(&service, &read, "activity:read").await, 200, "another key has its own");
    let mut client = Client::connect(service.address()).await;
    client.headers = vec![("x-api-key".into(), "telemetry:write".into())];
    let limited = client.get("/api/telemetry/s").await;
    let seconds: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=4).contains(&seconds), "{seconds}");
    limited.problem(429);
    client.get("/metrics").await.is(200);
    for _ in 0..3 {
        ask(&service, &write, "guess").await;
    }
    assert_eq!(ask(&service, &write, "guess").await, 429, "guessing keys is rate-limited");
    service.stop().await;
}

fn connector(certificate: &Path) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[tokio::test]
async fn tls_serves_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let settings = "tls: {certificate: cert.pem, key: key.pem}";
    let service = start_in("tls", settings, directory.path()).await;
    assert!(service.url().starts_with("https://127.0.0.1:"));
    let stream = TcpStream::connect(service.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector(&directory.path().join("cert.pem")).connect(name, stream).await.unwrap();
    let mut client = Client::over(stream);
    client.post(INGEST, &reading("s", now_ms(), 1.0)).await.is(201);
    let mut plain = Client::connect(service.address()).await;
    assert!(plain.try_send("GET", "/healthz", &[], b"").await.is_err(), "plain HTTP is not answered");
    client.get("/api/telemetry/s/latest").await.is(200);
    service.stop().await;
}
