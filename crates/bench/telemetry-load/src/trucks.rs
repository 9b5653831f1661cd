//! Makes the bodies of the workload `iot`: batches of readings of trucks.

use std::sync::Arc;

use plimsoll_http::setup::{Workload, WorkloadContext};
use plimsoll_measure::duration::Span;
use plimsoll_systems::WorkloadResult;
use serde::Deserialize;
use serde_json::Value;

use crate::iot::Iot;

/// The largest number of trucks.
const TRUCKS_MAX: u64 = 10_000_000;
/// Points in a batch.
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
    /// The time from the first points to the run's start. A load that sends faster than the trucks would runs ahead of the clock,
    /// and the service refuses readings from the future.
    #[serde(default = "before_default")]
    before: Span,
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
    Ok(Arc::new(Batches(Iot { seed: context.seed, trucks: trucks.trucks, start_ms, interval_ms })))
}

fn milliseconds(span: Span) -> i64 {
    i64::try_from(span.as_ns() / 1_000_000).unwrap_or(i64::MAX)
}

/// The batches of the trucks' points as request bodies.
#[derive(Clone, Copy, Debug)]
struct Batches(Iot);

impl Workload for Batches {
    /// Replaces a missing batch by a point of the batch before, because a body has at least one reading.
    fn body(&self, number: u64, out: &mut Vec<u8>) {
        let points = self.0.batch_json(number);
        let is_missing = points.as_array().is_none_or(Vec::is_empty);
        let again = || Value::from(vec![self.0.single_json(number.saturating_mul(POINTS))]);
        let points = if is_missing { again() } else { points };
        out.extend_from_slice(points.to_string().as_bytes());
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
}
