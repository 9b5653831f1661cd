//! Ends a run whose open loads do not reach their rate: what the numbers would say afterwards is of another load.

use std::collections::VecDeque;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals::Share;
use crate::engine::Second;
use crate::phase::{Load, Phase};
use crate::schedule::Schedule;

/// The longest time that is looked at.
const FOR_MAX: Span = Span::from_secs(3600);

/// How much of what is due must be done, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// The share of the operations due that must be done, over 0 and up to 1.
    #[serde(default = "share_default")]
    pub share: f64,
    /// In every stretch of this length.
    #[serde(rename = "for", default = "length_default")]
    pub length: Span,
}

const fn share_default() -> f64 {
    crate::objective::ACHIEVED_MIN
}

const fn length_default() -> Span {
    Span::from_secs(10)
}

impl Reach {
    /// Whether it can be meant.
    pub fn is_sound(&self) -> bool {
        let length = Span::from_secs(1)..=FOR_MAX;
        self.share > 0.0 && self.share <= 1.0 && length.contains(&self.length)
    }
}

/// The loads of a phase that have a rate to reach.
#[derive(Debug)]
pub struct Watch {
    loads: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    /// Which of the phase's loads.
    index: usize,
    name: String,
    operations: Vec<usize>,
    reach: Reach,
    /// From its start to its end, in nanoseconds from the phase's start.
    from_ns: u64,
    to_ns: u64,
    /// What is due by the schedule alone, in this process.
    schedule: Schedule,
    seconds: VecDeque<Part>,
}

/// What a load did in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    length_ns: u64,
    /// What the schedule has become due.
    planned: u64,
    /// What was noted as due, and what of it was done.
    due: u64,
    done: u64,
}

impl Watch {
    /// Watches what a phase asks for; `process` is this process among all shards.
    pub fn new(phase: &Phase, process: Share) -> Self {
        let watched = |(index, load): (usize, &Load)| {
            let reach = load.timing.reach?;
            Some(Watched {
                index,
                name: load.name.clone(),
                operations: load.mix.iter().map(|(operation, _)| *operation).collect(),
                reach,
                from_ns: load.timing.start.as_ns(),
                to_ns: load.end(phase.stop).map_or(u64::MAX, Span::as_ns),
                schedule: Schedule::new(&load.arrivals, process, phase.seed)?,
                seconds: VecDeque::new(),
            })
        };
        Self { loads: phase.loads.iter().enumerate().filter_map(watched).collect() }
    }

    /// Looks at one more second of all workers; says which rate is not reached, if one is not.
    pub fn tell(&mut self, second: &Second) -> Option<String> {
        self.loads.iter_mut().find_map(|load| load.tell(second))
    }
}

impl Watched {
    fn tell(&mut self, second: &Second) -> Option<String> {
        // After its end a load only catches up, and before its start there is nothing.
        if second.from_ns < self.from_ns || second.to_ns > self.to_ns || second.to_ns == second.from_ns {
            return None;
        }
        let part = self.part(second);
        self.seconds.push_back(part);
        let length_ns = self.reach.length.as_ns();
        while self.length_ns() - self.seconds.front().map_or(0, |first| first.length_ns) >= length_ns {
            self.seconds.pop_front();
        }
        if self.length_ns() < length_ns { None } else { self.judge() }
    }

    fn length_ns(&self) -> u64 {
        self.seconds.iter().map(|part| part.length_ns).sum()
    }

    fn part(&mut self, second: &Second) -> Part {
        let mut part = Part { length_ns: second.to_ns - second.from_ns, ..Part::default() };
        for tally in self.operations.iter().filter_map(|operation| second.of(self.index, *operation)) {
            part.due += tally.due;
            part.done += tally.completed();
        }
        let to_ns = second.to_ns - self.from_ns;
        while self.schedule.peek().is_some_and(|(due_ns, _)| due_ns < to_ns) {
            self.schedule.take();
            part.planned += 1;
        }
        part
    }

    fn judge(&self) -> Option<String> {
        let sum = |of: fn(&Part) -> u64| self.seconds.iter().map(of).sum::<u64>();
        let (planned, due, done) = (sum(|part| part.planned), sum(|part| part.due), sum(|part| part.done));
        // An operation in flight is noted as due when it ends: where nothing ends at all, the schedule knows.
        let due = if done == 0 { due.max(planned) } else { due };
        let missed = (done as f64) < self.reach.share * due as f64;
        missed.then(|| {
            format!(
                "load {}: {done} of {due} operations due in {} s were done, under {} %",
                self.name,
                self.length_ns() / SECOND_NS,
                self.reach.share * 100.0
            )
        })
    }
}
