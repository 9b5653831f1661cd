//! Checks every answer of the tests against the OpenAPI description.

use std::sync::OnceLock;

use plimsoll_telemetry::api;
use serde_json::{Map, Value, json};

use super::bench::{now_ms, reading, served};

/// The statuses of requests without an operation: unknown path or method, invalid HTTP.
const NO_OPERATION: [u16; 5] = [400, 404, 405, 414, 431];

fn paths() -> &'static Map<String, Value> {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(api::document)["paths"].as_object().unwrap()
}

/// The operation of a request: the path with the fewest variable parts.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or_default();
    let varies = |part: &str| part.starts_with('{');
    let fits = |template: &str| {
        template.split('/').count() == path.split('/').count()
            && template.split('/').zip(path.split('/')).all(|(one, other)| varies(one) || one == other)
    };
    let fitting = paths().iter().filter(|(template, _)| fits(template));
    let (_, item) =
        fitting.min_by_key(|(template, _)| template.split('/').filter(|it| varies(it)).count())?;
    item.get(method.to_ascii_lowercase())
}

/// Fails if the operation does not describe the answer.
#[track_caller]
pub fn check(method: &str, path: &str, status: u16, kind: Option<&str>) {
    let Some(operation) = operation(method, path) else {
        return assert!(NO_OPERATION.contains(&status), "{method} {path}: {status} of no operation");
    };
    let described = &operation["responses"][status.to_string()];
    assert!(described.is_object(), "{method} {path}: {status} is not described");
    let problem = described["$ref"].is_string();
    assert_eq!(problem, kind == Some("application/problem+json"), "{method} {path}: {status} {kind:?}");
}

#[test]
fn a_request_has_the_operation_with_the_fewest_variable_parts() {
    let name = |method, path| operation(method, path).map(|it| it["operationId"].as_str().unwrap());
    assert_eq!(name("POST", "/api/telemetry/stats"), Some("stats_many"));
    assert_eq!(name("GET", "/api/telemetry/stats/a?window=1h"), Some("stats"));
    assert_eq!(name("GET", "/api/telemetry/a/latest"), Some("latest"));
    assert_eq!(name("GET", "/api/telemetry/a"), Some("range"));
    assert_eq!((name("GET", "/nowhere"), name("DELETE", "/healthz")), (None, None));
}

#[test]
#[should_panic(expected = "418 is not described")]
fn an_undescribed_answer_is_found() {
    check("GET", "/healthz", 418, None);
}

#[tokio::test]
async fn refusals_of_each_route_are_described() {
    let (service, mut client) = served("openapi_check").await;
    let activity = |user: &str| json!({"activityId": "1", "userId": user, "type": "post"});
    client.post("/api/telemetry/ingest", &reading("s", now_ms(), 1.0)).await.is(201);
    client.post("/api/activity", &activity("ann")).await.is(201);
    // The client itself checks every answer against the description.
    client.post("/api/activity", &activity("bob")).await.problem(409);
    client.post("/api/telemetry/stats", &json!({"sensors": ["nobody"]})).await.problem(404);
    for path in ["/api/telemetry/stats/nobody", "/api/telemetry/nobody/latest", "/api/telemetry/nobody"] {
        client.get(path).await.problem(404);
    }
    service.context().begin_stop();
    client.get("/readyz").await.problem(503);
    service.stop().await;
}

#[test]
fn every_route_with_a_scope_describes_refusals_of_the_middleware() {
    let operations = paths().values().flat_map(|item| item.as_object().unwrap().values());
    for operation in operations {
        let has = |status: &str| operation["responses"].get(status).is_some();
        let guarded = operation["security"].is_array();
        for status in ["400", "401", "403", "422", "500"] {
            assert_eq!(has(status), guarded, "{} {status}", operation["operationId"]);
        }
        // The page of metrics is the only open answer that takes much memory.
        assert_eq!(has("429"), guarded || operation["operationId"] == "metrics");
        assert!(has("503") || !guarded, "{}", operation["operationId"]);
        let sized = operation["requestBody"].is_object();
        assert!(["408", "413", "415"].iter().all(|status| has(status) == sized));
    }
}
