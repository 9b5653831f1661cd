//! A reading as it is put together field by field: what a device may say, and what it may not.

use std::borrow::Cow;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::scalar::Scalar;
use super::{EVENT, Invalid, Limits, METRIC_MAX, Read, Reading, SENSOR, TIMESTAMP, name_fault};

/// Why a field cannot be taken.
pub(super) enum Wrong {
    Twice(String),
    Invalid(Invalid),
}

impl From<Invalid> for Wrong {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

/// A reading as far as it has been read.
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
        read: &Read<'_>,
    ) -> Result<(), Wrong> {
        match name.as_ref() {
            SENSOR => once(&mut self.sensor, SENSOR, text(SENSOR, value, read.limits)?),
            EVENT => once(&mut self.event, EVENT, text(EVENT, value, read.limits)?),
            TIMESTAMP => once(&mut self.at_ms, TIMESTAMP, moment(value, read.now_ms, read.limits)?),
            _ => Ok(self.metric(name, &value, read.limits)?),
        }
    }

    fn metric(&mut self, name: Cow<'_, str>, value: &Scalar<'_>, limits: &Limits) -> Result<(), Invalid> {
        if let Some(reason) = metric_fault(&name, limits.metric_bytes_max) {
            return Err(Invalid::new(&name, reason));
        }
        if self.metrics.len() == limits.metrics_max {
            return Err(Invalid::new(&name, format!("a reading has at most {} metrics", limits.metrics_max)));
        }
        let number = match *value {
            // Beyond 2⁵³ the last digits go: metrics are doubles.
            Scalar::Whole(whole) => whole as f64,
            Scalar::Number(number) if number.abs() <= METRIC_MAX => number,
            Scalar::Number(_) => {
                let reason =
                    format!("must lie between -{METRIC_MAX:e} and {METRIC_MAX:e}: sums would overflow");
                return Err(Invalid::new(&name, reason));
            }
            _ => {
                let reason = "must be a finite number (every field but the names is a metric)";
                return Err(Invalid::new(&name, reason));
            }
        };
        self.metrics.push((name.into_owned(), number));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Reading, Wrong> {
        let sensor = self.sensor.ok_or_else(|| Invalid::new(SENSOR, "is missing: say which sensor it is"))?;
        let missing = || Invalid::new(TIMESTAMP, "is missing: RFC 3339 or milliseconds since 1970");
        let at_ms = self.at_ms.ok_or_else(missing)?;
        if self.metrics.is_empty() {
            let reason = "has no metric: add a field with a number, as \"temperature\": 21.5";
            return Err(Invalid::new("", reason).into());
        }
        self.metrics.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(pair) = self.metrics.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Wrong::Twice(pair[0].0.clone()));
        }
        Ok(Reading { sensor, at_ms, event: self.event, metrics: self.metrics })
    }
}

fn once<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), Wrong> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Wrong::Twice(name.to_owned())),
    }
}

/// A name that is stored as a value. It needs no dots forbidden; what could be taken for an operator or would not be seen
/// in a log is refused.
fn text(field: &str, value: Scalar<'_>, limits: &Limits) -> Result<String, Invalid> {
    let Scalar::Text(text) = value else {
        return Err(Invalid::new(field, "must be a string"));
    };
    match name_fault(&text, limits.name_bytes_max) {
        Some(reason) => Err(Invalid::new(field, reason)),
        None => Ok(text.into_owned()),
    }
}

/// A timestamp, in milliseconds since 1970.
fn moment(value: Scalar<'_>, now_ms: i64, limits: &Limits) -> Result<i64, Invalid> {
    let fault = |reason: String| Invalid::new(TIMESTAMP, reason);
    let at_ms = match value {
        Scalar::Text(text) => rfc_3339(&text).map_err(fault)?,
        Scalar::Whole(at_ms) => at_ms,
        _ => {
            let form = "must be RFC 3339 (\"2026-01-31T12:00:00Z\") or whole milliseconds since 1970";
            return Err(fault(form.into()));
        }
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
    use serde_json::{Value, json};

    use super::super::Unread;
    use super::*;

    const NOW: i64 = 1_790_000_000_000;

    fn parse(json: &Value) -> Result<Reading, Invalid> {
        let parsed = Reading::parse(json.to_string().as_bytes(), NOW, &Limits::default());
        parsed.map_err(|unread| match unread {
            Unread::Invalid(invalid) => invalid,
            Unread::Json(error) => panic!("{json} is no JSON: {error}"),
        })
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
    fn too_many_metrics_and_what_is_no_object_are_refused() {
        let mut json = with("temperature", None);
        (0..65).for_each(|n| json[format!("m{n}")] = json!(n));
        assert!(parse(&json).unwrap_err().reason.contains("at most 64"));
        for wrong in [json!([]), json!("x"), json!(null)] {
            assert!(parse(&wrong).unwrap_err().reason.contains("object"));
        }
    }
}
