//! The search against simulated servers whose load line is known.

use std::error::Error;

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::line::{Measured, Prober, Quest, SETTLE_S, find};
use plimsoll_load::objective::Objective;
use plimsoll_load::search::{Settings, Try};
use plimsoll_load::stop::Stop;
use plimsoll_load::suspects::Machine;
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;
use plimsoll_measure::line::{Line, Probe};

use crate::scripted::{Script, phase, simulate};

const CONNECTIONS: u32 = 16;

struct Simulation {
    script: Script,
    probes: usize,
    /// After so many probes somebody presses Ctrl-C.
    probes_max: usize,
}

impl Prober for Simulation {
    fn probe(&mut self, attempt: &Try) -> Result<Measured, Box<dyn Error + Send + Sync>> {
        if self.probes >= self.probes_max {
            return Ok(Measured { over: Some("it was interrupted".into()), ..Measured::default() });
        }
        let seconds = SETTLE_S + attempt.window_s as u64;
        let stop = Stop { duration: Some(Span::from_secs(seconds)), ..Stop::default() };
        let mut phase = phase(Arrivals::Constant { rate: attempt.rate, connections: CONNECTIONS }, stop);
        phase.drain = Span::from_secs(0);
        let outcome = simulate(phase, self.script, Share::WHOLE);
        let in_time = outcome.seconds.into_iter().filter(|second| second.to_ns <= seconds * SECOND_NS);
        Ok(Measured { seconds: in_time.collect(), connections: CONNECTIONS, ..Measured::default() })
    }

    fn probed(&mut self, _probe: &Probe) {
        self.probes += 1;
    }
}

fn search(script: Script, objective: Objective, start: f64) -> Line {
    search_for(script, objective, start, 1, usize::MAX)
}

fn search_for(script: Script, objective: Objective, start: f64, searches: u32, probes_max: usize) -> Line {
    let quest = Quest {
        settings: Settings::standard(start, objective.operations_min()),
        objective,
        documents_per_operation: 10.0,
        unit: "documents/s".into(),
        machine: Machine { cores: 2, workers: 1 },
        searches,
    };
    let mut simulation = Simulation { script, probes: 0, probes_max };
    let line = find(&quest, &mut simulation).unwrap();
    assert_eq!(line.probes.len(), simulation.probes);
    line
}

#[test]
fn the_line_of_a_server_with_a_known_capacity_is_its_capacity() {
    // One operation at a time, 2 ms each: 500 a second; below that nothing waits, above it the queue grows.
    let script = Script { turn_ns: 2_000_000, ..Script::steady(0) };
    let line = search(script, Objective::standard(), 170.0);
    let (low, high) = (line.low.unwrap(), line.high.unwrap());
    assert!(low <= 5000.0 * 1.005 && high >= 5000.0 * 0.995 && high / low < 1.0506, "{low} {high}");
    assert_eq!(line.notes, [] as [String; 0]);
    assert!(line.confirmed);
    assert_eq!(line.objective, ["response p(99)<50ms", "errors count==0"]);
}

#[test]
fn an_objective_that_no_rate_meets_ends_without_a_line() {
    let line = search(Script::steady(60_000_000), Objective::standard(), 100.0);
    assert_eq!((line.rate, line.low), (None, None));
    assert!(line.notes[0].starts_with("no rate held"), "{:?}", line.notes);
    assert!(line.probes[0].reasons[0].contains("response p(99) is 60"), "{:?}", line.probes[0].reasons);
}

#[test]
fn too_few_connections_are_named() {
    // 16 connections × 5 ms: 3200 operations a second, and service time never moves.
    let line = search(Script::steady(5_000_000), Objective::standard(), 1000.0);
    let rate = line.rate.unwrap() / 10.0;
    assert!((3000.0..3300.0).contains(&rate), "{rate}");
    assert_eq!(line.held_back_by[0].name, "connections", "{:?}", line.held_back_by);
}

#[test]
fn an_interruption_keeps_the_searches_that_were_finished() {
    let script = Script { turn_ns: 2_000_000, ..Script::steady(0) };
    let whole = search(script, Objective::standard(), 170.0);
    let probes = whole.probes.len();
    let cut = search_for(script, Objective::standard(), 170.0, 3, probes + 2);
    assert_eq!((cut.low, cut.high), (whole.low, whole.high));
    assert_eq!((cut.probes.len(), cut.confirmed), (probes + 2, false));
    assert_eq!(cut.notes, ["the search ended early: it was interrupted"]);
}
