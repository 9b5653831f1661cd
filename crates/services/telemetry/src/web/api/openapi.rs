//! `GET /openapi.json`: the description of the interface, put together from what each endpoint says of itself.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::describe::{reference, responses};
use crate::web::endpoint::{Call, Endpoint, Takes};
use crate::web::gate;
use crate::web::problem::Kind;
use crate::web::reply::{self, Answer};
use crate::web::routes::{Visitor, each};
use crate::web::security::scope::Scope;
use crate::web::service::Service;

/// Tells the description.
pub struct OpenApi;

impl Endpoint for OpenApi {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/openapi.json";
    const NAME: &'static str = "openapi";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;

    async fn answer(service: Arc<Service>, _: Call) -> Answer {
        let text = service.openapi.get_or_init(|| Bytes::from(document().to_string()));
        Ok(reply::text(StatusCode::OK, "application/json", text.clone()))
    }

    fn describe() -> Value {
        json!({
            "summary": "This description",
            "responses": responses(&[(200, "OpenAPI 3.1.", None)]),
        })
    }
}

/// The whole description.
pub fn document() -> Value {
    struct Paths(Map<String, Value>);
    impl Visitor for Paths {
        fn visit<E: Endpoint>(&mut self) {
            let path = self.0.entry(E::PATH).or_insert_with(|| json!({}));
            path[E::METHOD.as_str().to_ascii_lowercase()] = operation::<E>();
        }
    }
    let mut paths = Paths(Map::new());
    each(&mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Telemetry and activity feeds",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Readings of sensors with statistics, and feeds of what users do. Moments are milliseconds since 1970 \
                            (UTC) in answers, and these or RFC 3339 in requests. Whatever is refused is answered with a \
                            problem (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths.0,
        "components": {
            "schemas": super::schemas::schemas(),
            "responses": {"Problem": refused("It was refused."), "Later": later()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a JSON Web Token."},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    })
}

fn refused(about: &str) -> Value {
    json!({"description": about, "content": {"application/problem+json": {"schema": reference("Problem")}}})
}

fn later() -> Value {
    let mut response = refused("It was refused for now.");
    response["headers"] = json!({"Retry-After": {
        "description": "Come back in so many seconds.",
        "schema": {"type": "integer", "minimum": 0},
    }});
    response
}

/// What may go well another time.
const COMES_BACK: [Kind; 3] = [Kind::RateLimited, Kind::Busy, Kind::Unavailable];

fn operation<E: Endpoint>() -> Value {
    let mut operation = E::describe();
    operation["operationId"] = E::NAME.into();
    let answers = &mut operation["responses"];
    for kind in gate::refusals::<E>().chain(E::REFUSES.iter().copied()) {
        let how = if COMES_BACK.contains(&kind) { "Later" } else { "Problem" };
        answers[kind.status().as_str()] = json!({"$ref": format!("#/components/responses/{how}")});
    }
    if let Some(scope) = E::SCOPE {
        operation["security"] = json!([{"bearer": [scope.name()]}, {"key": [scope.name()]}]);
    }
    operation
}
