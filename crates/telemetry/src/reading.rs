//! One reading of a sensor, checked: what a device may say, and what it may not.

use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The fields of the JSON form that are not metrics.
const SENSOR: &str = "sensorId";
const TIMESTAMP: &str = "timestamp";
const EVENT: &str = "eventId";

/// What a sensor measured at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The sensor's name.
    pub sensor: String,
    /// When, in milliseconds since 1970 (UTC).
    pub at_ms: i64,
    /// Tells apart what one sensor sends for one moment; a reading sent again carries the same.
    pub event: Option<String>,
    /// Name and value of each metric, sorted by name; finite values, no name twice, at least one.
    pub metrics: Vec<(String, f64)>,
}

/// What is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How far a timestamp may lie ahead of the service's clock, in milliseconds.
    pub future_ms_max: i64,
    /// How far a timestamp may lie back, in milliseconds.
    pub past_ms_max: i64,
    /// Metrics in one reading.
    pub metrics_max: usize,
    /// Bytes of a sensor's name or an event id.
    pub name_bytes_max: usize,
    /// Bytes of a metric's name.
    pub metric_bytes_max: usize,
}

impl Default for Limits {
    /// Five minutes ahead, five years back, 64 metrics, names of 128 bytes, metric names of 64 bytes.
    fn default() -> Self {
        const YEAR_MS: i64 = 365 * 24 * 3_600_000;
        Limits {
            future_ms_max: 300_000,
            past_ms_max: 5 * YEAR_MS,
            metrics_max: 64,
            name_bytes_max: 128,
            metric_bytes_max: 64,
        }
    }
}

/// A reading that is refused, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// The field at fault; empty for the reading as a whole. Cut off when it is long.
    pub field: String,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

impl Invalid {
    fn new(field: &str, reason: impl Into<String>) -> Self {
        const SHOWN: usize = 64;
        Invalid { field: field.chars().take(SHOWN).collect(), reason: reason.into() }
    }
}

impl Reading {
    /// Reads `{"sensorId": "…", "timestamp": RFC 3339 or milliseconds since 1970, "eventId": "…" (optional), …}`; every
    /// other field is a metric and must be a number. `now_ms` is the service's clock.
    ///
    /// # Errors
    /// The first [`Invalid`] field.
    pub fn parse(json: &Value, now_ms: i64, limits: &Limits) -> Result<Self, Invalid> {
        let fields = json
            .as_object()
            .ok_or_else(|| Invalid::new("", "a reading is a JSON object: {\"sensorId\": …}"))?;
        let sensor = name(fields, SENSOR, limits)?
            .ok_or_else(|| Invalid::new(SENSOR, "is missing: say which sensor it is"))?;
        let event = name(fields, EVENT, limits)?;
        let at_ms = moment(fields, now_ms, limits)?;
        Ok(Reading { sensor, at_ms, event, metrics: metrics(fields, limits)? })
    }

    /// The JSON form, with the timestamp in milliseconds.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert(SENSOR.into(), self.sensor.clone().into());
        fields.insert(TIMESTAMP.into(), self.at_ms.into());
        if let Some(event) = &self.event {
            fields.insert(EVENT.into(), event.clone().into());
        }
        fields.extend(self.metrics.iter().map(|(name, value)| (name.clone(), (*value).into())));
        fields.into()
    }
}

/// A name that is stored as a value. It needs no dots forbidden; what could be taken for an operator or would not be seen
/// in a log is refused.
fn name(fields: &Map<String, Value>, field: &str, limits: &Limits) -> Result<Option<String>, Invalid> {
    let Some(value) = fields.get(field) else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| Invalid::new(field, "must be a string"))?;
    match name_fault(text, limits.name_bytes_max) {
        Some(reason) => Err(Invalid::new(field, reason)),
        None => Ok(Some(text.to_owned())),
    }
}

/// What is wrong with the name of a sensor or an event, for whoever takes one from elsewhere (a path, a query).
pub fn name_fault(text: &str, bytes_max: usize) -> Option<String> {
    if text.is_empty() {
        return Some("must not be empty".into());
    }
    if text.len() > bytes_max {
        return Some(format!("has {} bytes: at most {bytes_max} are taken", text.len()));
    }
    if text.starts_with('$') {
        return Some("must not begin with `$`".into());
    }
    text.chars().any(char::is_control).then(|| "must not contain control characters".into())
}

fn moment(fields: &Map<String, Value>, now_ms: i64, limits: &Limits) -> Result<i64, Invalid> {
    let fault = |reason: String| Invalid::new(TIMESTAMP, reason);
    let at_ms = match fields.get(TIMESTAMP) {
        None => return Err(fault("is missing: RFC 3339 or milliseconds since 1970".into())),
        Some(Value::String(text)) => rfc_3339(text).map_err(fault)?,
        Some(value) => value.as_i64().ok_or_else(|| {
            fault("must be RFC 3339 (\"2026-01-31T12:00:00Z\") or whole milliseconds since 1970".into())
        })?,
    };
    if at_ms > now_ms.saturating_add(limits.future_ms_max) {
        return Err(fault(format!("lies in the future by more than {} s", limits.future_ms_max / 1000)));
    }
    if at_ms < now_ms.saturating_sub(limits.past_ms_max) {
        return Err(fault(format!(
            "is older than {} days; are these milliseconds, not seconds?",
            limits.past_ms_max / 86_400_000
        )));
    }
    Ok(at_ms)
}

fn rfc_3339(text: &str) -> Result<i64, String> {
    let moment = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| "is not RFC 3339: write it as \"2026-01-31T12:00:00.000Z\"".to_owned())?;
    // RFC 3339 ends with the year 9999, far within 64 bits of milliseconds.
    Ok(i64::try_from(moment.unix_timestamp_nanos().div_euclid(1_000_000)).unwrap_or(i64::MAX))
}

fn metrics(fields: &Map<String, Value>, limits: &Limits) -> Result<Vec<(String, f64)>, Invalid> {
    let mut metrics = Vec::with_capacity(fields.len());
    for (name, value) in
        fields.iter().filter(|(name, _)| ![SENSOR, TIMESTAMP, EVENT].contains(&name.as_str()))
    {
        if let Some(reason) = metric_fault(name, limits.metric_bytes_max) {
            return Err(Invalid::new(name, reason));
        }
        if metrics.len() == limits.metrics_max {
            return Err(Invalid::new(name, format!("a reading has at most {} metrics", limits.metrics_max)));
        }
        metrics.push((name.clone(), number(name, value)?));
    }
    if metrics.is_empty() {
        return Err(Invalid::new("", "has no metric: add a field with a number, as \"temperature\": 21.5"));
    }
    metrics.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(metrics)
}

fn number(name: &str, value: &Value) -> Result<f64, Invalid> {
    let number = value.as_f64().filter(|number| number.is_finite());
    number
        .ok_or_else(|| Invalid::new(name, "must be a finite number (every field but the names is a metric)"))
}

/// What is wrong with a metric's name. It becomes a part of a field's path in the database.
fn metric_fault(name: &str, bytes_max: usize) -> Option<String> {
    if name.is_empty() {
        return Some("a metric needs a name".into());
    }
    if name.len() > bytes_max {
        return Some(format!("its name has {} bytes: at most {bytes_max} are taken", name.len()));
    }
    let forbidden = |c: char| c == '$' || c == '.' || c.is_control();
    name.contains(forbidden).then(|| "a metric's name has no `$`, no `.` and no control characters".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_790_000_000_000;

    fn parse(json: &Value) -> Result<Reading, Invalid> {
        Reading::parse(json, NOW, &Limits::default())
    }

    /// A reading with one field replaced, or left out.
    fn with(field: &str, value: Option<Value>) -> Value {
        let mut json = json!({"sensorId": "s-1", "timestamp": NOW, "temperature": 21.5});
        match value {
            Some(value) => json[field] = value,
            None => drop(json.as_object_mut().unwrap().remove(field)),
        }
        json
    }

    #[track_caller]
    fn refused(field: &str, value: impl Into<Option<Value>>, because: &str) {
        let fault = parse(&with(field, value.into())).unwrap_err();
        assert!(fault.reason.contains(because), "{fault}");
        assert!(fault.field.is_empty() || field.starts_with(&fault.field), "{fault}");
    }

    #[test]
    fn every_number_is_a_metric_and_they_are_sorted() {
        let json = json!({"sensorId": "s", "z": 1, "timestamp": NOW, "eventId": "e", "a": -2.5});
        let reading = parse(&json).unwrap();
        assert_eq!(reading.metrics, [("a".into(), -2.5), ("z".into(), 1.0)]);
        assert_eq!((reading.sensor.as_str(), reading.at_ms, reading.event.as_deref()), ("s", NOW, Some("e")));
        assert_eq!(parse(&reading.to_json()).unwrap(), reading);
    }

    #[test]
    fn a_timestamp_is_rfc_3339_or_milliseconds() {
        let at = |value: Value| parse(&with("timestamp", Some(value))).unwrap().at_ms;
        assert_eq!(at(json!("2026-09-21T14:13:20Z")), NOW);
        assert_eq!(at(json!("2026-09-21T16:13:20.0079+02:00")), NOW + 7);
        assert_eq!(at(json!(NOW - 1)), NOW - 1);
    }

    #[test]
    fn a_moment_that_cannot_be_is_refused() {
        refused("timestamp", None, "missing");
        refused("timestamp", json!(NOW + 300_001), "future");
        refused("timestamp", json!(NOW / 1000), "milliseconds");
        refused("timestamp", json!(i64::MIN), "older");
        for wrong in
            [json!("yesterday"), json!("2026-09-21"), json!(1.5), json!(null), json!([1]), json!(u64::MAX)]
        {
            refused("timestamp", wrong, "RFC 3339");
        }
        assert!(parse(&with("timestamp", Some(json!(NOW + 300_000)))).is_ok());
    }

    #[test]
    fn a_name_that_could_be_something_else_is_refused() {
        for field in [SENSOR, EVENT] {
            refused(field, json!(""), "empty");
            refused(field, json!(7), "string");
            refused(field, json!({"$gt": ""}), "string");
            refused(field, json!("$where"), "`$`");
            refused(field, json!("a\u{0}b"), "control");
            refused(field, json!("x".repeat(129)), "at most 128");
        }
        refused(SENSOR, None, "missing");
        assert!(parse(&with(SENSOR, Some(json!("hall.2/north:3")))).is_ok());
    }

    #[test]
    fn a_metric_that_is_no_number_or_no_name_is_refused() {
        for wrong in [json!("21.5"), json!(true), json!(null), json!([1]), json!({"$inc": 1})] {
            refused("temperature", wrong, "number");
        }
        for name in ["$inc", "a.b", "a\u{0}", "pre$sure"] {
            refused(name, json!(1), "`$`");
        }
        refused("", json!(1), "needs a name");
        refused(&"m".repeat(65), json!(1), "at most 64");
        refused("temperature", None, "no metric");
    }

    #[test]
    fn too_many_metrics_and_what_is_no_object_are_refused() {
        let mut json = with("temperature", None);
        (0..65).for_each(|n| json[format!("m{n}")] = json!(n));
        assert!(parse(&json).unwrap_err().reason.contains("at most 64"));
        for wrong in [json!([]), json!("x"), json!(null)] {
            assert!(parse(&wrong).unwrap_err().reason.contains("object"));
        }
    }
}
