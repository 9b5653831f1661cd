//! Words for the description of the interface (OpenAPI 3.1).

use serde_json::{Map, Value, json};

/// A value in the path.
pub(super) fn in_path(name: &str, about: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string"}})
}

/// A value in the query.
pub(super) fn in_query(name: &str, about: &str) -> Value {
    json!({"name": name, "in": "query", "required": false, "description": about, "schema": {"type": "string"}})
}

/// A number in the query.
pub(super) fn count_in_query(name: &str, about: &str, otherwise: u32) -> Value {
    let schema = json!({"type": "integer", "minimum": 1, "default": otherwise});
    json!({"name": name, "in": "query", "required": false, "description": about, "schema": schema})
}

/// The parts of a window of time.
pub(super) fn window() -> Vec<Value> {
    vec![
        in_query("window", "Its length, as 15m, 1h or 7d; it ends now, or at `to`."),
        in_query("from", "Its beginning: RFC 3339 or milliseconds since 1970."),
        in_query("to", "Its end, which is not part of it; now if left out."),
    ]
}

/// A body of a schema of the components.
pub(super) fn body(schema: &str) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": reference(schema)}}})
}

/// A schema of the components.
pub(super) fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// What is answered when all is well.
pub(super) fn responses(answers: &[(u16, &str, Option<&str>)]) -> Value {
    let response = |(status, about, schema): &(u16, &str, Option<&str>)| {
        let mut response = json!({"description": about});
        if let Some(schema) = schema {
            response["content"] = json!({"application/json": {"schema": reference(schema)}});
        }
        (status.to_string(), response)
    };
    answers.iter().map(response).collect::<Map<_, _>>().into()
}
