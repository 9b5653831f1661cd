//! Parses and checks readings of sensors.

use serde_json::{Map, Value};

pub use self::json::{Read, Unread};

mod draft;
mod json;
mod scalar;

/// The fields of the JSON form that are not metrics.
const SENSOR: &str = "sensorId";
const TIMESTAMP: &str = "timestamp";
const EVENT: &str = "eventId";

/// The greatest absolute value of a metric: sums in statistics stay finite (the greatest double is 1.8e308).
pub const METRIC_MAX: f64 = 1e300;

/// The metrics of a sensor at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The sensor's name.
    pub sensor: String,
    /// The time, in milliseconds since 1970 (UTC).
    pub at_ms: i64,
    /// Distinguishes readings of one sensor and time; a retry has the same event.
    pub event: Option<String>,
    /// Name and value of each metric, sorted by unique name, at least one; values up to [`METRIC_MAX`].
    pub metrics: Vec<(String, f64)>,
}

/// The limits of an accepted reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The latest timestamp, in milliseconds after now.
    pub future_ms_max: i64,
    /// The earliest timestamp, in milliseconds before now.
    pub past_ms_max: i64,
    /// The largest number of metrics in one reading.
    pub metrics_max: usize,
    /// The longest sensor's name or event id, in bytes.
    pub name_bytes_max: usize,
    /// The longest metric's name, in bytes.
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

impl Reading {
    /// Parses `{"sensorId": "…", "timestamp": RFC 3339 or milliseconds since 1970, "eventId": "…" (optional), …}`; every
    /// other field is a metric and must be a number. `now_ms` is the service's clock.
    ///
    /// # Errors
    /// [`Unread`]: invalid JSON, or the first invalid field.
    pub fn parse(json: &[u8], now_ms: i64, limits: &Limits) -> Result<Self, Unread> {
        Read { now_ms, limits }.bytes(json)
    }

    /// The approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        let metric = |(name, _): &(String, f64)| size_of::<(String, f64)>() + name.len();
        let names = self.sensor.len() + self.event.as_ref().map_or(0, String::len);
        size_of::<Self>() + names + self.metrics.iter().map(metric).sum::<usize>()
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
