//! Defines the schemas of bodies, for the OpenAPI description.

use plimsoll_service::openapi::reference;
use serde_json::{Map, Value, json};

use crate::reading::METRIC_MAX;
use crate::readings::Stored;

/// The outcomes of a stored reading.
const OUTCOMES: [Stored; 4] = [Stored::New, Stored::Known, Stored::Merged, Stored::Differs];

/// All schemas.
pub(super) fn schemas() -> Value {
    [readings(), statistics(), activities(), problem()].into_iter().flatten().collect::<Map<_, _>>().into()
}

fn readings() -> Map<String, Value> {
    map([
        (
            "Reading",
            json!({
                "type": "object",
                "required": ["sensorId", "timestamp"],
                "properties": {"sensorId": text(), "timestamp": moment_or_text(), "eventId": text()},
                "additionalProperties": {
                    "type": "number",
                    "minimum": -METRIC_MAX,
                    "maximum": METRIC_MAX,
                    "description": "Every other field is a metric.",
                },
            }),
        ),
        ("Stored", object(&[("stored", json!({"enum": OUTCOMES.map(Stored::name)}))])),
        (
            "BatchOutcome",
            with_optional(
                &["omitted", "omitted_retry", "differs_omitted"],
                object(&[
                    ("received", count()),
                    ("new", count()),
                    ("known", count()),
                    ("merged", count()),
                    (
                        "differs",
                        list(&object(&[
                            ("line", count()),
                            ("stored", json!({"enum": [Stored::Differs.name()]})),
                        ])),
                    ),
                    ("failed", list(&reference("BatchFailure"))),
                ]),
            ),
        ),
        (
            "BatchFailure",
            json!({
                "type": "object",
                "required": ["line", "detail", "retry"],
                "properties": {"line": count(), "field": text(), "detail": text(), "retry": {"type": "boolean"}},
            }),
        ),
        (
            "ReadingsPage",
            object(&[
                ("sensorId", text()),
                ("from", moment()),
                ("to", moment()),
                ("readings", list(&reference("Reading"))),
                ("next", next()),
            ]),
        ),
    ])
}

fn statistics() -> Map<String, Value> {
    let intervals = || list(&reference("Interval"));
    map([
        (
            "MetricStatistics",
            json!({
                "type": "object",
                "required": ["count", "min", "max", "mean"],
                "properties": {
                    "count": count(), "min": number(), "max": number(), "mean": number(),
                    "p50": number(), "p95": number(), "p99": number(),
                },
            }),
        ),
        ("Metrics", json!({"type": "object", "additionalProperties": reference("MetricStatistics")})),
        ("Interval", object(&[("from", moment()), ("to", moment()), ("metrics", reference("Metrics"))])),
        (
            "SensorStatistics",
            json!({
                "type": "object",
                "required": ["sensorId", "from", "to"],
                "properties": {
                    "sensorId": text(), "from": moment(), "to": moment(),
                    "metrics": reference("Metrics"), "intervals": intervals(),
                },
            }),
        ),
        (
            "StatisticsQuery",
            json!({
                "type": "object",
                "required": ["sensors"],
                "additionalProperties": false,
                "properties": {
                    "sensors": list(&text()), "window": text(), "from": moment_or_text(), "to": moment_or_text(),
                    "interval": text(), "detail": {"enum": ["percentiles", "summary"]},
                },
            }),
        ),
        (
            "ManyStatistics",
            object(&[
                ("from", moment()),
                ("to", moment()),
                ("sensors", list(&object(&[("sensorId", text()), ("intervals", intervals())]))),
                ("unknown", list(&text())),
            ]),
        ),
    ])
}

fn activities() -> Map<String, Value> {
    map([
        (
            "Activity",
            json!({
                "type": "object",
                "required": ["userId", "type"],
                "additionalProperties": false,
                "properties": {
                    "activityId": text(), "userId": text(), "timestamp": moment_or_text(), "type": text(),
                    "text": text(), "object": text(),
                },
            }),
        ),
        ("Posted", object(&[("stored", outcome()), ("activityId", text()), ("timestamp", moment())])),
        ("FeedPage", object(&[("activities", list(&reference("Activity"))), ("next", next())])),
        ("UserIds", object(&[("userIds", list(&text()))])),
    ])
}

fn problem() -> Map<String, Value> {
    let fields = list(&object(&[("field", text()), ("reason", text())]));
    map([(
        "Problem",
        json!({
            "type": "object",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": text(), "title": text(), "status": {"type": "integer"}, "detail": text(), "fields": fields,
                "omitted": count(), "omitted_retry": count(), "received": count(), "failed": list(&reference("BatchFailure")), "unknown": list(&text()),
            },
        }),
    )])
}

fn text() -> Value {
    json!({"type": "string"})
}

fn number() -> Value {
    json!({"type": "number"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn moment() -> Value {
    json!({"type": "integer", "description": "Milliseconds since 1970."})
}

fn moment_or_text() -> Value {
    json!({"type": ["integer", "string"], "description": "RFC 3339 or milliseconds since 1970."})
}

fn outcome() -> Value {
    json!({"enum": ["new", "known"]})
}

fn next() -> Value {
    json!({"type": ["string", "null"], "description": "The cursor of the next page, if there is one."})
}

fn map<const N: usize>(schemas: [(&str, Value); N]) -> Map<String, Value> {
    schemas.map(|(name, schema)| (name.to_owned(), schema)).into_iter().collect()
}

/// An object with all of these fields.
fn object(fields: &[(&str, Value)]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<_, _> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// A schema with more properties, each an optional count.
fn with_optional(counts: &[&str], mut schema: Value) -> Value {
    counts.iter().for_each(|name| schema["properties"][name] = count());
    schema
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}
