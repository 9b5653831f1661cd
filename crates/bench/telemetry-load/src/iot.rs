//! Generates readings and diagnostics of trucks, after the `iot` use case of TSBS (github.com/timescale/tsbs). Metrics, tags and
//! the rates of disorder follow its documentation; the values do not.
//!
//! A batch has ten points. 1 % of the batches go missing; half of these arrive later. 5 % of the batches are late. 10 % of the
//! points in a batch go missing; half of these are replaced by a duplicate of the previous point. 30 % of the points are out of
//! order, 10 % lack a metric, and 1 % lack their tags.

use plimsoll_measure::random::{STEP, mix};
use serde_json::{Map, Value};

/// The number of points in a batch.
const BATCH: u64 = 10;
/// The longest delay of a late batch, in batches.
const DELAY_MAX: u64 = 4;
/// The number of ticks in which a value drifts to the next.
const DRIFT_TICKS: u64 = 60;

const BATCH_MISSING: f64 = 0.01;
const BATCH_LATE: f64 = 0.05;
const POINT_MISSING: f64 = 0.10;
const POINT_OUT_OF_ORDER: f64 = 0.30;
const REPLACED: f64 = 0.50;
const METRIC_MISSING: f64 = 0.10;
const TAGS_MISSING: f64 = 0.01;

/// The purpose of a random number. Numbers for different purposes are independent.
#[derive(Clone, Copy)]
enum Topic {
    Batch,
    Return,
    Delay,
    Missing,
    Replaced,
    Order,
    Metric,
    WhichMetric,
    Tags,
    Truck,
    Value,
}

/// A point of a truck, as the telemetry service reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The sensor's name.
    pub sensor: String,
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Name and value of each metric, sorted by name.
    pub metrics: Vec<(String, f64)>,
}

impl Point {
    /// The body for the route of single readings.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("sensorId".into(), self.sensor.clone().into());
        fields.insert("timestamp".into(), self.at_ms.into());
        fields.extend(self.metrics.iter().map(|(name, value)| (name.clone(), (*value).into())));
        fields.into()
    }
}

/// A fleet of trucks. Every value is a function of these fields and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iot {
    /// The seed of values and disorder.
    pub seed: u64,
    /// The number of trucks, at least one.
    pub trucks: u64,
    /// The time of the first points, in milliseconds since 1970.
    pub start_ms: i64,
    /// Milliseconds between two points of a truck; TSBS has 10,000.
    pub interval_ms: i64,
}

/// The tags of a truck. Readings carry the capacities as metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Truck {
    /// `truck-7`; its sensors are `truck-7.readings` and `truck-7.diagnostics`.
    pub name: String,
    /// The fleet.
    pub fleet: &'static str,
    /// The driver.
    pub driver: String,
    /// The model.
    pub model: &'static str,
    /// The version of the device.
    pub device_version: &'static str,
    /// The largest load, in kilograms.
    pub load_capacity: f64,
    /// The size of the fuel tank, in litres.
    pub fuel_capacity: f64,
    /// The nominal fuel consumption, in litres per 100 km.
    pub nominal_fuel_consumption: f64,
}

impl Iot {
    /// The tags of a truck.
    pub fn truck(&self, number: u64) -> Truck {
        const FLEETS: [&str; 4] = ["north", "east", "south", "west"];
        const MODELS: [(&str, f64, f64, f64); 3] =
            [("light", 1500.0, 120.0, 11.0), ("middle", 4000.0, 250.0, 17.0), ("heavy", 9000.0, 400.0, 24.0)];
        const VERSIONS: [&str; 3] = ["1.0", "1.4", "2.1"];
        let number = number % self.trucks.max(1);
        let pick = |what: u64, of: usize| (self.hash(Topic::Truck, &[number, what]) % of as u64) as usize;
        let (model, load_capacity, fuel_capacity, nominal_fuel_consumption) = MODELS[pick(0, MODELS.len())];
        Truck {
            name: format!("truck-{number}"),
            fleet: FLEETS[pick(1, FLEETS.len())],
            driver: format!("driver-{}", pick(2, 50)),
            model,
            device_version: VERSIONS[pick(3, VERSIONS.len())],
            load_capacity,
            fuel_capacity,
            nominal_fuel_consumption,
        }
    }

    /// The points of batch `number`: none if the batch is missing, more than ten if a late batch joins it.
    pub fn batch(&self, number: u64) -> Vec<Point> {
        let due = |delay: &u64| number >= *delay && self.delay(number - delay) == Some(*delay);
        (0..=DELAY_MAX).filter(due).flat_map(|delay| self.points(number - delay)).collect()
    }

    /// The reading of request `number`, for requests with one reading. The points of the batches follow in
    /// order, ten requests per batch. A smaller batch repeats points; a larger batch drops its last points.
    /// In place of a missing batch, the points of the batch before are sent.
    pub fn single(&self, number: u64) -> Point {
        let points = self.batch(number / BATCH);
        let place = usize::try_from(number % BATCH).unwrap_or_default();
        match points.len() {
            0 => self.point(number.saturating_sub(BATCH)),
            count => points[place % count].clone(),
        }
    }

    /// The body for the route of single readings.
    pub fn single_json(&self, number: u64) -> Value {
        self.single(number).to_json()
    }

    /// The delay of a batch, in batches; `None` if it never arrives.
    fn delay(&self, batch: u64) -> Option<u64> {
        let fate = self.unit(Topic::Batch, batch);
        let later = 1 + self.hash(Topic::Delay, &[batch]) % DELAY_MAX;
        if fate < BATCH_MISSING {
            return (self.unit(Topic::Return, batch) < REPLACED).then_some(later);
        }
        Some(if fate < BATCH_MISSING + BATCH_LATE { later } else { 0 })
    }

    /// The points of a batch in the order of sending: late points follow the others.
    fn points(&self, batch: u64) -> Vec<Point> {
        let numbers = (batch * BATCH)..((batch + 1) * BATCH);
        let (late, in_order): (Vec<u64>, Vec<u64>) =
            numbers.partition(|number| self.unit(Topic::Order, *number) < POINT_OUT_OF_ORDER);
        in_order.into_iter().chain(late).filter_map(|number| self.sent(number)).collect()
    }

    fn sent(&self, number: u64) -> Option<Point> {
        if self.unit(Topic::Missing, number) >= POINT_MISSING {
            return Some(self.point(number));
        }
        (self.unit(Topic::Replaced, number) < REPLACED).then(|| self.point(number.saturating_sub(1)))
    }

    /// The point with this number. Two calls return identical points.
    fn point(&self, number: u64) -> Point {
        let series = self.trucks.max(1) * 2;
        let (tick, truck, kind) = (number / series, number % series / 2, number % 2);
        let of = self.truck(truck);
        let (sensor, mut metrics) = match kind {
            0 => (format!("{}.readings", of.name), self.readings(truck, tick)),
            _ => (format!("{}.diagnostics", of.name), self.diagnostics(truck, tick, &of)),
        };
        if self.unit(Topic::Metric, number) < METRIC_MISSING {
            let which = self.hash(Topic::WhichMetric, &[number]) % metrics.len() as u64;
            metrics.remove(usize::try_from(which).unwrap_or_default());
        }
        if kind == 1 && self.unit(Topic::Tags, number) >= TAGS_MISSING {
            metrics.push(("fuel_capacity", of.fuel_capacity));
            metrics.push(("load_capacity", of.load_capacity));
            metrics.push(("nominal_fuel_consumption", of.nominal_fuel_consumption));
        }
        let mut metrics: Vec<_> = metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        metrics.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let since_ms = i64::try_from(tick).unwrap_or(i64::MAX).saturating_mul(self.interval_ms);
        Point { sensor, at_ms: self.start_ms.saturating_add(since_ms), metrics }
    }

    fn readings(&self, truck: u64, tick: u64) -> Vec<(&'static str, f64)> {
        let value = |which: u64, least, most| {
            let topic = Topic::Value as u64;
            drift(least, most, DRIFT_TICKS, tick, [self.seed ^ topic, truck, which])
        };
        vec![
            ("latitude", value(0, -60.0, 70.0)),
            ("longitude", value(1, -180.0, 180.0)),
            ("elevation", value(2, 0.0, 2500.0)),
            ("velocity", value(3, 0.0, 110.0)),
            ("heading", value(4, 0.0, 360.0)),
            ("grade", value(5, -12.0, 12.0)),
            ("fuel_consumption", value(6, 0.0, 50.0)),
        ]
    }

    fn diagnostics(&self, truck: u64, tick: u64, of: &Truck) -> Vec<(&'static str, f64)> {
        let topic = Topic::Value as u64;
        let fuel = drift(0.0, 1.0, DRIFT_TICKS, tick, [self.seed ^ topic, truck, 7]);
        let load = between(0.0, of.load_capacity, &[self.seed ^ topic, truck, 8, tick / (4 * DRIFT_TICKS)]);
        let status = (self.hash(Topic::Value, &[truck, 9, tick / DRIFT_TICKS]) % 5) as f64;
        vec![("fuel_state", fuel), ("current_load", load), ("status", status)]
    }

    fn unit(&self, topic: Topic, number: u64) -> f64 {
        unit(&[self.seed, topic as u64, number])
    }

    fn hash(&self, topic: Topic, parts: &[u64]) -> u64 {
        hash(&[self.seed, topic as u64, hash(parts)])
    }
}

/// Mixes numbers into 64 bits.
fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(STEP, |state, part| mix((state ^ part).wrapping_add(STEP)))
}

/// A number from 0 to just below 1.
fn unit(parts: &[u64]) -> f64 {
    // A double has 53 significant bits.
    (hash(parts) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number from `least` to just below `most`, with two decimals, which compress well (advice of MongoDB).
fn between(least: f64, most: f64, parts: &[u64]) -> f64 {
    round(least + unit(parts) * (most - least))
}

/// Like [`between`], but continuous: linear from one random value to the next within `ticks` ticks.
fn drift(least: f64, most: f64, ticks: u64, tick: u64, parts: [u64; 3]) -> f64 {
    let at = |step: u64| unit(&[parts[0], parts[1], parts[2], step]);
    let (step, share) = (tick / ticks, (tick % ticks) as f64 / ticks as f64);
    round(least + (at(step) * (1.0 - share) + at(step + 1) * share) * (most - least))
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const NOW_MS: i64 = 1_790_000_000_000;

    fn iot() -> Iot {
        Iot { seed: 7, trucks: 20, start_ms: NOW_MS - 40_000_000, interval_ms: 10_000 }
    }

    fn key(reading: &Point) -> (String, i64) {
        (reading.sensor.clone(), reading.at_ms)
    }

    #[test]
    fn a_duplicate_point_is_identical() {
        let mut seen: HashMap<_, Point> = HashMap::new();
        let mut again = 0;
        for reading in (0..3000).flat_map(|number| iot().batch(number)) {
            if let Some(before) = seen.insert(key(&reading), reading.clone()) {
                assert_eq!(before, reading);
                again += 1;
            }
        }
        let share = f64::from(again) / 30_000.0;
        assert!((0.03..0.06).contains(&share), "half of a tenth of the points: {share}");
    }

    #[test]
    fn batches_are_missing_and_late_at_the_documented_rates() {
        let delays: Vec<_> = (0..20_000).map(|batch| iot().delay(batch)).collect();
        let share = |wanted: fn(&Option<u64>) -> bool| {
            delays.iter().filter(|delay| wanted(delay)).count() as f64 / delays.len() as f64
        };
        let (never, late) =
            (share(|delay| delay.is_none()), share(|delay| delay.is_some_and(|delay| delay > 0)));
        assert!((0.003..0.008).contains(&never), "{never}");
        assert!((0.045..0.065).contains(&late), "{late}");
        let sent = (0..2000).map(|batch| iot().batch(batch).len()).sum::<usize>() as f64 / 20_000.0;
        assert!((0.92..0.96).contains(&sent), "{sent}");
    }

    #[test]
    fn points_are_out_of_order_and_lack_metrics_and_tags() {
        let points: Vec<_> = (0..3000).flat_map(|batch| iot().points(batch)).collect();
        let of = |kind: &'static str| points.iter().filter(move |point| point.sensor.ends_with(kind));
        let readings = of("readings").count() as f64;
        let thin = of("readings").filter(|point| point.metrics.len() == 6).count() as f64;
        assert!((0.08..0.12).contains(&(thin / readings)), "{thin} of {readings}");
        let diagnostics = of("diagnostics").count() as f64;
        let bare =
            of("diagnostics").filter(|point| !point.metrics.iter().any(|(name, _)| name == "load_capacity"));
        let bare = bare.count() as f64 / diagnostics;
        assert!((0.004..0.02).contains(&bare), "{bare}");
        let truck = |point: &Point| -> u64 {
            point.sensor.split(['-', '.']).nth(1).and_then(|number| number.parse().ok()).unwrap()
        };
        let backwards = points
            .windows(2)
            .filter(|pair| pair[1].at_ms == pair[0].at_ms && truck(&pair[1]) < truck(&pair[0]));
        assert!(backwards.count() > points.len() / 20);
    }

    #[test]
    fn a_truck_is_stable_and_trucks_differ() {
        assert_eq!(iot().truck(3), iot().truck(23));
        let fleets: std::collections::HashSet<_> = (0..20).map(|number| iot().truck(number).fleet).collect();
        assert!(fleets.len() > 1);
    }

    #[test]
    fn a_drift_stays_in_its_bounds_and_moves_slowly() {
        let values: Vec<_> = (0..500).map(|tick| drift(-5.0, 5.0, 50, tick, [1, 2, 3])).collect();
        assert!(values.iter().all(|value| (-5.0..=5.0).contains(value)));
        assert!(values.windows(2).all(|pair| (pair[0] - pair[1]).abs() <= 10.0 / 50.0 + 0.02));
        assert!(values.iter().any(|value| *value != values[0]));
    }
}
