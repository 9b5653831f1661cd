//! Tests the search on simulated servers with a known load line.

use std::error::Error;

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::bottlenecks::level::{levels_between, per_s_between};
use plimsoll_load::bottlenecks::observation::both;
use plimsoll_load::bottlenecks::reading::share;
use plimsoll_load::bottlenecks::{
    CLIENT_CPU, CONNECTIONS as CONNECTIONS_RULE, DISK, Finding, Level, NotObserved, Observation, Rule,
    SERVER_CPU, WAKE, departs,
};
use plimsoll_load::due_second::DueSeconds;
use plimsoll_load::line::{LineSearch, Measured, Prober, SETTLE_S, find};
use plimsoll_load::objective::{Objective, Window};
use plimsoll_load::search::{Attempt, BUDGET_S, Settings};
use plimsoll_load::stop::Stop;
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;
use plimsoll_measure::line::{Line, Probe};
use plimsoll_measure::sample::ServerSample;

use crate::scripted::{Script, phase, simulate};

const CONNECTIONS: u32 = 16;

struct Simulation {
    script: Script,
    probes: usize,
    /// The number of probes after which the search is interrupted.
    probes_max: usize,
    /// The server's own report once a second, if any.
    says: Option<Says>,
}

/// A server's report at a rate in operations per second, some seconds after the start of the arrivals.
type Says = fn(rate: f64, second: u64, &mut ServerSample);

impl Prober for Simulation {
    fn probe(&mut self, attempt: &Attempt) -> Result<Measured, Box<dyn Error + Send + Sync>> {
        if self.probes >= self.probes_max {
            return Ok(Measured { over: Some("it was interrupted".into()), ..Measured::default() });
        }
        let seconds = SETTLE_S + attempt.window_s as u64;
        let stop = Stop { duration: Some(Span::from_secs(seconds)), ..Stop::default() };
        let mut phase = phase(Arrivals::Constant { rate: attempt.rate, connections: CONNECTIONS }, stop);
        phase.drain = Span::from_ns(50_000_000);
        phase.limits = Objective::standard().limits();
        let outcome = simulate(phase, self.script, Share::WHOLE);
        let mut due = DueSeconds::default();
        outcome.seconds.iter().flat_map(|second| &second.due_seconds).for_each(|part| due.add(part));
        let mut window = Window::default();
        let in_time = outcome.seconds.iter().filter(|second| second.to_ns <= seconds * SECOND_NS);
        in_time.for_each(|second| window.add(second));
        // Each probe begins a minute after the last one.
        let from_ns = self.probes as u64 * 60 * SECOND_NS;
        let look = |says: Says, second| {
            let mut sample = ServerSample { at_ns: from_ns + second * SECOND_NS, ..ServerSample::default() };
            says(attempt.rate, second, &mut sample);
            sample
        };
        let samples = self.says.iter().flat_map(|says| (0..=seconds).map(|second| look(*says, second)));
        let samples = samples.collect();
        Ok(Measured {
            from_ns,
            window,
            due: due.of(0),
            samples,
            connections: CONNECTIONS,
            ..Measured::default()
        })
    }

    fn probed(&mut self, _probe: &Probe) {
        self.probes += 1;
    }
}

/// The rules of a search: those of this crate, and one about the server.
const RULES: [Rule; 8] = [
    CLIENT_CPU,
    WAKE,
    CONNECTIONS_RULE,
    SERVER_CPU,
    Rule::new("dirty cache", dirty_cache, dirty_levels),
    Rule::new("queue", queue, queue_levels).intermittent(),
    Rule::new("journal", journal, journal_levels).intermittent(),
    DISK,
];

fn dirty_share(sample: &ServerSample) -> Option<f64> {
    Some(sample.cache_dirty_bytes? as f64 / sample.cache_bytes_max? as f64)
}

fn dirty_cache(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let shares = both((baseline, knee), |side| side.max(dirty_share))?;
    Ok(Finding { departed: departs(shares.0, shares.1, 0.2), readings: vec![share("dirty share", shares)] })
}

fn dirty_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels_between(side, |sample, _| Some(dirty_share(sample)? >= 0.2))
}

/// A second resource: operations that wait for a ticket.
fn queue(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let waiting = |sample: &ServerSample| Some(sample.write_tickets_waiting? as f64);
    let counts = both((baseline, knee), |side| side.max(waiting))?;
    Ok(Finding { departed: departs(counts.0, counts.1, 1.0), readings: vec![share("waiting", counts)] })
}

fn queue_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels_between(side, |sample, _| Some(sample.write_tickets_waiting? > 0))
}

/// A resource that only its times describe: the time spent in syncs of the journal.
fn journal(_: &Observation, _: &Observation) -> Result<Finding, NotObserved> {
    Err("not compared")
}

fn journal_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels_between(side, |before, after| {
        Some(per_s_between(before, after, |sample| sample.journal_sync_us)? >= 500_000.0)
    })
}

fn search(script: Script, objective: Objective, start: f64) -> Line {
    search_for(script, objective, start, usize::MAX)
}

fn search_for(script: Script, objective: Objective, start: f64, probes_max: usize) -> Line {
    let simulation = Simulation { script, probes: 0, probes_max, says: None };
    search_with(simulation, objective, start)
}

fn search_with(simulation: Simulation, objective: Objective, start: f64) -> Line {
    soaked(simulation, objective, start, None)
}

fn soaked(mut simulation: Simulation, objective: Objective, start: f64, soak_s: Option<u64>) -> Line {
    let line_search = LineSearch {
        settings: Settings { start, budget_s: BUDGET_S, seed: 1 },
        objective,
        rules: &RULES,
        documents_per_operation: 10.0,
        unit: "documents/s".into(),
        soak_s,
    };
    let line = find(&line_search, &mut simulation).unwrap();
    assert_eq!(line.probes.len() + usize::from(line.soak.is_some()), simulation.probes);
    line
}

#[test]
fn a_soak_holds_nine_tenths_of_the_line_and_an_interrupted_one_says_nothing() {
    let script = Script { turn_ns: 2_000_000, ..Script::steady(0) };
    let simulation = |probes_max| Simulation { script, probes: 0, probes_max, says: None };
    let whole = soaked(simulation(usize::MAX), Objective::standard(), 170.0, Some(15));
    let soak = whole.soak.unwrap();
    assert!((soak.rate / whole.rate.unwrap() - 0.9).abs() < 1e-9 && soak.held, "{soak:?}");
    assert_eq!(soak.window_s, 15.0);
    let cut = soaked(simulation(whole.probes.len()), Objective::standard(), 170.0, Some(15));
    assert_eq!((cut.soak, cut.rate), (None, whole.rate));
    assert_eq!(cut.notes[0], "the search ended early: it was interrupted");
}

/// The server is down for a moment in the 21st second, which only the soak reaches. One such second in thirty breaks "no errors".
#[test]
fn a_soak_with_failures_in_one_second_did_not_hold() {
    let down = (20 * SECOND_NS, 20 * SECOND_NS + 5_000_000);
    let script = Script { turn_ns: 2_000_000, down, ..Script::steady(0) };
    let simulation = Simulation { script, probes: 0, probes_max: usize::MAX, says: None };
    let soak = soaked(simulation, Objective::standard(), 170.0, Some(30)).soak.unwrap();
    assert!(soak.errors > 0 && !soak.held && soak.reasons[0].contains(" errors: "), "{soak:?}");
}

#[test]
fn the_line_of_a_server_with_a_known_capacity_is_its_capacity() {
    // One operation at a time, 2 ms each: 500 a second. Below that no operation waits; above it the queue
    // grows.
    let script = Script { turn_ns: 2_000_000, ..Script::steady(0) };
    let line = search(script, Objective::standard(), 170.0);
    let (low, high) = (line.low.unwrap(), line.high.unwrap());
    // Constant arrivals queue only above the capacity, and slowly just above it.
    assert!(low <= 5000.0 * 1.005 && high >= 5000.0 * 0.995 && high / low < 1.06, "{low} {high}");
    assert_eq!(line.notes, [] as [String; 0]);
    assert_eq!((line.confidence, line.confirmed, line.drift), (Some(0.9), None, None));
    assert_eq!(line.objective, ["response p(99)<50ms", "errors count==0"]);
}

#[test]
fn an_objective_that_no_rate_meets_ends_without_a_line() {
    let line = search(Script::steady(60_000_000), Objective::standard(), 100.0);
    assert_eq!((line.rate, line.low), (None, None));
    assert!(line.notes[0].starts_with("no rate held"), "{:?}", line.notes);
    assert!(
        line.notes[0].ends_with("every operation exceeded a bound, so lower rates were not tried"),
        "{:?}",
        line.notes
    );
    assert_eq!(line.probes.len(), 3, "the first rate twice, and one below");
    assert_eq!(line.probes[0].reasons[0], "100.00 % over 50 ms response, 1 % allowed");
}

#[test]
fn too_few_connections_are_named() {
    // 16 connections × 5 ms: 3200 operations a second, and the service time is constant.
    let line = search(Script::steady(5_000_000), Objective::standard(), 1000.0);
    let rate = line.rate.unwrap() / 10.0;
    assert!((3000.0..3300.0).contains(&rate), "{rate}");
    assert_eq!(line.bottlenecks[0].name, "connections", "{:?}", line.bottlenecks);
}

/// The cache grows dirty with the rate, and was dirtier before the judged window; the server reports nothing
/// else.
fn dirty(rate: f64, second: u64, sample: &mut ServerSample) {
    let share = if second < SETTLE_S { 0.9 } else { rate / 2000.0 };
    sample.cache_bytes_max = Some(1_000_000);
    sample.cache_dirty_bytes = Some((share * 1e6) as u64);
}

#[test]
fn server_samples_at_the_knee_are_compared_with_the_baseline() {
    let script = Script { turn_ns: 2_000_000, ..Script::steady(0) };
    let simulation = Simulation { script, probes: 0, probes_max: usize::MAX, says: Some(dirty) };
    let line = search_with(simulation, Objective::standard(), 170.0);
    let names: Vec<_> = line.bottlenecks.iter().map(|candidate| candidate.name.as_str()).collect();
    assert_eq!(names, ["dirty cache"], "{:?}", line.bottlenecks);
    let dirty = &line.bottlenecks[0].readings[0];
    let [baseline, knee] = [dirty.baseline, dirty.knee].map(|share| share.unwrap() / 100.0 * 2000.0 * 10.0);
    // 8.5 % at the lowest rate that held, and the share at the lowest rate that failed.
    assert!((baseline - 1700.0).abs() < 1.0, "{baseline}");
    let failed = line.probes.iter().filter(|probe| !probe.held && probe.rate >= line.rate.unwrap());
    let lowest = failed.map(|probe| probe.rate).fold(f64::INFINITY, f64::min);
    assert!((knee / lowest - 1.0).abs() < 0.01, "{knee} {lowest}");
    let unchecked: Vec<_> = line.unchecked.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(unchecked, ["server CPU", "queue", "journal", "disk"]);
    assert_eq!(
        line.unmoved.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        ["client CPU", "wake", "connections"]
    );
}

#[test]
fn a_line_without_a_failure_has_no_knee() {
    let line = search_for(Script::steady(1000), Objective::standard(), 500.0, 2);
    assert!(line.high.is_none() && line.bottlenecks.is_empty());
    assert!(line.unmoved.is_empty() && line.unchecked.is_empty());
}

#[test]
fn an_interrupted_search_estimates_from_its_trials() {
    let script = Script { turn_ns: 2_000_000, ..Script::steady(0) };
    let cut = search_for(script, Objective::standard(), 170.0, 9);
    assert_eq!(cut.probes.len(), 9);
    assert!(cut.low.unwrap() <= 5025.0 && cut.high.unwrap() >= 4975.0, "{:?} {:?}", cut.low, cut.high);
    assert_eq!(cut.notes[0], "the search ended early: it was interrupted");
}

/// The server stands still in the fourth second of each trial that is long enough, and says that a checkpoint runs.
#[test]
fn checkpoints_that_lower_the_line_are_named() {
    let script = Script { frozen: (3 * SECOND_NS, 4 * SECOND_NS), ..Script::steady(5_000_000) };
    let running: Says = |_, second, sample| {
        sample.checkpoint_running = Some((3..5).contains(&second));
        // Each trial begins a minute after the last one.
        sample.checkpoints = Some(sample.at_ns / (60 * SECOND_NS) + u64::from(second >= 5));
    };
    let simulation = Simulation { script, probes: 0, probes_max: usize::MAX, says: Some(running) };
    let line = search_with(simulation, Objective::standard(), 170.0);
    let note = line.notes.iter().find(|note| note.starts_with("checkpoints began")).unwrap();
    assert!(note.contains("and 20 more after the start: between them 3"), "{note}");
    assert_failed_below(note);
}

/// Asserts that the lowest rate that failed during the events of a note is below the line between them.
fn assert_failed_below(note: &str) {
    let (between, failed) = note.split_once(" documents/s holds, during them ").unwrap();
    let number = |text: &str| {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap()
    };
    let between = number(between.rsplit_once("between them ").unwrap().1);
    assert!(failed.ends_with(" documents/s failed") && number(failed) < between, "{note}");
}

/// The server stands still in the fourth second of each trial that is long enough, and its journal syncs slowly then. A second resource
/// is at its limit in another second of each trial.
#[test]
fn a_resource_whose_times_lower_the_line_is_named() {
    let script = Script { frozen: (3 * SECOND_NS, 4 * SECOND_NS), ..Script::steady(5_000_000) };
    let slow: Says = |_, second, sample| {
        // The operations that waited for the server are sent in the fifth second.
        sample.journal_sync_us = Some((second.clamp(3, 5) - 3) * 900_000);
        sample.write_tickets_waiting = Some(u64::from(second == 1));
    };
    let simulation = Simulation { script, probes: 0, probes_max: usize::MAX, says: Some(slow) };
    let line = search_with(simulation, Objective::standard(), 170.0);
    let [note] = line.notes.as_slice() else { panic!("{:?}", line.notes) };
    assert!(note.starts_with("journal reached its limit 3 s, ") && note.contains("between them 3"), "{note}");
    assert_failed_below(note);
}

/// The server stands still in the fourth second of each trial, in which its cache is dirty at every rate. Its
/// operations wait for tickets equally often, but in another second.
#[test]
fn a_resource_at_its_limit_in_slow_seconds_is_named_and_an_innocent_one_is_not() {
    let script = Script { frozen: (3 * SECOND_NS, 4 * SECOND_NS), ..Script::steady(5_000_000) };
    let dirty: Says = |_, second, sample| {
        let trial = sample.at_ns / (60 * SECOND_NS);
        sample.cache_bytes_max = Some(100);
        sample.cache_dirty_bytes = Some(if second == 3 { 90 } else { 5 });
        sample.write_tickets_waiting = Some(u64::from(second == 1 + trial * 5 % 8));
    };
    let simulation = Simulation { script, probes: 0, probes_max: usize::MAX, says: Some(dirty) };
    let line = search_with(simulation, Objective::standard(), 170.0);
    let names: Vec<_> = line.bottlenecks.iter().map(|candidate| candidate.name.as_str()).collect();
    assert_eq!(names, ["dirty cache"], "{:?}", line.bottlenecks);
    let found = &line.bottlenecks[0];
    let timing = found.timing.as_ref().unwrap();
    assert!(timing.explained > 0.5 && timing.p.unwrap() < 0.01, "{timing:?}");
    assert!(found.evidence.contains("of the slow time"), "{}", found.evidence);
    let innocent = line.unmoved.iter().find(|it| it.name == "queue").unwrap();
    assert!(innocent.timing.as_ref().unwrap().p.unwrap() > 0.05, "{innocent:?}");
}
