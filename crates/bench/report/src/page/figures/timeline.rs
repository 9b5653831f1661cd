//! Builds the shared time axis of all charts, with phases, probes, faults and checkpoints.

use maud::Markup;
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::line::{Probe, Stage};
use plimsoll_measure::run::{FaultFacts, PhaseFacts, Run};
use plimsoll_measure::sample::{Checkpoint, ServerSample, checkpoints};

use crate::chart::{self, Axis, Band, BandKind, Chart, Mark, MarkKind, Series, Size};
use crate::page::Page;
use crate::units::{short, tidy};

/// More checkpoints than this are not shaded: they would hide the lines.
const SHADED_MAX: usize = 120;

/// A phase that starts less than this many seconds before the first probe is the phase of that probe.
const NEAR_S: f64 = 1e-3;

/// The time axis that all charts over time share.
#[derive(Clone, Debug)]
pub(in crate::page) struct Timeline {
    /// Seconds from the run's start to the end of the axis.
    pub end_s: f64,
    /// The marked moments.
    pub marks: Vec<Mark>,
    /// The checkpoints of the server.
    pub shades: Vec<Band>,
}

impl Timeline {
    /// The time axis of a page: it ends with the last interval or the last sample of the server.
    pub(in crate::page) fn of(page: &Page<'_>) -> Self {
        let load = page.intervals.iter().map(|interval| interval.from_ns + interval.length_ns);
        let end_ns = load.chain(page.server.iter().map(|sample| sample.at_ns)).max();
        Self { end_s: seconds(end_ns.unwrap_or(0)), marks: marks(page.run), shades: shades(page.server) }
    }

    /// The horizontal axis.
    pub(super) fn axis(&self) -> Axis {
        Axis::time(self.end_s)
    }

    /// A chart over time, under its title and caption.
    pub(super) fn draw(
        &self,
        (title, caption): (&str, &str),
        y: Axis,
        series: Vec<Series>,
        size: Size,
    ) -> Markup {
        let (bands, marks) = (self.shades.clone(), self.marks.clone());
        chart::draw(&Chart { bands, marks, size, ..Chart::new(title, caption, [self.axis(), y], series) })
    }
}

/// The moments of `run` that every chart over time marks, in order.
fn marks(run: &Run) -> Vec<Mark> {
    let probes = run.line.iter().flat_map(|line| line.probes.iter().chain(&line.soak));
    let mut marks = parts(&run.phases, &probes.collect::<Vec<_>>());
    marks.extend(run.faults.iter().flat_map(fault));
    marks.sort_by(|one, other| one.at.total_cmp(&other.at));
    marks
}

/// Every phase, if there are several; for a search its probes by their rates, and the phases before them.
fn parts(phases: &[PhaseFacts], probes: &[&Probe]) -> Vec<Mark> {
    let first_s = probes.first().map_or(f64::INFINITY, |probe| seconds(probe.from_ns));
    let before = phases.iter().filter(|phase| phase.from_s + NEAR_S < first_s);
    let before = before.map(|phase| (phase.from_s.max(0.0), phase.name.clone()));
    let tries = probes.iter().map(|probe| (seconds(probe.from_ns), tried(probe)));
    let all = before.chain(tries).map(|(at, label)| Mark { at, label, kind: MarkKind::Part });
    let all: Vec<_> = all.collect();
    if all.len() > 1 { all } else { Vec::new() }
}

fn tried(probe: &Probe) -> String {
    let verdict = match (probe.stage, probe.held) {
        (Stage::WarmUp, _) => "",
        (_, true) => " ✓",
        (_, false) => " ✗",
    };
    format!("{}{verdict}", tidy(&short(probe.rate.round())))
}

fn fault(fault: &FaultFacts) -> impl Iterator<Item = Mark> {
    let mark = |at: f64, label| Mark { at: at.max(0.0), label, kind: MarkKind::Fault };
    let over = fault.to_s.map(|to_s| mark(to_s, format!("{} over", fault.name)));
    std::iter::once(mark(fault.from_s, fault.name.clone())).chain(over)
}

/// The times in which checkpoints ran.
fn shades(samples: &[ServerSample]) -> Vec<Band> {
    let found = checkpoints(samples);
    let band = |it: &Checkpoint| Band {
        from: seconds(it.from_ns),
        to: seconds(it.to_ns),
        label: String::new(),
        kind: BandKind::Checkpoint,
    };
    if found.len() > SHADED_MAX { Vec::new() } else { found.iter().map(band).collect() }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
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
        let found = marks(run);
        let found: Vec<_> = found.iter().map(|it| ((it.at * 1e3) as u64, it.label.as_str())).collect();
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
            vec![probe(10, 36_364.2, true, Stage::Climb), probe(30, 54_545.0, false, Stage::Estimate)];
        let phases = vec![phase("warm-up", 2.0), phase("climb 36364 documents/s", 10.0), phase("x", 30.0)];
        let soak = Some(probe(40, 32_700.0, true, Stage::Soak));
        let line = Some(Line { probes, soak, ..Line::default() });
        let run = Run { phases, line, ..Run::default() };
        let tries = [(10_000, "36.4 K ✓"), (30_000, "54.5 K ✗"), (40_000, "32.7 K ✓")];
        check(&run, &[&[(2000, "warm-up")], &tries[..]].concat());
    }
}
