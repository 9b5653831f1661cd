//! Runs a plan in one process and in several, on a virtual clock, and joins the shards.

use std::sync::{Arc, Mutex};

use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Collector, Finished, Second};
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Simulated;
use plimsoll_load::shards::{Entry, Record, join};
use plimsoll_load::worker::{self, Backlogs, Control, Ended, Order, Supply};
use plimsoll_measure::clock::Instant;

use crate::scripted::{Script, Scripted};

/// The measurements of one process: the whole phase, or a shard's part.
#[derive(Debug, PartialEq)]
pub struct Measured {
    pub seconds: Vec<Second>,
    pub ended: Ended,
    pub to_ns: u64,
}

/// The division of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub phase: &'a Phase,
    pub script: Script,
    pub shards: u64,
    /// Workers of each shard.
    pub workers_per_shard: u64,
}

/// The number of operations of a phase.
pub fn operations(phase: &Phase) -> usize {
    let used = phase.loads.iter().flat_map(|load| &load.mix).map(|(operation, _)| operation + 1);
    used.max().unwrap()
}

/// Runs some of a plan's workers on a virtual clock, as one process does, each with its own server. The workers of a shard share
/// their overdue operations, also when one process runs several shards.
fn process(plan: Plan<'_>, workers: std::ops::Range<u64>) -> Measured {
    let Plan { phase, script, .. } = plan;
    let (clock, workers_per_shard, counted) =
        (Simulated::default(), workers.clone().count(), operations(phase));
    let shares: Vec<_> =
        workers.map(|index| Share { index, of: plan.shards * plan.workers_per_shard }).collect();
    let phase = Arc::new(phase.clone());
    let supply = Arc::new(Supply::shared(&phase, shares.iter().copied()));
    let shard = |shares: &[Share]| Arc::new(Backlogs::shared(&phase, shares.iter().copied()));
    let backlogs: Vec<_> = shares.chunks(plan.workers_per_shard as usize).map(shard).collect();
    let slices = Arc::new(Mutex::new(Vec::new()));
    let (inside, sink) = (clock.clone(), slices.clone());
    let ends = clock.run(async move {
        let work = shares.into_iter().enumerate().map(|(index, share)| {
            let target = Scripted::new(&inside, script);
            let (supply, start) = (supply.clone(), Instant::default());
            let backlogs = backlogs[index / plan.workers_per_shard as usize].clone();
            let order = Order { phase: phase.clone(), operations: counted, share, start, supply, backlogs };
            let sink = sink.clone();
            worker::run(inside.clone(), target, Vec::new(), order, Control::default(), move |slice| {
                sink.lock().unwrap().push((index, slice));
            })
        });
        let ends = futures_util::future::join_all(work).await;
        ends.into_iter().map(|end| (end.ended, end.to_ns)).collect::<Vec<_>>()
    });
    let mut collector = Collector::new(workers_per_shard);
    let mut seconds = Vec::new();
    for (worker, slice) in std::mem::take(&mut *slices.lock().unwrap()) {
        collector.add(worker, slice);
        while let Some(second) = collector.complete() {
            seconds.push(second);
        }
    }
    seconds.extend(collector.finish());
    let ended = ends.iter().map(|(ended, _)| *ended).max().unwrap();
    Measured { seconds, ended, to_ns: ends.iter().map(|(_, to_ns)| *to_ns).max().unwrap() }
}

/// Runs the whole plan in one process with as many workers as all shards together.
pub fn whole(plan: Plan<'_>) -> Measured {
    process(plan, 0..plan.shards * plan.workers_per_shard)
}

pub fn shards(plan: Plan<'_>) -> Vec<Measured> {
    (0..plan.shards)
        .map(|index| process(plan, index * plan.workers_per_shard..(index + 1) * plan.workers_per_shard))
        .collect()
}

/// A shard's part, read from its serialised text, with the end of the phase.
struct File(std::iter::Peekable<std::vec::IntoIter<Second>>, Finished);

impl File {
    fn of(shard: &Measured) -> Self {
        let read = |second: &Second| -> Second {
            serde_json::from_str(&serde_json::to_string(second).unwrap()).unwrap()
        };
        let seconds: Vec<_> = shard.seconds.iter().map(read).collect();
        let ended = Finished { to_ns: shard.to_ns, ended: shard.ended, ..Finished::default() };
        Self(seconds.into_iter().peekable(), ended)
    }
}

impl Record for File {
    type Error = std::convert::Infallible;

    fn second(&mut self) -> Result<Option<Second>, Self::Error> {
        Ok(self.0.next())
    }

    fn rest(&mut self) -> Result<Option<Second>, Self::Error> {
        Ok(self.0.next_if(Second::is_rest))
    }

    fn leave(&mut self) -> Result<Finished, Self::Error> {
        Ok(self.1.clone())
    }
}

/// Joins the shards that reached a phase, as `merge` does.
pub fn joined(came: Vec<Option<&Measured>>, workers_per_shard: u64) -> Measured {
    let entry =
        |came: Option<&Measured>| Entry { workers: workers_per_shard as usize, record: came.map(File::of) };
    let mut entries: Vec<_> = came.into_iter().map(entry).collect();
    let mut seconds = Vec::new();
    let Ok(finished) = join(&mut entries, |second| seconds.push(second));
    Measured { seconds, ended: finished.ended, to_ns: finished.to_ns }
}

pub fn merged(plan: Plan<'_>) -> Measured {
    joined(shards(plan).iter().map(Some).collect(), plan.workers_per_shard)
}
