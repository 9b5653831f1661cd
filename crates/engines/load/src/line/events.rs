//! Finds the events that lower the load line: without their seconds it is higher.

use std::fmt;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::sample::checkpoints;

use crate::bottlenecks::{Level, Observation, Rule};
use crate::search::estimate::{Estimate, estimate};
use crate::search::trial::{Block, Trial};

/// The limit of listed events.
const LISTED_MAX: usize = 4;
/// Events are worth a sentence only if the load line rises by this factor without them.
const CALM: f64 = 1.05;
/// A time in which a resource is at its limit for this share belongs to an event.
const AT_LIMIT: f64 = 0.5;

/// Events of one kind, such as checkpoints. Shown as a clause: `checkpoints began 3 s, 63 s after the start`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Events {
    clause: String,
    /// Their starts and ends, in nanoseconds from the run's start.
    times: Vec<(u64, u64)>,
}

/// Events that lower the line, with rates in operations per second.
#[derive(Clone, Debug)]
pub(super) struct Lowering<'a> {
    pub(super) events: &'a Events,
    /// The load line between the events.
    pub(super) between: f64,
    /// The lowest rate that failed during them.
    pub(super) failed: f64,
}

impl fmt::Display for Events {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed =
            self.times.iter().take(LISTED_MAX).map(|(from_ns, _)| format!("{} s", from_ns / SECOND_NS));
        let more = self.times.len().saturating_sub(LISTED_MAX);
        let times: Vec<_> = listed.chain((more > 0).then(|| format!("and {more} more"))).collect();
        write!(out, "{} {} after the start", self.clause, times.join(", "))
    }
}

/// The checkpoints, and the times at which an intermittent resource was at its limit.
pub(super) fn all(observations: &[Observation], rules: &[Rule]) -> Vec<Events> {
    let samples: Vec<_> = observations.iter().flat_map(|it| it.samples.iter().cloned()).collect();
    let times = checkpoints(&samples).iter().map(|it| (it.from_ns, it.to_ns)).collect();
    let checkpoints = Events { clause: "checkpoints began".to_owned(), times };
    let of_rule = |rule: &Rule| {
        let levels = rule.levels?;
        let times = observations.iter().flat_map(|it| at_limit(&levels(it).unwrap_or_default())).collect();
        Some(Events { clause: format!("{} reached its limit", rule.name), times })
    };
    let resources = rules.iter().filter(|rule| rule.is_intermittent).filter_map(of_rule);
    std::iter::once(checkpoints).chain(resources).filter(|events| !events.times.is_empty()).collect()
}

/// The events without which the line is highest, if it is higher than `found`.
pub(super) fn lowering<'a>(
    events: &'a [Events],
    trials: &[Trial],
    found: Estimate,
    seed: u64,
) -> Option<Lowering<'a>> {
    let lowers = |events: &'a Events| {
        let (calm, during) = split(trials, &events.times);
        let between = estimate(&calm, seed)?.rate;
        let failed = during.iter().filter(|trial| !trial.held()).map(|trial| trial.rate).reduce(f64::min)?;
        // Events explain nothing if the rates that failed during them fail without them.
        (between >= found.rate * CALM && failed < between).then_some(Lowering { events, between, failed })
    };
    events.iter().filter_map(lowers).max_by(|a, b| a.between.total_cmp(&b.between))
}

/// Joins neighbouring times at the limit.
fn at_limit(levels: &[Level]) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> = Vec::new();
    for level in levels.iter().filter(|level| level.share >= AT_LIMIT) {
        match times.last_mut() {
            Some((_, to_ns)) if *to_ns >= level.from_ns => *to_ns = level.to_ns,
            _ => times.push((level.from_ns, level.to_ns)),
        }
    }
    times
}

/// The trials without their seconds in `times`, and those seconds alone.
fn split(trials: &[Trial], times: &[(u64, u64)]) -> (Vec<Trial>, Vec<Trial>) {
    let is_within = |block: &Block| {
        times.iter().any(|(from_ns, to_ns)| block.at_ns + SECOND_NS > *from_ns && block.at_ns < *to_ns)
    };
    let with = |within: bool| {
        let of = trials.iter().map(|trial| Trial {
            rate: trial.rate,
            blocks: trial.blocks.iter().filter(|block| is_within(block) == within).cloned().collect(),
            is_slow_throughout: trial.is_slow_throughout,
        });
        of.filter(|trial| !trial.blocks.is_empty()).collect()
    };
    (with(false), with(true))
}
