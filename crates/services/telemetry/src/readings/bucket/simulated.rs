//! Tests the write path against a simulated collection, with random interleavings of two processes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use proptest::prelude::*;

use super::super::Fault;
use super::super::key;
use super::super::model::commits;
use super::super::partial::{Metrics, add};
use super::super::settings::BucketSettings;
use super::super::stored::Stored;
use super::full_cache::Full;
use super::layout::{Layout, Slot};
use super::write::{Applied, Io, Merge, Seen, Update, write};
use crate::reading::Reading;

/// A stored reading, with its key.
type Row = (Slot, String, Metrics);

/// A simulated collection with atomic updates like the server's. A seed determines the interleaving.
struct Simulated {
    layout: Layout,
    buckets: Mutex<BTreeMap<String, Vec<Row>>>,
    seed: Mutex<u64>,
}

impl Simulated {
    fn new(layout: Layout, seed: u64) -> Self {
        Simulated { layout, buckets: Mutex::default(), seed: Mutex::new(seed) }
    }

    /// May let the other process run first.
    async fn turn(&self) {
        let turns = {
            let mut seed = self.seed.lock().unwrap();
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *seed >> 62
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    fn apply(&self, update: &Update<'_>) -> Applied {
        let mut buckets = self.buckets.lock().unwrap();
        let bucket = buckets.entry(update.id.clone()).or_default();
        let slots: Vec<_> =
            update.readings.iter().map(|reading| Slot::of(reading, update.start_ms)).collect();
        let knows = bucket.iter().any(|(slot, ..)| slots.contains(slot));
        if knows || bucket.len() >= self.layout.readings_max {
            return Applied::Conflict;
        }
        let row = |(slot, reading): (Slot, &&Reading)| (slot, key::of(reading), reading.metrics.clone());
        bucket.extend(slots.into_iter().zip(&update.readings).map(row));
        Applied::Done
    }

    /// The stored metrics of each key.
    fn metrics(&self) -> HashMap<String, Metrics> {
        let buckets = self.buckets.lock().unwrap();
        buckets.values().flatten().map(|(_, key, metrics)| (key.clone(), metrics.clone())).collect()
    }

    /// Every stored key, with duplicates.
    fn keys(&self) -> Vec<String> {
        let buckets = self.buckets.lock().unwrap();
        let mut keys: Vec<_> = buckets.values().flatten().map(|(_, key, _)| key.clone()).collect();
        keys.sort();
        keys
    }
}

impl Io for Simulated {
    async fn update(&self, updates: &[Update<'_>]) -> Result<Vec<Applied>, Fault> {
        let mut applied = Vec::new();
        for update in updates {
            self.turn().await;
            applied.push(self.apply(update));
        }
        self.turn().await;
        Ok(applied)
    }

    async fn look(&self, ids: Vec<String>) -> Result<HashMap<String, Seen>, Fault> {
        self.turn().await;
        let buckets = self.buckets.lock().unwrap();
        let seen = |id: String| {
            let slots =
                buckets.get(&id)?.iter().map(|(slot, _, metrics)| (slot.clone(), metrics.clone())).collect();
            Some((id, Seen { slots }))
        };
        Ok(ids.into_iter().filter_map(seen).collect())
    }

    async fn merge(&self, merge: &Merge) -> Result<bool, Fault> {
        self.turn().await;
        let mut buckets = self.buckets.lock().unwrap();
        let bucket = buckets.get_mut(&merge.id).unwrap();
        let row_of = |slot: &Slot| bucket.iter().position(|(known, ..)| known == slot).unwrap();
        let rows: Vec<_> = merge.rows.iter().map(|row| (row_of(&row.slot), &row.more)).collect();
        let has = |(row, more): &(usize, &Metrics)| {
            more.iter().any(|(name, _)| bucket[*row].2.iter().any(|(known, _)| known == name))
        };
        if rows.iter().any(has) {
            return Ok(false);
        }
        rows.into_iter().for_each(|(row, more)| add(&mut bucket[row].2, more.clone()));
        Ok(true)
    }

    async fn confirm(&self, id: &str) -> Result<(), Fault> {
        assert!(self.buckets.lock().unwrap().contains_key(id), "only existing buckets are confirmed");
        Ok(())
    }
}

/// Simulates one process with its own cache of full buckets. Returns the keys that were new.
async fn process(io: &Simulated, commits: &[Vec<Reading>]) -> Vec<String> {
    let full = Full::default();
    let mut new = Vec::new();
    for commit in commits {
        let written = write(&io.layout, &full, io, commit).await.unwrap();
        assert_eq!(written.len(), commit.len());
        for (reading, written) in commit.iter().zip(written) {
            if written.unwrap() == Stored::New {
                new.push(key::of(reading));
            }
        }
    }
    new
}

fn check(readings_max: usize, seed: u64, left: &[Vec<Reading>], right: &[Vec<Reading>]) {
    let layout = Layout::new(&BucketSettings { minutes: 60, readings_max });
    let io = Simulated::new(layout, seed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (one, other) =
        runtime.block_on(async { futures_util::join!(process(&io, left), process(&io, right)) });
    let mut new = [one, other].concat();
    new.sort();
    let sent = left.iter().chain(right).flatten().map(key::of);
    let mut expected: Vec<_> = sent.collect::<HashSet<_>>().into_iter().collect();
    expected.sort();
    assert_eq!(io.keys(), expected, "each key is stored once");
    assert_eq!(new, expected, "each key is new to one caller");
    let stored = io.metrics();
    let mut names: HashMap<String, HashSet<&str>> = HashMap::new();
    for reading in left.iter().chain(right).flatten() {
        let sent = reading.metrics.iter().map(|(name, _)| name.as_str());
        names.entry(key::of(reading)).or_default().extend(sent);
    }
    for (key, sent) in names {
        let found: Vec<_> = stored[&key].iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((found.len(), found.into_iter().collect::<HashSet<_>>()), (sent.len(), sent), "{key}");
    }
    let buckets = io.buckets.lock().unwrap();
    assert!(buckets.values().all(|bucket| bucket.len() < 2 * readings_max));
}

proptest! {
    #[test]
    fn two_processes_store_each_reading_once(
        readings_max in 4..20_usize,
        seed: u64,
        left in commits(),
        right in commits(),
    ) {
        check(readings_max, seed, &left, &right);
    }

    #[test]
    fn two_processes_store_the_same_reading_once(seed: u64, both in commits()) {
        check(4, seed, &both, &both);
    }
}

#[test]
fn readings_beyond_a_full_millisecond_are_refused_and_the_rest_is_stored() {
    let layout = Layout::new(&BucketSettings { minutes: 60, readings_max: 2 });
    let io = Simulated::new(layout, 0);
    let event = |n: i32| Reading {
        sensor: "s".into(),
        at_ms: 0,
        event: Some(n.to_string()),
        metrics: vec![("m".into(), 0.0)],
    };
    let all: Vec<_> = (0..10).map(event).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let written = runtime.block_on(write(&layout, &Full::default(), &io, &all)).unwrap();
    assert_eq!(written.iter().filter(|written| written.is_ok()).count(), io.keys().len());
    assert_eq!(io.keys().len(), 8, "two on each of four levels");
    let fault = written.into_iter().find_map(Result::err).unwrap();
    assert!(fault.to_string().contains("one millisecond"), "{fault}");
}
