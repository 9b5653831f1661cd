//! Checks every sentence of the conclusions, for runs that differ from a normal run in one fact.

use std::collections::BTreeMap;

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::ladder::Ladder;
use plimsoll_measure::ladder::{Peak, Point, Scalability};
use plimsoll_measure::line::{Candidate, Drift, Line, Probe, Stage, Unchecked};
use plimsoll_measure::run::{
    Answers, Bottleneck, Expectation, FaultFacts, Operation, PhaseFacts, SecondsSpread, ServerShare, WarmUp,
};

use super::*;

mod faults;
mod integrity;
mod line;
mod load;
mod validity;

/// Checks every sentence about a normal run with one `change`, in order.
#[track_caller]
fn check(change: impl FnOnce(&mut Run), sentences: &[&str]) {
    let mut run = Run::default();
    run.environment.optimised = true;
    change(&mut run);
    assert_eq!(conclusions(&run), sentences);
}

/// The load line of an older file.
fn line(low: Option<f64>, high: Option<f64>) -> Line {
    Line {
        confirmed: Some(true),
        rate: low,
        low,
        high,
        unit: "documents/s".into(),
        documents_per_operation: 1.0,
        objective: vec!["response p(99)<50ms".into(), "errors count==0".into()],
        probes: [(low, true), (high, false)].into_iter().flat_map(probes).collect(),
        ..Line::default()
    }
}

/// An estimated load line.
fn estimate(rate: f64, high: Option<f64>) -> Line {
    let (confidence, arrivals) = (Some(0.9), Some("poisson".into()));
    Line { confidence, confirmed: None, arrivals, rate: Some(rate), ..line(Some(rate * 0.95), high) }
}

fn probes((rate, held): (Option<f64>, bool)) -> Vec<Probe> {
    let probe = |rate| Probe { stage: Stage::Estimate, rate, held, ..Probe::default() };
    rate.into_iter().flat_map(|rate| vec![probe(rate); 3]).collect()
}

fn candidate(name: &str, evidence: &str) -> Candidate {
    Candidate { name: name.into(), evidence: evidence.into(), ..Candidate::default() }
}

fn insert(run: &mut Run) -> &mut Operation {
    run.operations.entry("insert".into()).or_default()
}

fn integrity(acknowledged: u64, found: u64) -> Integrity {
    let write_concern = r#"{"w":"majority","j":true}"#.into();
    Integrity { write_concern, acknowledged, found, ..Integrity::default() }
}

fn phase(change: impl FnOnce(&mut PhaseFacts)) -> Vec<PhaseFacts> {
    let warm_up = WarmUp::Steady { from_s: 1.0 };
    let mut phase =
        PhaseFacts { name: "load".into(), open: true, to_s: 8.1, warm_up, ..PhaseFacts::default() };
    change(&mut phase);
    vec![phase]
}

fn latency(p50: u64, p99: u64, max: u64) -> Latency {
    Latency { count: 5000, p50: Some(p50), p99: Some(p99), max: Some(max), ..Latency::default() }
}
