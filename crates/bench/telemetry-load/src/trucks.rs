//! Makes the bodies of the workload `iot`: batches of readings of trucks.

use std::sync::Arc;

use plimsoll_http::setup::{Part, ReadBack, Shown, Workload, WorkloadContext};
use plimsoll_measure::duration::Span;
use plimsoll_systems::WorkloadResult;
use serde::Deserialize;
use serde_json::Value;

use crate::iot::{Iot, Point};

/// The largest number of trucks.
const TRUCKS_MAX: u64 = 10_000_000;
/// The number of points in a batch.
const POINTS: u64 = 10;

/// The settings, as typed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trucks {
    /// The number of trucks.
    trucks: u64,
    /// The interval between two points of a truck.
    #[serde(default = "interval_default")]
    interval: Span,
    /// The time from the first points to the run's start. A load faster than the real trucks runs ahead of the clock, and the
    /// service refuses readings from the future.
    #[serde(default = "before_default")]
    before: Span,
    /// Whether each acknowledged reading is read back after the load.
    #[serde(default)]
    read_back: bool,
}

const fn interval_default() -> Span {
    Span::from_secs(10)
}

const fn before_default() -> Span {
    Span::from_secs(3600)
}

/// Builds the workload from its settings.
///
/// # Errors
/// When a setting is invalid.
pub fn make(settings: &Value, context: WorkloadContext) -> WorkloadResult {
    let trucks = Trucks::deserialize(settings);
    let trucks = trucks.map_err(|error| format!("{error}; write {{iot: {{trucks: 4000}}}}"))?;
    if trucks.trucks == 0 || trucks.trucks > TRUCKS_MAX {
        return Err(format!("iot.trucks: {}; give a number from 1 to {TRUCKS_MAX}", trucks.trucks));
    }
    let interval_ms = milliseconds(trucks.interval);
    if interval_ms == 0 {
        return Err("iot.interval: points of a truck lie 1ms apart or more".to_owned());
    }
    let start_ms = context.start_ms.saturating_sub(milliseconds(trucks.before));
    let iot = Iot { seed: context.seed, trucks: trucks.trucks, start_ms, interval_ms };
    Ok(Arc::new(Batches { iot, is_read_back: trucks.read_back }))
}

fn milliseconds(span: Span) -> i64 {
    i64::try_from(span.as_ns() / 1_000_000).unwrap_or(i64::MAX)
}

/// The batches of the trucks' points as request bodies.
#[derive(Clone, Copy, Debug)]
struct Batches {
    iot: Iot,
    is_read_back: bool,
}

impl Batches {
    /// The points of a body. A point of the batch before replaces a missing batch, because a body has at least one reading.
    fn points(&self, number: u64) -> Vec<Point> {
        let points = self.iot.batch(number);
        if points.is_empty() { vec![self.iot.single(number.saturating_mul(POINTS))] } else { points }
    }

    fn point(&self, part: Part) -> Option<Point> {
        self.points(part.number).into_iter().nth(usize::try_from(part.index).ok()?)
    }
}

impl Workload for Batches {
    fn body(&self, number: u64, out: &mut Vec<u8>) {
        let points: Value = self.points(number).iter().map(Point::to_json).collect();
        out.extend_from_slice(points.to_string().as_bytes());
    }

    fn read_back(&self) -> Option<&dyn ReadBack> {
        self.is_read_back.then_some(self)
    }
}

impl ReadBack for Batches {
    fn parts(&self, number: u64) -> u64 {
        self.points(number).len() as u64
    }

    /// Requests the readings of the point's sensor in the point's millisecond.
    fn path(&self, part: Part, out: &mut Vec<u8>) {
        let Some(Point { sensor, at_ms, .. }) = self.point(part) else { return };
        let to_ms = at_ms.saturating_add(1);
        out.extend_from_slice(format!("/api/telemetry/{sensor}?from={at_ms}&to={to_ms}").as_bytes());
    }

    /// Repeated points are identical. So a different reading of the same sensor and time was altered.
    fn judge(&self, part: Part, answer: &[u8]) -> Shown {
        let page = serde_json::from_slice::<Value>(answer).unwrap_or_default();
        match (self.point(part), page["readings"].as_array()) {
            (Some(point), Some(readings)) if readings.contains(&point.to_json()) => Shown::Intact,
            (Some(point), Some(readings)) if readings.iter().any(|it| it["timestamp"] == point.at_ms) => {
                Shown::Altered
            }
            (Some(_), Some(_)) if page["next"].is_null() => Shown::Absent,
            _ => Shown::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_systems::service_kind;

    use super::*;

    fn fleet(settings: &str) -> Result<Arc<dyn Workload>, String> {
        let typed: serde_json::Map<String, Value> = serde_saphyr::from_str(settings).unwrap();
        let context = WorkloadContext { seed: 7, start_ms: 1_790_000_000_000 };
        service_kind::workload(&[&crate::TelemetryLoad], &typed, context)
    }

    #[test]
    fn invalid_settings_are_refused_with_an_example() {
        for (settings, part) in [
            ("iott: {trucks: 4}", "iott"),
            ("iot: {trucks: 0}", "from 1 to"),
            ("iot: {truck: 4}", "truck"),
            ("iot: {trucks: 4, interval: 0s}", "1ms apart"),
            ("{}", "such as {iot: {trucks: 4000}}"),
        ] {
            let error = fleet(settings).unwrap_err();
            assert!(error.contains(part), "{settings}: {error}");
        }
    }

    #[test]
    fn no_body_is_empty_and_the_number_determines_each() {
        let fleet = fleet("iot: {trucks: 20}").unwrap();
        let body = |number| {
            let mut out = Vec::new();
            fleet.body(number, &mut out);
            serde_json::from_slice::<Vec<Value>>(&out).unwrap()
        };
        // One batch in two hundred never arrives.
        let lengths: Vec<_> = (0..3000).map(|number| body(number).len()).collect();
        assert!(lengths.iter().all(|length| *length > 0) && lengths.contains(&1));
        assert_eq!(body(1234), body(1234));
    }

    #[test]
    fn the_shipped_fleet_reads_its_readings_back_and_expects_each() {
        let shipped = include_str!("../../../../scenarios/telemetry/iot.yaml");
        let shipped: Value = serde_saphyr::from_str(shipped).unwrap();
        let workload = &shipped["phases"][0]["load"]["fleet"]["request"]["body"]["workload"];
        let fleet = fleet(&workload.to_string()).unwrap();
        assert!(fleet.read_back().is_some(), "{workload}");
        assert_eq!(shipped["expect"]["integrity.lost"], serde_json::json!(["count==0"]));
    }

    #[test]
    fn each_point_of_a_body_is_read_by_its_sensor_and_time_and_compared() {
        assert!(fleet("iot: {trucks: 20}").unwrap().read_back().is_none());
        let fleet = fleet("iot: {trucks: 20, read_back: true}").unwrap();
        let reader = fleet.read_back().unwrap();
        for number in 0..500 {
            let mut body = Vec::new();
            fleet.body(number, &mut body);
            let sent: Vec<Value> = serde_json::from_slice(&body).unwrap();
            assert_eq!(reader.parts(number), sent.len() as u64);
            for (point, index) in sent.iter().zip(0..) {
                let part = Part { number, index };
                let mut path = Vec::new();
                reader.path(part, &mut path);
                let (sensor, at) =
                    (point["sensorId"].as_str().unwrap(), point["timestamp"].as_i64().unwrap());
                let expected = format!("/api/telemetry/{sensor}?from={at}&to={}", at + 1);
                assert_eq!(String::from_utf8(path).unwrap(), expected);
                let judge = |readings: &[&Value], next: Option<&str>| {
                    let page = serde_json::json!({"readings": readings, "next": next});
                    reader.judge(part, page.to_string().as_bytes())
                };
                let mut altered = point.clone();
                altered["velocity"] = (-1.0).into();
                assert_eq!(judge(&[point], None), Shown::Intact);
                assert_eq!(judge(&[&altered, point], None), Shown::Intact);
                assert_eq!(judge(&[&altered], None), Shown::Altered);
                assert_eq!(judge(&[], None), Shown::Absent);
                assert_eq!(judge(&[], Some("more")), Shown::Unclear);
                assert_eq!(reader.judge(part, b"{}"), Shown::Unclear);
            }
        }
    }
}
