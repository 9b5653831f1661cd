//! Ends a run whose open loads miss their rate: its results would describe another load.

use std::collections::VecDeque;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;

use crate::arrivals::Share;
use crate::phase::{Load, Phase};
use crate::rate_floor::RateFloor;
use crate::schedule::Schedule;
use crate::second::Second;

/// Watches the loads of a phase that have a rate floor.
#[derive(Debug)]
pub struct RateWatch {
    loads: Vec<WatchedLoad>,
}

#[derive(Debug)]
struct WatchedLoad {
    /// The load's index in the phase.
    index: usize,
    name: String,
    operations: Vec<usize>,
    floor: RateFloor,
    /// The load's start and end, in nanoseconds from the phase's start.
    from_ns: u64,
    to_ns: u64,
    /// This process's share of the load's schedule.
    schedule: Schedule,
    seconds: VecDeque<Progress>,
}

/// One second of a load.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    length_ns: u64,
    /// Operations due by the schedule.
    scheduled: u64,
    /// Operations counted as due, and the completed ones among them.
    due: u64,
    done: u64,
}

impl RateWatch {
    /// Watches the loads of a phase; `process` is the share of this process among all shards.
    pub fn new(phase: &Phase, process: Share) -> Self {
        let watched = |(index, load): (usize, &Load)| {
            Some(WatchedLoad {
                index,
                name: load.name.clone(),
                operations: load.mix.iter().map(|(operation, _)| *operation).collect(),
                floor: load.timing.rate_floor?,
                from_ns: load.timing.start.as_ns(),
                to_ns: load.end(phase.stop).map_or(u64::MAX, Span::as_ns),
                schedule: Schedule::new(&load.arrivals, process, phase.seed)?,
                seconds: VecDeque::new(),
            })
        };
        Self { loads: phase.loads.iter().enumerate().filter_map(watched).collect() }
    }

    /// Adds one second of all workers; returns the reason, in a sentence, if a load misses its rate.
    pub fn add(&mut self, second: &Second) -> Option<String> {
        self.loads.iter_mut().find_map(|load| load.add(second))
    }
}

impl WatchedLoad {
    fn add(&mut self, second: &Second) -> Option<String> {
        // After its end a load only sends its overdue operations.
        if second.from_ns < self.from_ns || second.to_ns > self.to_ns || second.to_ns == second.from_ns {
            return None;
        }
        let progress = self.progress(second);
        self.seconds.push_back(progress);
        let window_ns = self.floor.window.as_ns();
        while self.length_ns() - self.seconds.front().map_or(0, |first| first.length_ns) >= window_ns {
            self.seconds.pop_front();
        }
        if self.length_ns() < window_ns { None } else { self.missed() }
    }

    fn length_ns(&self) -> u64 {
        self.seconds.iter().map(|second| second.length_ns).sum()
    }

    fn progress(&mut self, second: &Second) -> Progress {
        let mut progress = Progress { length_ns: second.to_ns - second.from_ns, ..Progress::default() };
        for tally in self.operations.iter().filter_map(|operation| second.of(self.index, *operation)) {
            progress.due += tally.due;
            progress.done += tally.completed();
        }
        let to_ns = second.to_ns - self.from_ns;
        while self.schedule.peek().is_some_and(|(due_ns, _)| due_ns < to_ns) {
            self.schedule.take();
            progress.scheduled += 1;
        }
        progress
    }

    /// The reason why the window missed the floor, if it did.
    fn missed(&self) -> Option<String> {
        let sum = |of: fn(&Progress) -> u64| self.seconds.iter().map(of).sum::<u64>();
        let (scheduled, due, done) = (sum(|it| it.scheduled), sum(|it| it.due), sum(|it| it.done));
        // An operation in flight counts as due when it ends. If none ends, the schedule counts.
        let due = if done == 0 { due.max(scheduled) } else { due };
        let missed = (done as f64) < self.floor.share * due as f64;
        missed.then(|| {
            format!(
                "load {}: {done} of {due} operations due in {} s were done, under {} %",
                self.name,
                self.length_ns() / SECOND_NS,
                self.floor.share * 100.0
            )
        })
    }
}
