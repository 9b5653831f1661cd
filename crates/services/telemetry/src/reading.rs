//! One reading of a sensor, checked: what a device may say, and what it may not.

use serde_json::{Map, Value};

pub use self::json::{Read, Unread};

mod draft;
mod json;
mod scalar;

/// The fields of the JSON form that are not metrics.
const SENSOR: &str = "sensorId";
const TIMESTAMP: &str = "timestamp";
const EVENT: &str = "eventId";

/// No metric lies further from zero: sums of so many as a statistic may have stay finite (the greatest double is 1.8e308).
pub const METRIC_MAX: f64 = 1e300;

/// What a sensor measured at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The sensor's name.
    pub sensor: String,
    /// When, in milliseconds since 1970 (UTC).
    pub at_ms: i64,
    /// Tells apart what one sensor sends for one moment; a reading sent again carries the same.
    pub event: Option<String>,
    /// Name and value of each metric, sorted by name; values up to [`METRIC_MAX`], no name twice, at least one.
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

impl Reading {
    /// Reads `{"sensorId": "…", "timestamp": RFC 3339 or milliseconds since 1970, "eventId": "…" (optional), …}`; every
    /// other field is a metric and must be a number. `now_ms` is the service's clock.
    ///
    /// # Errors
    /// [`Unread`]: no JSON, or the first [`InvalidField`](plimsoll_service::InvalidField) field.
    pub fn parse(json: &[u8], now_ms: i64, limits: &Limits) -> Result<Self, Unread> {
        Read { now_ms, limits }.bytes(json)
    }

    /// The bytes that it takes in memory, about.
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
