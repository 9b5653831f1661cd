//! Tests every store against the contract of the port.

use bson::{Document, doc};
use mongodb::Database;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::bucket::Buckets;
use super::document::Documents;
use super::memory::Memory;
use super::model::{Model, SENSORS, START_MS, commits};
use super::settings::BucketSettings;
use super::store::Store;
use super::stored::Stored;
use super::testing::database;
use super::time_series::Series;
use crate::reading::Reading;

/// The number of random histories for each store.
const CASES: u64 = 3;

fn reading(sensor: &str, offset_ms: i64, event: Option<&str>, value: f64) -> Reading {
    Reading {
        sensor: sensor.to_owned(),
        at_ms: START_MS + offset_ms,
        event: event.map(str::to_owned),
        metrics: vec![("m".to_owned(), value)],
    }
}

/// Runs all checks in one empty store.
async fn contract(store: &dyn Store) {
    an_empty_store_knows_nothing(store).await;
    let mut model = Model::default();
    the_first_of_several_counts(store, &mut model).await;
    partial_readings_add_up(store, &mut model).await;
    writers_of_parts_that_meet_lose_none(store, &mut model).await;
    writers_that_meet_count_once(store, &mut model).await;
    a_random_history_is_right_in_every_answer(store, &mut model).await;
}

async fn an_empty_store_knows_nothing(store: &dyn Store) {
    Model::default().compare(store).await;
}

async fn the_first_of_several_counts(store: &dyn Store, model: &mut Model) {
    let first = [
        reading(SENSORS[0], 5, None, 1.0),
        reading(SENSORS[0], 5, None, 2.0),
        reading(SENSORS[0], 5, Some("x"), 3.0),
        reading(SENSORS[1], 5, None, 4.0),
    ];
    let new = [Stored::New, Stored::Differs, Stored::New, Stored::New];
    assert_eq!(store.write(&first).await.unwrap(), new.map(Ok));
    let again = [reading(SENSORS[1], 5, None, 9.0), reading(SENSORS[0], 5, Some("x"), 9.0)];
    assert_eq!(store.write(&again).await.unwrap(), [Stored::Differs; 2].map(Ok));
    for reading in first.iter().chain(&again) {
        model.add(reading);
    }
    model.compare(store).await;
}

/// A reading with these metrics.
fn part(offset_ms: i64, event: Option<&str>, metrics: &[(&str, f64)]) -> Reading {
    let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Reading { metrics, ..reading(SENSORS[1], offset_ms, event, 0.0) }
}

/// Writes parts of readings, one after the other and in one commit, and checks each answer.
async fn partial_readings_add_up(store: &dyn Store, model: &mut Model) {
    let (new, known, merged, differs) = (Stored::New, Stored::Known, Stored::Merged, Stored::Differs);
    let (a1, a2, b1) = (&[("a", 1.0)][..], &[("a", 2.0)][..], &[("b", 1.0)][..]);
    let (both, all) = (&[("a", 2.0), ("b", 1.0)][..], &[("a", 1.0), ("b", 1.0), ("c", 5.0)][..]);
    for (commit, expected) in [
        (vec![part(9, None, a1), part(9, Some("x"), b1)], vec![new, new]),
        (vec![part(9, None, b1), part(9, Some("x"), b1)], vec![merged, known]),
        (vec![part(9, None, both)], vec![differs]),
        (vec![part(9, None, all), part(9, None, all), part(9, Some("x"), a2)], vec![merged, known, merged]),
        (
            vec![part(9, None, all), part(9, Some("x"), both), part(9, Some("x"), all)],
            vec![known, known, differs],
        ),
        // Several parts and one repetition, all of one new reading.
        (
            vec![part(10, None, a1), part(10, None, b1), part(10, None, a2), part(10, None, a1)],
            vec![new, merged, differs, known],
        ),
        // A part with a missing metric and another value of a stored one.
        (vec![part(11, None, a1)], vec![new]),
        (vec![part(11, None, both), part(11, None, b1)], vec![differs, known]),
    ] {
        let outcomes = store.write(&commit).await.unwrap();
        assert_eq!(outcomes, expected.iter().map(|it| Ok(*it)).collect::<Vec<_>>(), "{commit:?}");
        assert_eq!(commit.iter().map(|one| model.add(one)).collect::<Vec<_>>(), expected, "{commit:?}");
        model.compare(store).await;
    }
}

/// Writes different metrics of the same readings at once, as two processes would.
async fn writers_of_parts_that_meet_lose_none(store: &dyn Store, model: &mut Model) {
    let parts = |name| (0..40).map(move |n| part(20_000 + n * 700, None, &[(name, n as f64)]));
    let (left, right): (Vec<_>, Vec<_>) = (parts("a").collect(), parts("b").collect());
    let (one, other) = futures_util::join!(store.write(&left), store.write(&right));
    let answers: Vec<_> = one.unwrap().into_iter().chain(other.unwrap()).collect();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for reading in left.iter().chain(&right) {
        model.add(reading);
    }
    model.compare(store).await;
}

/// Writes the same readings through two stores at once, as two processes would.
async fn writers_that_meet_count_once(store: &dyn Store, model: &mut Model) {
    let all: Vec<_> = (0..40).map(|n| reading(SENSORS[2], n * 700, None, n as f64)).collect();
    let (left, right) = futures_util::join!(store.write(&all[..30]), store.write(&all[10..]));
    let answers: Vec<_> = left.unwrap().into_iter().chain(right.unwrap()).collect();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(answers.iter().filter(|answer| **answer == Ok(Stored::New)).count() >= all.len());
    for reading in &all {
        model.add(reading);
    }
    model.compare(store).await;
}

async fn a_random_history_is_right_in_every_answer(store: &dyn Store, model: &mut Model) {
    for case in 0..CASES {
        for commit in history(case) {
            let outcomes = store.write(&commit).await.unwrap();
            let expected = |reading| Ok(model.add(reading));
            assert_eq!(outcomes, commit.iter().map(expected).collect::<Vec<_>>());
        }
        model.compare(store).await;
    }
}

/// A new seed for each run; a failure prints it, and `PLIMSOLL_SEED` replays it.
fn history(case: u64) -> Vec<Vec<Reading>> {
    use std::hash::{BuildHasher, RandomState};
    static SEED: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let seed = SEED.get_or_init(|| {
        let given = std::env::var("PLIMSOLL_SEED").ok().map(|seed| seed.parse().unwrap());
        given.unwrap_or_else(|| RandomState::new().hash_one(0))
    });
    println!("PLIMSOLL_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&case.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    commits().new_tree(&mut runner).unwrap().current()
}

#[tokio::test]
async fn the_store_in_memory_keeps_the_contract() {
    // This store relies on one commit at a time for each sensor, so this test has no concurrent writers.
    let memory = Memory::default();
    let mut model = Model::default();
    an_empty_store_knows_nothing(&memory).await;
    the_first_of_several_counts(&memory, &mut model).await;
    partial_readings_add_up(&memory, &mut model).await;
    a_random_history_is_right_in_every_answer(&memory, &mut model).await;
}

#[tokio::test]
async fn one_document_a_reading_keeps_the_contract() {
    contract(&Documents::open(&database("contract_document").await).await.unwrap()).await;
}

#[tokio::test]
async fn hourly_buckets_keep_the_contract() {
    let settings = BucketSettings::default();
    contract(&Buckets::open(&database("contract_hours").await, &settings).await.unwrap()).await;
}

#[tokio::test]
async fn buckets_that_overflow_keep_the_contract() {
    // Four readings fill a bucket: no millisecond of the histories has more than four events.
    let settings = BucketSettings { minutes: 10, readings_max: 4 };
    contract(&Buckets::open(&database("contract_overflow").await, &settings).await.unwrap()).await;
}

#[tokio::test]
async fn time_series_keep_the_contract() {
    contract(&Series::open(&database("contract_series").await).await.unwrap()).await;
}

async fn open_buckets(database: &Database, minutes: u32, readings_max: usize) -> Result<(), String> {
    let opened = Buckets::open(database, &BucketSettings { minutes, readings_max }).await;
    opened.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_division_of_buckets_never_changes() {
    let database = database("contract_layout").await;
    open_buckets(&database, 60, 500).await.unwrap();
    open_buckets(&database, 60, 500).await.unwrap();
    let error = open_buckets(&database, 30, 500).await.unwrap_err();
    assert!(error.contains("readings.bucket_minutes is 30") && error.contains("use 60"), "{error}");
    open_buckets(&database, 60, 100).await.unwrap();
    let error = open_buckets(&database, 60, 500).await.unwrap_err();
    assert!(error.contains("readings.bucket_max is 500, and existing buckets have 100"), "{error}");
}

#[tokio::test]
async fn a_refused_start_changes_no_record_of_the_buckets() {
    let database = database("contract_refused_start").await;
    open_buckets(&database, 60, 500).await.unwrap();
    open_buckets(&database, 30, 10).await.unwrap_err();
    open_buckets(&database, 60, 500).await.unwrap();
}

#[tokio::test]
async fn of_two_first_starts_with_other_buckets_one_is_refused() {
    let database = database("contract_two_starts").await;
    let (one, other) = tokio::join!(open_buckets(&database, 60, 500), open_buckets(&database, 30, 10));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    let (kept, refused) = if one.is_ok() { ((60, 500), other) } else { ((30, 10), one) };
    assert!(refused.unwrap_err().contains("readings.bucket_minutes"));
    open_buckets(&database, kept.0, kept.1).await.unwrap();
}

#[tokio::test]
async fn buckets_without_a_record_of_their_length_are_refused() {
    let database = database("contract_unrecorded").await;
    open_buckets(&database, 60, 500).await.unwrap();
    database.collection::<Document>("reading_buckets").insert_one(doc! {"_id": "s\tstart\t0"}).await.unwrap();
    database.collection::<Document>("reading_layouts").drop().await.unwrap();
    for minutes in [60, 30] {
        let error = open_buckets(&database, minutes, 500).await.unwrap_err();
        assert!(error.contains("restore the collection `reading_layouts`"), "{error}");
    }
}
