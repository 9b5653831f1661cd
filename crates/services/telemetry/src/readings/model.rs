//! Models the expected answers simply, and generates random histories.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::allowance::Allowance;
use super::range::{Cursor, RangeQuery};
use super::statistics::{Detail, MetricStatistics, Percentiles, StatisticsQuery};
use super::store::Store;
use super::stored::Stored;
use super::tally::Tally;
use crate::reading::Reading;
use plimsoll_service::Reservation;

/// The start of an hour, at which buckets start.
pub(crate) const START_MS: i64 = 1_789_999_200_000;
const HOUR_MS: i64 = 3_600_000;
/// Sensor names; the first is a prefix of all.
pub(crate) const SENSORS: [&str; 3] = ["a", "a 1", "a.b"];

/// Commits of readings: late, out of order, repeated, at crowded times, with varying metrics.
pub(crate) fn commits() -> impl Strategy<Value = Vec<Vec<Reading>>> {
    vec(vec(reading(), 1..12), 1..25)
}

fn reading() -> impl Strategy<Value = Reading> {
    // Some times are crowded: one millisecond, one second, one minute, and the edges of an hour.
    let at_ms = prop_oneof![
        0..3_i64,
        0..1_000_i64,
        0..60_000_i64,
        (HOUR_MS - 2)..(HOUR_MS + 2),
        (-HOUR_MS)..(2 * HOUR_MS),
    ];
    let event = option::of(select(vec!["x", "y:1", "z"]));
    // Multiples of a quarter, whose sums are exact in every order.
    let metrics = proptest::sample::subsequence(vec!["humidity", "m-1", "temperature"], 1..=3);
    (select(SENSORS.to_vec()), at_ms, event, metrics, -400..400_i32).prop_map(
        |(sensor, offset_ms, event, names, quarters)| Reading {
            sensor: sensor.to_owned(),
            at_ms: START_MS + offset_ms,
            event: event.map(str::to_owned),
            metrics: names.into_iter().map(|name| (name.to_owned(), f64::from(quarters) / 4.0)).collect(),
        },
    )
}

/// All stored readings, each once, with all metrics that were sent for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    readings: BTreeMap<(String, Cursor), Reading>,
}

impl Model {
    /// Adds a reading, and returns its outcome.
    pub(crate) fn add(&mut self, reading: &Reading) -> Stored {
        let key = (reading.sensor.clone(), Cursor { at_ms: reading.at_ms, event: reading.event.clone() });
        let Some(stored) = self.readings.get_mut(&key) else {
            self.readings.insert(key, reading.clone());
            return Stored::New;
        };
        let mut all: BTreeMap<_, _> = stored.metrics.iter().cloned().collect();
        let (before, mut differs) = (all.len(), false);
        for (name, value) in &reading.metrics {
            differs |= *all.entry(name.clone()).or_insert(*value) != *value;
        }
        let merged = all.len() > before;
        stored.metrics = all.into_iter().collect();
        match (differs, merged) {
            (true, _) => Stored::Differs,
            (false, true) => Stored::Merged,
            (false, false) => Stored::Known,
        }
    }

    pub(crate) fn of(&self, sensor: &str) -> Vec<Reading> {
        self.readings.values().filter(|reading| reading.sensor == sensor).cloned().collect()
    }

    /// The statistics of each interval and metric with values.
    fn statistics(&self, sensor: &str, query: &StatisticsQuery) -> BTreeMap<(i64, String), MetricStatistics> {
        let mut values: BTreeMap<(i64, String), Vec<f64>> = BTreeMap::new();
        let length_ms = query.interval_ms.unwrap_or(i64::MAX);
        for reading in self.of(sensor) {
            if reading.at_ms >= query.from_ms && reading.at_ms < query.to_ms {
                let start_ms = query.from_ms + (reading.at_ms - query.from_ms) / length_ms * length_ms;
                for (name, value) in reading.metrics {
                    values.entry((start_ms, name)).or_default().push(value);
                }
            }
        }
        values.into_iter().map(|(key, values)| (key, statistics(values, query.detail))).collect()
    }

    /// Runs every query on a store and compares the answers.
    pub(crate) async fn compare(&self, store: &dyn Store) {
        for sensor in SENSORS {
            for query in queries(sensor) {
                let mut tally =
                    Tally::new(&query, Allowance::new(1_000_000, 100_000, Reservation::unlimited()));
                store.tally(sensor, &mut tally).await.unwrap();
                let found = tally.finish(sensor).intervals.into_iter().flat_map(|interval| {
                    let named = move |(name, metric)| ((interval.from_ms, name), metric);
                    interval.metrics.into_iter().map(named)
                });
                let found: BTreeMap<_, _> = found.collect();
                assert_eq!(found, self.statistics(sensor, &query), "{query:?}");
            }
            for (from_ms, to_ms) in windows() {
                self.compare_pages(store, sensor, from_ms, to_ms).await;
            }
            let last = self.of(sensor).pop();
            for since_ms in [None, last.as_ref().map(|last| last.at_ms), Some(START_MS - HOUR_MS)] {
                assert_eq!(store.latest(sensor, since_ms).await.unwrap(), last, "{since_ms:?}");
            }
        }
    }

    async fn compare_pages(&self, store: &dyn Store, sensor: &str, from_ms: i64, to_ms: i64) {
        let all = self.of(sensor);
        let expected: Vec<_> =
            all.into_iter().filter(|reading| (from_ms..to_ms).contains(&reading.at_ms)).collect();
        let mut query = RangeQuery { sensor: sensor.to_owned(), from_ms, to_ms, after: None, limit: 7 };
        let mut found = Vec::new();
        loop {
            let page = store.range(&query).await.unwrap();
            assert!(page.readings.len() == query.limit || page.next.is_none());
            found.extend(page.readings);
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, expected);
    }
}

fn windows() -> [(i64, i64); 4] {
    let end_ms = START_MS + 3 * HOUR_MS;
    [
        (START_MS - 2 * HOUR_MS, end_ms),
        (START_MS + 1, START_MS + 30_000),
        (START_MS + 500, START_MS + HOUR_MS),
        (end_ms, end_ms + 1),
    ]
}

fn queries(sensor: &str) -> Vec<StatisticsQuery> {
    let mut queries = Vec::new();
    for (from_ms, to_ms) in windows() {
        for interval_ms in [None, Some(1_000_003), Some(HOUR_MS)] {
            for detail in [Detail::Summary, Detail::Percentiles] {
                let sensors = vec![sensor.to_owned()];
                queries.push(StatisticsQuery { sensors, from_ms, to_ms, interval_ms, detail });
            }
        }
    }
    queries
}

fn statistics(mut values: Vec<f64>, detail: Detail) -> MetricStatistics {
    values.sort_by(f64::total_cmp);
    // The least value with at least this percentage of all values at or below it.
    let at = |percent: usize| {
        let enough = |value: &&f64| {
            values.iter().filter(|other| *other <= *value).count() * 100 >= percent * values.len()
        };
        *values.iter().find(enough).unwrap()
    };
    MetricStatistics {
        count: values.len() as u64,
        min: values[0],
        max: values[values.len() - 1],
        mean: values.iter().sum::<f64>() / values.len() as f64,
        percentiles: (detail == Detail::Percentiles).then(|| Percentiles {
            p50: at(50),
            p95: at(95),
            p99: at(99),
        }),
    }
}
