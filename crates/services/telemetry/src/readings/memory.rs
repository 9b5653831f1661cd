//! Stores readings in memory with scripted failures, for tests.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use bson::Document;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::partial::{Metrics, add, entries, missing, outcomes};
use super::range::{Merge, Page, RangeQuery};
use super::store::Store;
use super::stored::Written;
use super::tally::Tally;
use super::{Error, Fault};
use crate::reading::Reading;

type Key = (String, i64, Option<String>);
type Stock = BTreeMap<Key, Metrics>;

/// Scripted failures and delays.
#[derive(Clone, Default)]
pub(crate) struct Script {
    /// Commits wait for a permit of this semaphore.
    pub(crate) gate: Option<Arc<Semaphore>>,
    /// One of this many commits fails and stores no reading.
    pub(crate) fail_every: Option<usize>,
    /// Each reading of this sensor fails.
    pub(crate) refuse: Option<String>,
}

/// The store. Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    readings: Arc<Mutex<Stock>>,
    /// The number of readings of each commit, in order.
    pub(crate) commits: Arc<Mutex<Vec<usize>>>,
    /// The sensors of commits in flight.
    busy: Arc<Mutex<HashSet<String>>>,
    script: Script,
}

impl From<Script> for Memory {
    fn from(script: Script) -> Self {
        Memory { script, ..Memory::default() }
    }
}

impl Memory {
    pub(crate) fn len(&self) -> usize {
        self.readings.lock().unwrap().len()
    }

    fn add(&self, reading: &Reading) -> Written {
        if self.script.refuse.as_ref() == Some(&reading.sensor) {
            return Err(Fault::new("refused by the script"));
        }
        let key = (reading.sensor.clone(), reading.at_ms, reading.event.clone());
        let mut readings = self.readings.lock().unwrap();
        let commit = std::slice::from_ref(reading);
        let before = vec![Ok(readings.get(&key).cloned())];
        let written = outcomes(commit, &entries(commit), before).remove(0);
        let stored = readings.entry(key).or_default();
        let more = missing(&reading.metrics, stored);
        add(stored, more);
        written
    }

    async fn commit(&self, readings: &[Reading]) -> Result<Vec<Written>, Fault> {
        let sensors: HashSet<String> = readings.iter().map(|reading| reading.sensor.clone()).collect();
        for sensor in &sensors {
            assert!(self.busy.lock().unwrap().insert(sensor.clone()), "two commits with {sensor} at once");
        }
        if let Some(gate) = &self.script.gate {
            gate.acquire().await.unwrap().forget();
        }
        // Let other tasks run, as during a real write.
        tokio::task::yield_now().await;
        let number = {
            let mut commits = self.commits.lock().unwrap();
            commits.push(readings.len());
            commits.len()
        };
        self.busy.lock().unwrap().retain(|sensor| !sensors.contains(sensor));
        match self.script.fail_every {
            Some(every) if number.is_multiple_of(every) => Err(Fault::new("failed by the script")),
            _ => Ok(readings.iter().map(|reading| self.add(reading)).collect()),
        }
    }

    fn of(&self, sensor: &str) -> Vec<Reading> {
        let all = self.readings.lock().unwrap();
        let own = all.iter().filter(|((its, ..), _)| its == sensor);
        own.map(|((sensor, at_ms, event), metrics)| Reading {
            sensor: sensor.clone(),
            at_ms: *at_ms,
            event: event.clone(),
            metrics: metrics.clone(),
        })
        .collect()
    }
}

impl Store for Memory {
    fn write<'a>(&'a self, readings: &'a [Reading]) -> BoxFuture<'a, Result<Vec<Written>, Fault>> {
        self.commit(readings).boxed()
    }

    fn tally<'a>(&'a self, sensor: &'a str, tally: &'a mut Tally) -> BoxFuture<'a, Result<(), Error>> {
        let mut add = move || {
            for reading in self.of(sensor) {
                for (name, value) in &reading.metrics {
                    tally.add(reading.at_ms, name, *value)?;
                }
            }
            Ok(())
        };
        std::future::ready(add()).boxed()
    }

    fn range<'a>(&'a self, query: &'a RangeQuery) -> BoxFuture<'a, Result<Page, Error>> {
        let mut merge = Merge::new(query);
        self.of(&query.sensor).into_iter().for_each(|reading| merge.push(reading));
        std::future::ready(Ok(merge.finish())).boxed()
    }

    fn latest<'a>(
        &'a self,
        sensor: &'a str,
        _: Option<i64>,
    ) -> BoxFuture<'a, Result<Option<Reading>, Error>> {
        std::future::ready(Ok(self.of(sensor).pop())).boxed()
    }

    fn commands(&self, _: &str, _: i64, _: i64) -> Vec<(&'static str, Document)> {
        Vec::new()
    }
}
