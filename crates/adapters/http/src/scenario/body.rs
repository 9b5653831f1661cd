//! Defines the body of a request, as typed.

use std::borrow::Cow;

use plimsoll_document::Template;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The key of a batch.
const BATCH: &str = "batch";
/// The key of a workload.
const WORKLOAD: &str = "workload";

/// The body of a request, as typed: a text, `{batch: {…}}`, `{workload: {…}}`, or any other object as a
/// document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Body {
    /// A literal text.
    Text(String),
    /// A document as JSON.
    Document(Template),
    /// Several documents.
    Batch(Batch),
    /// A workload's body; the workload reads its own settings.
    Workload(Map<String, Value>),
}

/// Several documents in one body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The number of documents.
    pub documents: u32,
    /// The template of each document; its values may be generators.
    pub document: Template,
    /// The form of the batch.
    #[serde(default)]
    pub form: Form,
}

/// The form of several documents in one body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A JSON array.
    #[default]
    Array,
    /// One document per line.
    Ndjson,
}

impl TryFrom<Value> for Body {
    type Error = String;

    fn try_from(typed: Value) -> Result<Self, String> {
        match typed {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Object(mut map) if map.len() == 1 && map.contains_key(BATCH) => {
                let batch = map.remove(BATCH).unwrap_or_default();
                let batch = serde_json::from_value(batch).map_err(|error| format!("batch: {error}"))?;
                Ok(Self::Batch(batch))
            }
            Value::Object(mut map) if map.len() == 1 && map.contains_key(WORKLOAD) => {
                match map.remove(WORKLOAD) {
                    Some(Value::Object(settings)) => Ok(Self::Workload(settings)),
                    _ => Err("workload: give it by its name with its settings, for example {workload: {iot: {trucks: 4000}}}"
                        .to_owned()),
                }
            }
            Value::Object(map) => Ok(Self::Document(map.into())),
            _ => Err("a body is a document, {batch: {documents: 100, document: {…}}}, or a text".to_owned()),
        }
    }
}

impl From<Body> for Value {
    fn from(body: Body) -> Self {
        match body {
            Body::Text(text) => Self::String(text),
            Body::Document(template) => Self::Object(template.fields().clone()),
            Body::Batch(batch) => {
                // A batch is a plain structure: it always has a JSON form.
                let batch = serde_json::to_value(batch).unwrap_or_default();
                Self::Object(Map::from_iter([(BATCH.to_owned(), batch)]))
            }
            Body::Workload(settings) => {
                Self::Object(Map::from_iter([(WORKLOAD.to_owned(), Self::Object(settings))]))
            }
        }
    }
}

impl JsonSchema for Body {
    fn schema_name() -> Cow<'static, str> {
        "Body".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let batch = generator.subschema_for::<Batch>();
        let document = generator.subschema_for::<Template>();
        json_schema!({
            "description": "A text as it is, {batch: {documents, document, form}}, {workload: {NAME: settings}}, or any other object as a document in JSON.",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {BATCH: batch}, "required": [BATCH], "additionalProperties": false},
                {"type": "object", "properties": {WORKLOAD: {"type": "object"}}, "required": [WORKLOAD], "additionalProperties": false},
                document,
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_body_is_a_text_a_batch_or_a_document() {
        let document = json!({"n": {"$number": {}}});
        for typed in [
            json!("hello"),
            document.clone(),
            json!({"batch": {"documents": 3, "document": document, "form": "ndjson"}}),
            json!({"workload": {"iot": {"trucks": 4}}}),
        ] {
            let body: Body = serde_json::from_value(typed.clone()).unwrap();
            assert_eq!(serde_json::to_value(&body).unwrap(), typed);
        }
    }

    #[test]
    fn a_typing_error_inside_a_batch_does_not_make_it_a_document() {
        let error =
            serde_json::from_value::<Body>(json!({"batch": {"documents": 3, "template": {}}})).unwrap_err();
        assert!(error.to_string().contains("template"), "{error}");
        assert!(serde_json::from_value::<Body>(json!(5)).is_err());
        let error = serde_json::from_value::<Body>(json!({"workload": "iot"})).unwrap_err();
        assert!(error.to_string().contains("{workload: {iot:"), "{error}");
    }
}
