//! Builds a reading field by field and checks each.

use std::borrow::Cow;

use plimsoll_service::{InvalidField, name, timestamp};

use super::scalar::Scalar;
use super::{EVENT, Limits, METRIC_MAX, Reading, SENSOR, TIMESTAMP};

/// A refused field.
pub(super) enum Wrong {
    Duplicate(String),
    Invalid(InvalidField),
}

impl From<InvalidField> for Wrong {
    fn from(invalid: InvalidField) -> Self {
        Self::Invalid(invalid)
    }
}

/// An incomplete reading.
#[derive(Default)]
pub(super) struct Draft {
    sensor: Option<String>,
    at_ms: Option<i64>,
    event: Option<String>,
    metrics: Vec<(String, f64)>,
}

impl Draft {
    pub(super) fn take(
        &mut self,
        name: Cow<'_, str>,
        value: Scalar<'_>,
        now_ms: i64,
        limits: &Limits,
    ) -> Result<(), Wrong> {
        match name.as_ref() {
            SENSOR => once(&mut self.sensor, SENSOR, text(SENSOR, value, limits)?),
            EVENT => once(&mut self.event, EVENT, text(EVENT, value, limits)?),
            TIMESTAMP => once(&mut self.at_ms, TIMESTAMP, timestamp_ms(value, now_ms, limits)?),
            _ => Ok(self.metric(name, &value, limits)?),
        }
    }

    fn metric(
        &mut self,
        name: Cow<'_, str>,
        value: &Scalar<'_>,
        limits: &Limits,
    ) -> Result<(), InvalidField> {
        if let Some(reason) = metric_fault(&name, limits.metric_bytes_max) {
            return Err(InvalidField::new(&name, reason));
        }
        if self.metrics.len() == limits.metrics_max {
            return Err(InvalidField::new(
                &name,
                format!("a reading has at most {} metrics", limits.metrics_max),
            ));
        }
        let number = match *value {
            // Metrics are doubles, which lose digits above 2⁵³.
            Scalar::Whole(whole) => whole as f64,
            Scalar::Number(number) if number.abs() <= METRIC_MAX => number,
            Scalar::Number(_) => {
                let reason =
                    format!("must lie between -{METRIC_MAX:e} and {METRIC_MAX:e}: sums would overflow");
                return Err(InvalidField::new(&name, reason));
            }
            _ => {
                let reason = "must be a finite number (all other fields are metrics)";
                return Err(InvalidField::new(&name, reason));
            }
        };
        self.metrics.push((name.into_owned(), number));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Reading, Wrong> {
        let sensor = self.sensor.ok_or_else(|| InvalidField::new(SENSOR, "is missing: name the sensor"))?;
        let missing = || InvalidField::new(TIMESTAMP, "is missing: RFC 3339 or milliseconds since 1970");
        let at_ms = self.at_ms.ok_or_else(missing)?;
        if self.metrics.is_empty() {
            let reason = "has no metric: add a field with a number, as \"temperature\": 21.5";
            return Err(InvalidField::new("", reason).into());
        }
        self.metrics.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(pair) = self.metrics.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Wrong::Duplicate(pair[0].0.clone()));
        }
        Ok(Reading { sensor, at_ms, event: self.event, metrics: self.metrics })
    }
}

fn once<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), Wrong> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Wrong::Duplicate(name.to_owned())),
    }
}

/// A name that is stored as a value. Dots are allowed; operators and control characters are refused.
fn text(field: &str, value: Scalar<'_>, limits: &Limits) -> Result<String, InvalidField> {
    let Scalar::Text(text) = value else {
        return Err(InvalidField::new(field, "must be a string"));
    };
    match name::fault(&text, limits.name_bytes_max) {
        Some(reason) => Err(InvalidField::new(field, reason)),
        None => Ok(text.into_owned()),
    }
}

/// A timestamp, in milliseconds since 1970.
fn timestamp_ms(value: Scalar<'_>, now_ms: i64, limits: &Limits) -> Result<i64, InvalidField> {
    let fault = |reason: String| InvalidField::new(TIMESTAMP, reason);
    let at_ms = match value {
        Scalar::Text(text) => timestamp::parse(&text).map_err(fault)?,
        Scalar::Whole(at_ms) => at_ms,
        _ => return Err(fault(timestamp::FORM.into())),
    };
    if at_ms > now_ms.saturating_add(limits.future_ms_max) {
        return Err(fault(format!("lies in the future by more than {} s", limits.future_ms_max / 1000)));
    }
    if at_ms < now_ms.saturating_sub(limits.past_ms_max) {
        return Err(fault(format!(
            "is older than {} days: a number counts milliseconds, not seconds",
            limits.past_ms_max / 86_400_000
        )));
    }
    Ok(at_ms)
}

/// The reason why a metric's name is invalid, or `None`. It becomes part of a field path in the database.
fn metric_fault(name: &str, bytes_max: usize) -> Option<String> {
    if name.is_empty() {
        return Some("a metric needs a name".into());
    }
    if name.len() > bytes_max {
        return Some(format!("its name has {} bytes: at most {bytes_max} are accepted", name.len()));
    }
    let forbidden = |c: char| c == '$' || c == '.' || c.is_control();
    name.contains(forbidden).then(|| "a metric's name has no `$`, no `.` and no control characters".into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Unread;
    use super::*;

    const NOW: i64 = 1_790_000_000_000;

    fn parse(json: &Value) -> Result<Reading, InvalidField> {
        let parsed = Reading::parse(json.to_string().as_bytes(), NOW, &Limits::default());
        parsed.map_err(|unread| match unread {
            Unread::Invalid(invalid) => invalid,
            Unread::Json(error) => panic!("{json} is not JSON: {error}"),
        })
    }

    /// A reading with one field replaced or removed.
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
    fn an_impossible_time_is_refused() {
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
    fn a_name_that_could_be_an_operator_is_refused() {
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
    fn an_invalid_metric_is_refused() {
        for wrong in [json!("21.5"), json!(true), json!(null), json!([1]), json!({"$inc": 1})] {
            refused("temperature", wrong, "number");
        }
        for wrong in [1.7e308, -1.7e308, 1.000_001e300] {
            refused("temperature", json!(wrong), "between -1e300 and 1e300");
        }
        for right in [METRIC_MAX, -METRIC_MAX, 0.0] {
            assert_eq!(parse(&with("temperature", Some(json!(right)))).unwrap().metrics[0].1, right);
        }
        for name in ["$inc", "a.b", "a\u{0}", "pre$sure"] {
            refused(name, json!(1), "`$`");
        }
        refused("", json!(1), "needs a name");
        refused(&"m".repeat(65), json!(1), "at most 64");
        refused("temperature", None, "no metric");
    }

    #[test]
    fn too_many_metrics_and_non_objects_are_refused() {
        let mut json = with("temperature", None);
        (0..65).for_each(|n| json[format!("m{n}")] = json!(n));
        assert!(parse(&json).unwrap_err().reason.contains("at most 64"));
        for wrong in [json!([]), json!("x"), json!(null)] {
            assert!(parse(&wrong).unwrap_err().reason.contains("object"));
        }
    }
}
