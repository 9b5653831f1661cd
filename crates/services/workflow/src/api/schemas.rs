//! Describes the bodies of requests and answers.

use plimsoll_workflow::definition;
use serde_json::{Value, json};

/// The schemas of the OpenAPI description.
pub(crate) fn schemas() -> Value {
    let mut all = json!({
        "Version": object(&["name", "hash"], json!({"name": text(), "hash": text()})),
        "Deployed": object(&["definition", "stored"], json!({"definition": version(), "stored": stored()})),
        "Definitions": object(&["definitions"], json!({"definitions": list(json!({"type": "object"}))})),
        "Start": strict(&["definition"], json!({
            "definition": text(), "key": optional("string"), "input": {"type": ["object", "null"]},
        })),
        "Started": object(&["instance", "definition", "stored"], json!({
            "instance": text(), "definition": text(), "stored": stored(),
        })),
        "Signal": strict(&["name"], json!({"name": text(), "body": {}})),
        "Cancellation": strict(&["reason"], json!({"reason": text()})),
        "Act": strict(&["by", "act"], json!({"by": text(), "roles": list(text()), "act": act()})),
        "DeadLetters": object(&["dead_letters", "next"], json!({
            "dead_letters": list(object(&["instance", "signal", "reason", "buried_ms"], json!({
                "instance": text(), "signal": text(), "reason": text(), "buried_ms": {"type": "integer"},
                "sent_ms": {"type": "integer"}, "body": {},
            }))),
            "next": optional("object"),
        })),
        "Redrive": strict(&["by"], json!({"by": text()})),
        "Redriven": object(&["instance", "signal"], json!({"instance": text(), "signal": text()})),
        "Report": object(&["instances", "signals", "dead", "findings", "is_cut"], json!({
            "instances": {"type": "object"}, "signals": {"type": "integer"}, "dead": {"type": "object"},
            "findings": list(object(&["instance", "kind", "words"], json!({
                "instance": text(), "kind": text(), "words": text(),
            }))),
            "findings_omitted": {"type": "integer", "description": "Findings that the list leaves out."},
            "is_cut": {"type": "boolean"},
        })),
        "Sent": object(&["instance", "signal", "stored"], json!({
            "instance": text(), "signal": text(), "stored": stored(),
        })),
        "Instances": object(&["instances", "next"], json!({"instances": list(row(json!({}))), "next": optional("string")})),
        "Instance": row(json!({
            "version": {"type": "integer"}, "started_ms": optional("integer"), "error": optional("string"),
            "parent": optional("object"), "data": {}, "waits": list(reason()), "history": list(visited()),
            "forgotten": {"type": "integer", "description": "Older visits that the history leaves out."},
        })),
        "Explanation": object(&["instance", "status", "reasons"], json!({
            "instance": text(), "status": text(), "definition": version(), "reasons": list(reason()),
            "error": optional("string"), "kept": {"type": "integer"}, "owner": optional("string"),
            "lease_ms": optional("integer"),
        })),
        "Tasks": object(&["tasks", "next"], json!({"tasks": list(json!({"type": "object"})), "next": optional("string")})),
    });
    all["Definition"] = embedded(definition::schema().to_value());
    all
}

/// A schema whose references stay inside of it.
fn embedded(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
        fields.insert("$id".into(), "urn:plimsoll:definition".into());
    }
    schema
}

fn text() -> Value {
    json!({"type": "string"})
}

fn optional(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn strict(required: &[&str], properties: Value) -> Value {
    let mut schema = object(required, properties);
    schema["additionalProperties"] = false.into();
    schema
}

fn version() -> Value {
    json!({"$ref": "#/components/schemas/Version"})
}

fn stored() -> Value {
    json!({"enum": ["new", "known"]})
}

fn row(more: Value) -> Value {
    let mut schema = object(
        &["instance", "definition", "status", "changed_ms"],
        json!({
            "instance": text(), "key": optional("string"), "definition": version(), "status": text(),
            "due_ms": optional("integer"), "changed_ms": {"type": "integer"},
        }),
    );
    for (name, value) in more.as_object().into_iter().flatten() {
        schema["properties"][name] = value.clone();
    }
    schema
}

fn reason() -> Value {
    object(
        &["kind"],
        json!({
            "kind": text(), "visit": {"type": "integer"}, "path": text(), "missing": text(),
            "attempt": {"type": "integer"}, "due_ms": {"type": "integer"},
        }),
    )
}

fn visited() -> Value {
    object(
        &["visit", "entered_ms", "how"],
        json!({
            "visit": {"type": "integer"}, "path": text(), "entered_ms": {"type": "integer"},
            "left_ms": {"type": "integer"},
            "how": {"enum": ["done", "failed", "timed_out", "cancelled", "retried", "open"]},
        }),
    )
}

fn act() -> Value {
    let to = || strict(&["to"], json!({"to": text()}));
    json!({"oneOf": [
        strict(&["assign"], json!({"assign": to()})),
        strict(&["reassign"], json!({"reassign": to()})),
        {"const": "release"},
        strict(&["complete"], json!({"complete": strict(&[], json!({"payload": {}}))})),
    ]})
}
