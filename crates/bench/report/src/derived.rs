//! Derives the facts that sentences, tables and pages share.

use std::collections::BTreeMap;

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::line::{Line, Probe, Stage};
use plimsoll_measure::matrix::Spread;
use plimsoll_measure::outcome::Doubt;
use plimsoll_measure::run::{Client, FaultFacts, PhaseFacts, Run};

use crate::expectation::in_words;
use crate::prose::{enumerated, joined};
use crate::units::{NOT_REPORTED, exact, exact_rate, percent};

/// From this ratio of completed to due operations on, a rate counts as reached.
pub(crate) const ACHIEVED_MIN: f64 = 0.99;
/// From this headroom on, the tool does not count as the limit.
const HEADROOM_MIN: f64 = 2.0;
/// Rates that differ by less than this share count as equal: scaling from operations to documents rounds
/// them.
pub(crate) const SAME: f64 = 1e-3;
/// Trials whose rates differ by at most this share are summed up together.
pub(crate) const NEAR: f64 = 0.02;

/// The headroom, if it is too small.
pub(crate) fn short_headroom(client: &Client) -> Option<f64> {
    client.headroom.filter(|headroom| *headroom < HEADROOM_MIN)
}

/// Whether the tool, not the server, may have limited the load.
pub(crate) fn is_client_limited(client: &Client) -> bool {
    client.limited || short_headroom(client).is_some() || client.high_floor().is_some()
}

/// A class of errors in words: `duplicate_key` becomes `duplicate key`.
pub(crate) fn class(name: &str) -> String {
    name.replace('_', " ")
}

/// The number of errors, and their classes, the most frequent first. An unacknowledged operation is not an error.
pub(crate) fn classes(errors: &BTreeMap<String, u64>) -> Option<(u64, String)> {
    let real = |(name, count): &(&String, &u64)| name.as_str() != Doubt::Unacknowledged.name() && **count > 0;
    let mut counts: Vec<_> = errors.iter().filter(real).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let total = counts.iter().map(|(_, count)| **count).sum();
    let list = joined(&counts, ", ", |(name, count)| format!("{} {}", exact(**count), class(name)));
    (total > 0).then_some((total, list))
}

/// The durability that the run requested from the server: write concern and durability profile. For a service, the settings of its database.
pub(crate) fn promise(run: &Run, integrity: &Integrity) -> String {
    if integrity.proof == Proof::ReadBack {
        return "acknowledged by the service".to_owned();
    }
    let declared = integrity.write_concern.as_str();
    let concern = if declared.is_empty() { NOT_REPORTED } else { declared };
    let profile = run.server.profile.as_ref().map(|profile| format!(", {profile} profile"));
    let concern = match &run.workflow {
        // The engine always requests this write concern, independent of the scenario.
        Some(work) if work.store == "postgres" => "synchronous_commit=on".to_owned(),
        Some(_) => r#"write concern {"w": "majority", "j": true}"#.to_owned(),
        None => format!("write concern {concern}"),
    };
    concern + &profile.unwrap_or_default()
}

/// Seconds from the start of its phase to the start of a fault.
pub(crate) fn fault_at_s(run: &Run, fault: &FaultFacts) -> f64 {
    let is_its = |phase: &&PhaseFacts| {
        phase.name == fault.phase && (phase.from_s..=phase.to_s).contains(&fault.from_s)
    };
    fault.from_s - run.phases.iter().find(is_its).map_or(0.0, |phase| phase.from_s)
}

/// Whether the line is an estimate with an interval of known confidence. Older files have a bracket of two tried rates.
pub(crate) fn is_estimate(line: &Line) -> bool {
    line.confidence.is_some()
}

/// `not confirmed`, if the load line of an older file is not.
pub(crate) fn doubt(line: &Line) -> Option<&'static str> {
    (line.rate.is_some() && line.confirmed == Some(false)).then_some("not confirmed")
}

/// Enumerates the bounds of the objective.
pub(crate) fn objective(line: &Line) -> String {
    let bounds: Vec<_> = line.objective.iter().map(|bound| in_words(bound)).collect();
    if bounds.is_empty() { "its objective".to_owned() } else { enumerated(&bounds) }
}

/// The ends of the interval and its confidence, of an estimate with both ends: `90 % interval 163,000 to 171,000`.
pub(crate) fn estimated_interval(line: &Line) -> Option<String> {
    let (low, high) = (line.low.or(line.rate)?, line.high?);
    Some(format!("{} interval {} to {}", percent(line.confidence?), exact_rate(low), exact_rate(high)))
}

/// The interval of the load line: `163,000 to 171,000 documents/s (90 %)`; nothing without a load line.
pub(crate) fn interval(line: &Line) -> Option<String> {
    let low = line.low.or(line.rate)?;
    let confidence = line.confidence.map(|share| format!(" ({})", percent(share))).unwrap_or_default();
    Some(match line.high {
        Some(high) => format!("{} to {} {}{confidence}", exact_rate(low), exact_rate(high), line.unit),
        None => format!("at least {} {}", exact_rate(low), line.unit),
    })
}

/// The arrivals of the searched load, as sentences name them: `Poisson`. Older files have none.
pub(crate) fn arrivals(line: &Line) -> Option<&str> {
    let arrivals = line.arrivals.as_deref()?;
    Some(if arrivals == "poisson" { "Poisson" } else { arrivals })
}

/// The probes that were judged, in order.
pub(crate) fn judged(line: &Line) -> impl DoubleEndedIterator<Item = &Probe> {
    line.probes.iter().filter(|probe| probe.stage != Stage::WarmUp)
}

/// A high percentile of a latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// The name, such as `p99`.
    pub name: &'static str,
    /// Picks its value.
    pub of: fn(&Latency) -> Option<u64>,
}

/// The high percentile that a report of a search shows: p95 if most trials have too few operations for a p99.
pub(crate) fn tail(line: &Line) -> Tail {
    let all = judged(line).count();
    let with_p99 = judged(line).filter(|probe| probe.response_ns.p99.is_some()).count();
    if with_p99 * 2 >= all {
        Tail { name: "p99", of: |latency| latency.p99 }
    } else {
        Tail { name: "p95", of: |latency| latency.p95 }
    }
}

/// The judged probes of `rate`, in order.
pub(crate) fn probes_at(line: &Line, rate: f64) -> impl DoubleEndedIterator<Item = &Probe> {
    probes_within(line, rate, SAME)
}

/// The judged probes whose rate differs from `rate` by at most a `share` of it, in order.
pub(crate) fn probes_within(line: &Line, rate: f64, share: f64) -> impl DoubleEndedIterator<Item = &Probe> {
    judged(line).filter(move |probe| (probe.rate - rate).abs() <= rate * share)
}

/// The median of some values. None without values.
pub(crate) fn median(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    Spread::of(values.into_iter().map(|value| value as f64)).map(|spread| spread.median.round() as u64)
}
