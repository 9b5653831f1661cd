//! Builds the shared time axis of all charts, with phases, probes, faults and checkpoints.

use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::line::{Probe, Stage};
use plimsoll_measure::run::{FaultFacts, PhaseFacts, Run};
use plimsoll_measure::sample::{Checkpoint, ServerSample, checkpoints};

use crate::chart::{Axis, Band, BandKind, Mark, MarkKind};
use crate::page::Page;
use crate::units::{short, tidy};

/// More checkpoints than this are not shaded: they would hide the lines.
const SHADED_MAX: usize = 120;

/// The time axis that all charts over time share.
#[derive(Clone, Debug)]
pub(in crate::page) struct Timeline {
    /// Seconds from the run's start to the end of the axis.
    pub end_s: f64,
    /// Moments that are marked.
    pub marks: Vec<Mark>,
    /// When the server wrote checkpoints.
    pub shades: Vec<Band>,
}

impl Timeline {
    /// The time axis of a page: it ends with the last interval or the last sample of the server.
    pub(in crate::page) fn of(page: &Page<'_>) -> Self {
        let load = page.intervals.iter().map(|interval| interval.from_ns + interval.length_ns);
        let end_ns = load.chain(page.server.iter().map(|sample| sample.at_ns)).max();
        Self {
            end_s: end_ns.unwrap_or(0) as f64 / SECOND_NS as f64,
            marks: marks(&moments(page.run)),
            shades: shades(page.server),
        }
    }

    /// The horizontal axis.
    pub(super) fn axis(&self) -> Axis {
        Axis::time(self.end_s)
    }
}

/// A moment of the run that every chart over time marks.
#[derive(Clone, Debug, PartialEq)]
struct Moment {
    /// Nanoseconds from the run's start.
    at_ns: u64,
    /// Its label.
    label: String,
    /// Its kind.
    kind: MarkKind,
}

/// The moments of `run` that are marked, in order.
fn moments(run: &Run) -> Vec<Moment> {
    let probes = run.line.as_ref().map_or(&[][..], |line| &line.probes);
    let mut moments: Vec<_> = parts(&run.phases, probes);
    moments.extend(run.faults.iter().flat_map(fault));
    moments.sort_by_key(|moment| moment.at_ns);
    moments
}

/// Moments as marks on a time axis in seconds.
fn marks(moments: &[Moment]) -> Vec<Mark> {
    let mark = |moment: &Moment| Mark {
        at: moment.at_ns as f64 / SECOND_NS as f64,
        label: moment.label.clone(),
        kind: moment.kind,
    };
    moments.iter().map(mark).collect()
}

/// Where checkpoints ran.
fn shades(samples: &[ServerSample]) -> Vec<Band> {
    let found = checkpoints(samples);
    let second = |at_ns: u64| at_ns as f64 / SECOND_NS as f64;
    let band = |it: &Checkpoint| Band {
        from: second(it.from_ns),
        to: second(it.to_ns),
        label: String::new(),
        kind: BandKind::Checkpoint,
    };
    if found.len() > SHADED_MAX { Vec::new() } else { found.iter().map(band).collect() }
}

/// Every phase, if there are several; for a search its probes by their rates, and the phases before them.
fn parts(phases: &[PhaseFacts], probes: &[Probe]) -> Vec<Moment> {
    let first_ns = probes.first().map_or(u64::MAX, |probe| probe.from_ns);
    let before = phases.iter().map(|phase| (at_ns(phase.from_s), phase.name.clone()));
    let before = before.filter(|(at_ns, _)| at_ns.saturating_add(MILLISECOND_NS) < first_ns);
    let tries = probes.iter().map(|probe| (probe.from_ns, tried(probe)));
    let all: Vec<_> = before.chain(tries).map(|(at_ns, label)| part(at_ns, label)).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

fn part(at_ns: u64, label: String) -> Moment {
    Moment { at_ns, label, kind: MarkKind::Part }
}

fn tried(probe: &Probe) -> String {
    let verdict = match (probe.stage, probe.held) {
        (Stage::WarmUp, _) => "",
        (_, true) => " ✓",
        (_, false) => " ✗",
    };
    format!("{}{verdict}", tidy(&short(probe.rate.round())))
}

fn fault(fault: &FaultFacts) -> Vec<Moment> {
    let moment = |at_s, label| Moment { at_ns: at_ns(at_s), label, kind: MarkKind::Fault };
    let over = fault.to_s.map(|to_s| moment(to_s, format!("{} over", fault.name)));
    std::iter::once(moment(fault.from_s, fault.name.clone())).chain(over).collect()
}

fn at_ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * SECOND_NS as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_measure::line::Line;

    fn phase(name: &str, from_s: f64) -> PhaseFacts {
        PhaseFacts { name: name.into(), from_s, ..PhaseFacts::default() }
    }

    #[track_caller]
    fn check(run: &Run, expected: &[(u64, &str)]) {
        let found = moments(run);
        let found: Vec<_> = found.iter().map(|it| (it.at_ns / MILLISECOND_NS, it.label.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn several_phases_and_every_fault_are_marked_in_order() {
        let kill = FaultFacts { name: "kill".into(), from_s: 7.5, to_s: Some(9.25), ..FaultFacts::default() };
        let mut run = Run { phases: vec![phase("fill", 0.5), phase("churn", 20.0)], ..Run::default() };
        run.faults = vec![kill];
        check(&run, &[(500, "fill"), (7500, "kill"), (9250, "kill over"), (20_000, "churn")]);
        run.phases.pop();
        check(&run, &[(7500, "kill"), (9250, "kill over")]);
    }

    #[test]
    fn the_tries_of_a_search_are_marked_by_their_rates() {
        let probe = |second: u64, rate, held, stage| Probe {
            from_ns: second * SECOND_NS,
            rate,
            held,
            stage,
            ..Probe::default()
        };
        let probes =
            vec![probe(10, 36_364.2, true, Stage::Climb), probe(30, 54_545.0, false, Stage::Confirm)];
        let phases = vec![phase("warm-up", 2.0), phase("climb 36364 documents/s", 10.0), phase("x", 30.0)];
        let line = Some(Line { probes, ..Line::default() });
        let run = Run { phases, line, ..Run::default() };
        check(&run, &[(2000, "warm-up"), (10_000, "36.4 K ✓"), (30_000, "54.5 K ✗")]);
    }
}
