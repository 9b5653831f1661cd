//! Describes a service in OpenAPI 3.1, from the descriptions of its endpoints.

use serde_json::{Map, Value, json};

use crate::problem::Kind;
use crate::routes::{Route, Routes};
use crate::security::Scope;

/// Describes a service.
#[derive(Clone, Debug)]
pub struct About {
    /// The name in logs.
    pub name: &'static str,
    /// The title of the OpenAPI description.
    pub title: &'static str,
    /// The version of the interface.
    pub version: &'static str,
    /// The text of the OpenAPI description.
    pub description: &'static str,
    /// The first part of the names of all HTTP metrics: `telemetry` gives `telemetry_http_requests_total`.
    pub metrics_prefix: &'static str,
    /// The permissions that keys and tokens may hold.
    pub scopes: &'static [Scope],
    /// An object with the schemas that endpoints refer to. `Problem` is added if missing.
    pub schemas: Value,
}

/// The OpenAPI description of a service.
pub fn document<S: Send + Sync + 'static>(about: &About, routes: &Routes<S>) -> Value {
    let mut paths = Map::new();
    for route in routes.iter() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    let mut schemas = about.schemas.as_object().cloned().unwrap_or_default();
    schemas.entry("Problem").or_insert_with(problem);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": about.version,
            "description": about.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Problem": refused("The request is refused."), "Later": later()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a JSON Web Token."},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    })
}

/// A parameter in the path.
pub fn in_path(name: &str, about: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string"}})
}

/// A parameter in the query.
pub fn in_query(name: &str, about: &str) -> Value {
    json!({"name": name, "in": "query", "required": false, "description": about, "schema": {"type": "string"}})
}

/// A number in the query.
pub fn count_in_query(name: &str, about: &str, default: u32) -> Value {
    let schema = json!({"type": "integer", "minimum": 1, "default": default});
    json!({"name": name, "in": "query", "required": false, "description": about, "schema": schema})
}

/// A JSON body, by the name of its schema.
pub fn body(schema: &str) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": reference(schema)}}})
}

/// A reference to a schema.
pub fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// The responses on success: status, description, schema.
pub fn responses(answers: &[(u16, &str, Option<&str>)]) -> Value {
    let response = |(status, about, schema): &(u16, &str, Option<&str>)| {
        let mut response = json!({"description": about});
        if let Some(schema) = schema {
            response["content"] = json!({"application/json": {"schema": reference(schema)}});
        }
        (status.to_string(), response)
    };
    answers.iter().map(response).collect::<Map<_, _>>().into()
}

/// The schema of a problem body without members of its own.
fn problem() -> Value {
    let text = || json!({"type": "string"});
    let field = json!({"type": "object", "required": ["field", "reason"], "properties": {"field": text(), "reason": text()}});
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": text(), "title": text(), "status": {"type": "integer"}, "detail": text(),
            "fields": {"type": "array", "items": field},
            "omitted": {"type": "integer", "minimum": 1, "description": "Items that a list of the problem leaves out."},
        },
    })
}

fn refused(about: &str) -> Value {
    json!({"description": about, "content": {"application/problem+json": {"schema": reference("Problem")}}})
}

fn later() -> Value {
    let mut response = refused("The request is refused for now.");
    response["headers"] = json!({"Retry-After": {
        "description": "The number of seconds after which to retry.",
        "schema": {"type": "integer", "minimum": 0},
    }});
    response
}

/// Refusals after which a retry may succeed.
const TEMPORARY: [Kind; 3] = [Kind::RateLimited, Kind::Busy, Kind::Unavailable];

fn operation<S>(route: &Route<S>) -> Value {
    let mut operation = (route.describe)();
    operation["operationId"] = route.name.into();
    let answers = &mut operation["responses"];
    for kind in route.refusals() {
        let response = if TEMPORARY.contains(&kind) { "Later" } else { "Problem" };
        answers[kind.status().as_str()] = json!({"$ref": format!("#/components/responses/{response}")});
    }
    if let Some(scope) = route.scope {
        operation["security"] = json!([{"bearer": [scope.name()]}, {"key": [scope.name()]}]);
    }
    operation
}
