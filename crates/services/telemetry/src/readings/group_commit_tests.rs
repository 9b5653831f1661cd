//! Tests group commit over a store in memory.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::memory::{Memory, Script};
use super::model::{Model, commits};
use super::{IngestError, Readings, Settings, Stored};
use crate::reading::Reading;

fn reading(sensor: &str, at_ms: i64) -> Reading {
    Reading { sensor: sensor.into(), at_ms, event: None, metrics: vec![("m".into(), 1.0)] }
}

fn readings(memory: &Memory, change: impl FnOnce(&mut Settings)) -> Readings {
    let mut settings = Settings::default();
    change(&mut settings);
    Readings::over(Arc::new(memory.clone()), settings)
}

/// A store that commits only with a permit of the semaphore.
fn gated() -> (Memory, Arc<tokio::sync::Semaphore>) {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    (Script { gate: Some(Arc::clone(&gate)), ..Script::default() }.into(), gate)
}

#[tokio::test]
async fn concurrent_callers_share_a_commit() {
    let memory = Memory::default();
    let readings = readings(&memory, |settings| settings.gather_max = Duration::from_millis(50));
    let calls = (0..100).map(|n| readings.ingest(reading("s", n)));
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(|one| *one == Ok(Stored::New)));
    assert_eq!(*memory.commits.lock().unwrap(), [100]);
    let counters = readings.counters();
    assert_eq!((counters.accepted, counters.new, counters.commits, counters.queued), (100, 100, 1, 0));
    assert_eq!((counters.commit_readings.sum, counters.store_us.count()), (100, 1));
}

#[tokio::test]
async fn a_failed_commit_is_answered_to_all_of_its_callers_and_to_no_other() {
    let memory = Memory::from(Script { fail_every: Some(2), ..Script::default() });
    let readings = readings(&memory, |_| ());
    for round in 0..10 {
        let calls = (0..10).map(|n| readings.ingest(reading("s", round * 10 + n)));
        let outcomes = futures_util::future::join_all(calls).await;
        let failed = outcomes.iter().filter(|one| matches!(one, Err(IngestError::Store(_)))).count();
        assert_eq!(failed, if round % 2 == 1 { 10 } else { 0 }, "{outcomes:?}");
    }
    assert_eq!(memory.len(), 50);
    assert_eq!((readings.counters().new, readings.counters().failed), (50, 50));
}

#[tokio::test]
async fn an_error_of_one_reading_is_returned_to_its_caller() {
    let memory = Memory::from(Script { refuse: Some("bad".into()), ..Script::default() });
    let readings = readings(&memory, |settings| settings.committers = 1);
    let (good, bad) = tokio::join!(readings.ingest(reading("good", 1)), readings.ingest(reading("bad", 1)));
    assert_eq!(good, Ok(Stored::New));
    assert!(matches!(bad, Err(IngestError::Store(_))));
    let batch = ["good", "bad", "good", "other"].map(|sensor| reading(sensor, 1)).to_vec();
    let outcomes = readings.ingest_many(batch).await.unwrap();
    assert_eq!(
        outcomes.iter().map(|one| one.clone().ok()).collect::<Vec<_>>(),
        [Some(Stored::Known), None, Some(Stored::Known), Some(Stored::New)]
    );
}

#[tokio::test]
async fn a_full_queue_refuses_callers_and_stores_none_of_their_readings() {
    let (memory, gate) = gated();
    let readings = readings(&memory, |settings| settings.queue_readings_max = 10);
    let inside: Vec<_> = (0..10)
        .map(|n| {
            let readings = readings.clone();
            tokio::spawn(async move { readings.ingest(reading("s", n)).await })
        })
        .collect();
    while readings.counters().queued < 10 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(readings.ingest(reading("s", 99)).await, Err(IngestError::Busy { retry_after_s: 1.. })));
    let batch = vec![reading("t", 1); 2];
    assert!(matches!(readings.ingest_many(batch).await, Err(IngestError::Busy { .. })));
    gate.add_permits(100);
    for inside in inside {
        assert_eq!(inside.await.unwrap(), Ok(Stored::New));
    }
    assert_eq!((memory.len(), readings.counters().busy), (10, 3));
    assert_eq!(readings.ingest(reading("s", 99)).await, Ok(Stored::New));
}

#[tokio::test]
async fn closing_answers_accepted_readings_and_accepts_no_more() {
    let (memory, gate) = gated();
    let readings = readings(&memory, |settings| settings.gather_max = Duration::from_millis(20));
    let inside = tokio::spawn({
        let readings = readings.clone();
        async move { futures_util::future::join_all((0..50).map(|n| readings.ingest(reading("s", n)))).await }
    });
    while readings.counters().queued < 50 {
        tokio::task::yield_now().await;
    }
    let closing = tokio::spawn({
        let readings = readings.clone();
        async move { readings.close().await }
    });
    // This runtime has one thread: the closing task begins when this task yields.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(readings.ingest(reading("s", 99)).await, Err(IngestError::Closing));
    assert!(!closing.is_finished(), "readings are in flight");
    gate.add_permits(100);
    closing.await.unwrap();
    assert_eq!(readings.counters().new, 50);
    assert!(inside.await.unwrap().iter().all(|one| *one == Ok(Stored::New)));
    assert_eq!(memory.len(), 50);
    readings.close().await;
}

#[tokio::test]
async fn a_cancelled_call_releases_its_place_in_the_queue() {
    let (memory, gate) = gated();
    let readings = readings(&memory, |settings| settings.queue_readings_max = 1);
    let call = tokio::spawn({
        let readings = readings.clone();
        async move { readings.ingest(reading("s", 1)).await }
    });
    while readings.counters().queued < 1 {
        tokio::task::yield_now().await;
    }
    call.abort();
    gate.add_permits(10);
    while readings.counters().queued > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(readings.ingest(reading("s", 1)).await, Ok(Stored::Known), "the cancelled reading was stored");
}

#[tokio::test]
async fn callers_time_out_if_the_store_does_not_answer() {
    let (memory, _gate) = gated();
    let readings = readings(&memory, |settings| settings.commit_time_max = Duration::from_millis(20));
    let outcomes = readings.ingest(reading("s", 1)).await;
    assert!(
        matches!(outcomes, Err(IngestError::Store(ref fault)) if fault.text.contains("20 ms")),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn a_batch_larger_than_the_queue_is_queued_in_parts() {
    let memory = Memory::default();
    let readings = readings(&memory, |settings| settings.queue_readings_max = 40);
    let batch: Vec<_> = (0..1000).map(|n| reading(&format!("s{}", n % 7), n)).collect();
    let outcomes = readings.ingest_many(batch).await.unwrap();
    assert_eq!(outcomes, vec![Ok(Stored::New); 1000]);
    assert_eq!(memory.len(), 1000);
}

proptest! {
    #[test]
    fn every_answer_is_correct_for_any_order_of_commits(
        batches in commits(),
        committers in 1..5_usize,
        commit_readings_max in 1..20_usize,
        single: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let memory = Memory::default();
            let readings = readings(&memory, |settings| {
                settings.gather_max = Duration::ZERO;
                settings.committers = committers;
                settings.commit_readings_max = commit_readings_max;
            });
            let all: Vec<Reading> = batches.concat();
            let outcomes = match single {
                true => futures_util::future::join_all(all.iter().cloned().map(|one| readings.ingest(one))).await,
                false => {
                    let sent = batches.iter().cloned().map(|batch| readings.ingest_many(batch));
                    let outcomes = futures_util::future::join_all(sent).await;
                    outcomes.into_iter().flat_map(Result::unwrap).collect()
                }
            };
            let mut model = Model::default();
            for (reading, outcome) in all.iter().zip(outcomes) {
                assert_eq!(outcome.unwrap(), model.add(reading));
            }
            model.compare(&memory).await;
        });
    }
}
