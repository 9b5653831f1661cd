//! Generates readings of identical sensors: temperature, humidity, pressure and battery level at every interval.

use super::random::between;
use crate::reading::Reading;

/// Sensors named `sensor-0`, `sensor-1`, … Seed, sensor and tick determine a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensors {
    /// The seed of all values.
    pub seed: u64,
    /// The number of sensors.
    pub count: u64,
    /// The time of tick 0, in milliseconds since 1970.
    pub start_ms: i64,
    /// Milliseconds between ticks.
    pub interval_ms: i64,
}

impl Sensors {
    /// The reading of a sensor at a tick.
    pub fn reading(&self, sensor: u64, tick: u64) -> Reading {
        let value = |metric: u64, least, most| between(least, most, &[self.seed, sensor, tick, metric]);
        let since_ms = i64::try_from(tick).unwrap_or(i64::MAX).saturating_mul(self.interval_ms);
        Reading {
            sensor: format!("sensor-{sensor}"),
            at_ms: self.start_ms.saturating_add(since_ms),
            event: None,
            metrics: vec![
                ("batteryLevel".to_owned(), value(0, 0.0, 100.0)),
                ("humidity".to_owned(), value(1, 40.0, 70.0)),
                ("pressure".to_owned(), value(2, 1010.0, 1030.0)),
                ("temperature".to_owned(), value(3, 20.0, 35.0)),
            ],
        }
    }

    /// The reading with this number; numbers go tick by tick, and sensor by sensor within a tick.
    pub fn number(&self, number: u64) -> Reading {
        let count = self.count.max(1);
        self.reading(number % count, number / count)
    }
}

#[cfg(test)]
mod tests {
    use crate::reading::Limits;

    use super::*;

    #[test]
    fn every_number_is_one_valid_reading_and_always_the_same() {
        let sensors = Sensors { seed: 1, count: 3, start_ms: 1_790_000_000_000, interval_ms: 10_000 };
        let seventh = sensors.number(7);
        assert_eq!((seventh.sensor.as_str(), seventh.at_ms), ("sensor-1", 1_790_000_020_000));
        for number in 0..100 {
            let reading = sensors.number(number);
            let parsed = Reading::parse(
                reading.to_json().to_string().as_bytes(),
                1_790_001_000_000,
                &Limits::default(),
            );
            assert_eq!(parsed.unwrap(), reading);
            assert_eq!(reading, sensors.number(number));
        }
        assert_ne!(Sensors { seed: 2, ..sensors }.number(7).metrics, seventh.metrics);
    }
}
