//! Tests readings against real servers: concurrent callers, disorder, kills.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_host::Profile;
use plimsoll_service::Reservation;
use plimsoll_telemetry::reading::Reading;
use plimsoll_telemetry::readings::{
    Design, Detail, Error, IngestError, RangeQuery, Readings, SensorStatistics, Settings, StatisticsQuery,
    Stored,
};
use plimsoll_telemetry::workload::{Preload, Sensors, preload};

use crate::server::{database, shared, start};

const START_MS: i64 = 1_789_999_200_000;
const HOUR_MS: i64 = 3_600_000;
const DESIGNS: [Design; 3] = [Design::Document, Design::Bucket, Design::TimeSeries];

/// Several committers, for concurrent commits.
fn settings(design: Design) -> Settings {
    Settings { design, committers: 3, ..Settings::default() }
}

async fn open(design: Design, name: &str) -> Readings {
    let database = database(shared(), &format!("{name}_{design:?}")).await;
    Readings::open(&database, settings(design)).await.unwrap()
}

fn reading(sensor: &str, at_ms: i64, value: f64) -> Reading {
    Reading { sensor: sensor.into(), at_ms, event: None, metrics: vec![("m".into(), value)] }
}

#[tokio::test]
async fn concurrent_duplicates_count_once() {
    for design in DESIGNS {
        let readings = open(design, "same").await;
        let calls = (0..200).map(|n| {
            let readings = readings.clone();
            tokio::spawn(async move { readings.ingest(reading("s", START_MS + n % 20, 1.0)).await })
        });
        let calls: Vec<_> = calls.collect();
        let mut new = 0;
        for call in calls {
            new += usize::from(call.await.unwrap().unwrap() == Stored::New);
        }
        assert_eq!(new, 20, "{design:?}");
        assert_eq!(count(&statistics(&readings, "s", Detail::Percentiles).await), 20, "{design:?}");
        let counters = readings.counters();
        assert_eq!((counters.accepted, counters.new, counters.known), (200, 20, 180), "{design:?}");
    }
}

async fn statistics(readings: &Readings, sensor: &str, detail: Detail) -> SensorStatistics {
    let query = StatisticsQuery {
        sensors: vec![sensor.into()],
        from_ms: START_MS - 100 * HOUR_MS,
        to_ms: START_MS + 100 * HOUR_MS,
        interval_ms: None,
        detail,
    };
    readings.statistics(&query, &Reservation::unlimited()).await.unwrap().remove(0)
}

fn count(statistics: &SensorStatistics) -> u64 {
    statistics.intervals.first().map_or(0, |interval| interval.metrics[0].1.count)
}

/// The readings of five sensors in batches of ten: every third batch four batches late, and every seventh reading sent again.
fn disordered() -> Vec<Vec<Reading>> {
    let sensors = Sensors { seed: 3, count: 5, start_ms: START_MS, interval_ms: 10_000 };
    let batch = |batch: u64| (batch * 10..batch * 10 + 10).map(|number| sensors.number(number));
    let mut order: Vec<u64> = (0..100).collect();
    order.sort_by_key(|batch| if batch.is_multiple_of(3) { batch + 4 } else { *batch });
    let again = |number: u64| number.is_multiple_of(7).then(|| sensors.number(number.saturating_sub(3)));
    order
        .into_iter()
        .map(|number| batch(number).chain((number * 10..number * 10 + 10).filter_map(again)).collect())
        .collect()
}

#[tokio::test]
async fn disordered_readings_give_the_same_statistics_in_every_design() {
    let mut answers = Vec::new();
    for design in DESIGNS {
        let readings = open(design, "disordered").await;
        for batch in disordered() {
            assert!(readings.ingest_many(batch).await.unwrap().iter().all(Result::is_ok));
        }
        let sensors = (0..5).map(|sensor| format!("sensor-{sensor}"));
        let query = StatisticsQuery {
            sensors: sensors.collect(),
            from_ms: START_MS,
            to_ms: START_MS + HOUR_MS,
            interval_ms: Some(300_000),
            detail: Detail::Percentiles,
        };
        let mut answer = readings.statistics(&query, &Reservation::unlimited()).await.unwrap();
        // Sums in another order may differ in their last digits.
        let means =
            answer.iter_mut().flat_map(|sensor| &mut sensor.intervals).flat_map(|one| &mut one.metrics);
        means.for_each(|(_, metric)| metric.mean = (metric.mean * 1e6).round());
        answers.push(answer);
    }
    assert!(answers[0].iter().all(|sensor| !sensor.intervals.is_empty()));
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[tokio::test]
async fn filling_a_database_twice_changes_no_data() {
    for design in DESIGNS {
        let readings = open(design, "preload").await;
        let sensors = Sensors { seed: 1, count: 30, start_ms: START_MS, interval_ms: 10_000 };
        let fill = Preload { sensors, ticks: 360 };
        let mut shown = 0;
        let first = preload(&readings, &fill, |progress| shown = progress.done).await.unwrap();
        assert_eq!((first.done, first.known, first.total, shown), (10_800, 0, 10_800, 10_800));
        let again = preload(&readings, &fill, |_| ()).await.unwrap();
        assert_eq!((again.done, again.known), (10_800, 10_800), "{design:?}");
        let found = statistics(&readings, "sensor-29", Detail::Summary).await;
        assert_eq!(count(&found), 360);
        let last = readings.latest("sensor-29").await.unwrap().unwrap();
        assert_eq!(last, sensors.reading(29, 359));
    }
}

#[tokio::test]
async fn the_latest_is_found_after_the_last_known_reading_was_deleted() {
    for (design, collection) in [
        (Design::Document, "readings"),
        (Design::Bucket, "reading_buckets"),
        (Design::TimeSeries, "reading_series"),
    ] {
        let readings = open(design, "rolled_back").await;
        let database = database(shared(), &format!("rolled_back_{design:?}")).await;
        let collection = database.collection::<bson::Document>(collection);
        let (old, new) = (reading("s", START_MS, 1.0), reading("s", START_MS + 5 * HOUR_MS, 2.0));
        assert_eq!(readings.ingest(old.clone()).await, Ok(Stored::New));
        let kept = collection.find_one(bson::doc! {}).await.unwrap().unwrap();
        assert_eq!(readings.ingest(new.clone()).await, Ok(Stored::New));
        assert_eq!(readings.latest("s").await.unwrap(), Some(new));
        // As after a rollback: only the older acknowledged reading exists.
        collection.delete_many(bson::doc! {}).await.unwrap();
        collection.insert_one(kept).await.unwrap();
        for _ in 0..2 {
            assert_eq!(readings.latest("s").await.unwrap().as_ref(), Some(&old), "{design:?}");
        }
    }
}

#[tokio::test]
async fn readings_of_another_design_are_refused_and_not_hidden() {
    for design in DESIGNS {
        let name = format!("other_{design:?}");
        let database = database(shared(), &name).await;

        let first = Readings::open(&database, settings(design)).await.unwrap();
        assert_eq!(first.ingest(reading("s", START_MS, 1.0)).await, Ok(Stored::New));
        for other in DESIGNS {
            let opened =
                Readings::open(&database, settings(other)).await.map(drop).map_err(|it| it.to_string());
            let expected = format!("holds readings of the design `{}`", design.name());
            match opened {
                Ok(()) => assert_eq!(other, design),
                Err(refusal) => assert!(other != design && refusal.contains(&expected), "{refusal}"),
            }
        }
    }
}

#[tokio::test]
async fn readings_without_a_record_of_their_design_are_found_and_not_hidden() {
    for design in DESIGNS {
        let database = database(shared(), &format!("unrecorded_{design:?}")).await;
        let first = Readings::open(&database, settings(design)).await.unwrap();
        assert_eq!(first.ingest(reading("s", START_MS, 1.0)).await, Ok(Stored::New));
        for other in DESIGNS.into_iter().filter(|other| *other != design).chain([design]) {
            database.collection::<bson::Document>("reading_design").drop().await.unwrap();
            let opened = Readings::open(&database, settings(other)).await.map(drop);
            let refusal = opened.map_err(|error| error.to_string()).err();
            let expected = format!("holds readings of the design `{}`", design.name());
            match refusal {
                None => assert_eq!(other, design),
                Some(refusal) => assert!(other != design && refusal.contains(&expected), "{refusal}"),
            }
        }
    }
}

#[tokio::test]
async fn hostile_names_are_only_names() {
    for design in DESIGNS {
        let readings = open(design, "hostile").await;
        let names = ["{$gt: \"\"}", "a\u{10ffff}", "__proto__", "s' || true", "..", "%00", "c.m.n"];
        for (n, name) in names.iter().enumerate() {
            let mut one = reading(name, START_MS, n as f64);
            one.event = Some("{\"$ne\": 1}:1".into());
            one.metrics =
                vec![("0".into(), 1.0), ("__proto__".into(), 2.0), ("r".into(), 3.0), ("ü 1".into(), 4.0)];
            assert_eq!(readings.ingest(one.clone()).await, Ok(Stored::New), "{design:?} {name}");
            assert_eq!(readings.latest(name).await.unwrap(), Some(one), "{design:?} {name}");
            assert_eq!(count(&statistics(&readings, name, Detail::Summary).await), 1);
        }
        assert_eq!(readings.latest("a").await.unwrap(), None);
    }
}

#[tokio::test]
async fn invalid_settings_are_refused_before_any_collection_is_created() {
    let uri = crate::server::uri(shared()).replace("w=majority&journal=true", "w=0");
    let database = mongodb::Client::with_uri_str(uri).await.unwrap().database("refused");
    assert!(matches!(Readings::open(&database, Settings::default()).await, Err(Error::Unacknowledged)));
    let wrong = Settings { committers: 0, ..Settings::default() };
    assert!(matches!(Readings::open(&database, wrong).await, Err(Error::Setting(_))));
    let names = crate::server::database(shared(), "refused").await.list_collection_names().await.unwrap();
    assert!(names.is_empty());
}

/// The acknowledged and the sent readings of a caller.
#[derive(Default)]
struct Promises {
    sent: BTreeSet<(usize, i64)>,
    acknowledged: BTreeSet<(usize, i64)>,
}

/// Sends readings one by one until stopped.
async fn call(
    readings: Readings,
    caller: usize,
    promises: Arc<Mutex<Promises>>,
    stop: Arc<AtomicBool>,
) -> usize {
    let mut failed = 0;
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        promises.lock().unwrap().sent.insert((caller, n));
        match readings.ingest(reading(&format!("s{caller}"), START_MS + n, n as f64)).await {
            Ok(_) => drop(promises.lock().unwrap().acknowledged.insert((caller, n))),
            Err(IngestError::Store(_)) => failed += 1,
            Err(other) => panic!("{other}"),
        }
    }
    failed
}

/// Sends readings in batches until stopped.
async fn call_in_batches(
    readings: Readings,
    caller: usize,
    promises: Arc<Mutex<Promises>>,
    stop: Arc<AtomicBool>,
) -> usize {
    const BATCH: i64 = 10;
    let mut failed = 0;
    for first in (0..).step_by(BATCH as usize) {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let numbers = first..first + BATCH;
        promises.lock().unwrap().sent.extend(numbers.clone().map(|n| (caller, n)));
        let batch = numbers.clone().map(|n| reading(&format!("s{caller}"), START_MS + n, n as f64)).collect();
        for (n, said) in numbers.zip(readings.ingest_many(batch).await.unwrap()) {
            match said {
                Ok(_) => drop(promises.lock().unwrap().acknowledged.insert((caller, n))),
                Err(IngestError::Store(_)) => failed += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    failed
}

async fn kill_during_ingest(design: Design) {
    const SINGLE: usize = 32;
    const CALLERS: usize = SINGLE + 4;
    let mut server = start(Profile::Journaled);
    let stop = Arc::new(AtomicBool::new(false));
    let promises = Arc::new(Mutex::new(Promises::default()));
    let readings = Readings::open(&database(&server, "kill").await, settings(design)).await.unwrap();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (readings, promises, stop) = (readings.clone(), Arc::clone(&promises), Arc::clone(&stop));
            match caller < SINGLE {
                true => tokio::spawn(call(readings, caller, promises, stop)),
                false => tokio::spawn(call_in_batches(readings, caller, promises, stop)),
            }
        })
        .collect();
    while promises.lock().unwrap().acknowledged.len() < 3000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill().unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.store(true, Ordering::SeqCst);
    let mut failed = 0;
    for caller in callers {
        failed += caller.await.unwrap();
    }
    readings.close().await;
    server.restart().unwrap();
    let readings = Readings::open(&database(&server, "kill").await, settings(design)).await.unwrap();
    let found = everything(&readings, CALLERS).await;
    let promises = promises.lock().unwrap();
    let lost: Vec<_> = promises.acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{design:?} lost {} of {}: {lost:?}", lost.len(), promises.acknowledged.len());
    assert!(found.is_subset(&promises.sent));
    let singles = promises.acknowledged.iter().filter(|(caller, _)| *caller < SINGLE).count();
    assert!((1..promises.acknowledged.len()).contains(&singles), "{design:?}: singles and batches are in");
    assert!(failed > 0, "{design:?}: a caller was waiting when the server was killed");
    println!(
        "{design:?}: {} acknowledged, {} found, {failed} failed",
        promises.acknowledged.len(),
        found.len()
    );
}

/// The stored readings of all callers: each once, with equal computed parts and values.
async fn everything(readings: &Readings, callers: usize) -> BTreeSet<(usize, i64)> {
    let mut found = BTreeSet::new();
    for caller in 0..callers {
        let sensor = format!("s{caller}");
        let (from_ms, to_ms) = (START_MS, START_MS + HOUR_MS);
        let query = RangeQuery { sensor: sensor.clone(), from_ms, to_ms, after: None, limit: 10_000 };
        let page = readings.range(&query).await.unwrap();
        assert_eq!(page.next, None);
        let stored = page.readings.len() as u64;
        for detail in [Detail::Summary, Detail::Percentiles] {
            assert_eq!(count(&statistics(readings, &sensor, detail).await), stored, "{detail:?}");
        }
        found.extend(page.readings.iter().map(|reading| (caller, reading.at_ms - START_MS)));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_server_loses_no_acknowledged_document() {
    kill_during_ingest(Design::Document).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_server_loses_no_acknowledged_reading_of_a_bucket() {
    kill_during_ingest(Design::Bucket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_server_loses_no_acknowledged_reading_of_a_time_series() {
    kill_during_ingest(Design::TimeSeries).await;
}
