//! Tests the sums over phases, and the checks during a run.

use plimsoll_measure::clock::{Instant, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::{Instants, Reply};
use plimsoll_measure::metric::{Subject, Tags};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_measure::rule::Rule;
use plimsoll_measure::run::{Answers, Check};

use super::*;
use crate::arrivals::Arrivals;
use crate::phase::{Documents, Load};
use crate::retry::Retry;
use crate::stop::Stop;
use crate::worker::Part;

fn load(name: &str, operation: usize, arrivals: Arrivals) -> Load {
    Load { mix: vec![(operation, 1.0)], documents: Documents::Used, ..Load::new(name, arrivals) }
}

fn phase(name: &str, loads: Vec<Load>) -> Phase {
    Phase {
        name: name.into(),
        key: None,
        loads,
        stop: Stop { duration: Some(Span::from_secs(10)), ..Stop::default() },
        drain: Span::from_secs(1),
        unreachable_for: Span::from_secs(1),
        seed: 0,
        faults: Vec::new(),
        retry: Some(Retry::None),
        limits: Vec::new(),
    }
}

fn open() -> Arrivals {
    Arrivals::Constant { rate: 1.0, connections: 1 }
}

/// A tally of `count` operations, each `response_ns` long, the first `failed` of them refused.
fn tally(count: u64, failed: u64, response_ns: u64) -> Tally {
    let mut tally = Tally::default();
    let at = Instant::default();
    let instants = Instants { due: at, awake: at, sent: at, done: at + response_ns };
    for number in 0..count {
        let refused = Reply::failed(Outcome::Rejected(Rejection::Overload), 1);
        tally.due += 1;
        tally.record(&instants, &if number < failed { refused } else { Reply::acknowledged(1) });
    }
    tally
}

fn second(index: u64, tallies: Vec<Tally>) -> Second {
    Second { from_ns: index * SECOND_NS, to_ns: (index + 1) * SECOND_NS, tallies, ..Second::default() }
}

fn wanted(phases: &[Phase], names: &[String], metric: &str, rule: Rule) -> Wanted {
    let subjects: Vec<Subject<'_>> = phases.iter().flat_map(|phase| phase.subjects(names)).collect();
    expectation::read(metric, &rule, &subjects).unwrap()
}

#[test]
fn an_operation_of_two_loads_is_under_load_once() {
    let phase = phase("phase", vec![load("a", 0, Arrivals::Closed { writers: 1 }), load("b", 0, open())]);
    let covers = Cover::all(&phase);
    assert_eq!(covers.len(), 1);
    assert_eq!(covers[&0], Cover::of(&phase.loads[0], &phase).and(Cover::of(&phase.loads[1], &phase)));
}

#[test]
fn a_load_with_its_own_start_and_end_counts_only_its_own_time() {
    let mut phase = phase("phase", vec![load("a", 0, open()), load("b", 1, open())]);
    phase.loads[1].timing.start = Span::from_secs(2);
    phase.loads[1].timing.stop.duration = Some(Span::from_secs(5));
    let mut summary = Summary::new(vec!["a".into(), "b".into()], Objective::standard());
    for index in 0..10 {
        let late = if (2..7).contains(&index) { tally(20, 0, 1000) } else { Tally::default() };
        summary.add(&phase, &second(index, vec![tally(20, 0, 1000), late]));
    }
    summary.end(&phase, &Finished { to_ns: 10 * SECOND_NS, ..Finished::default() }, 0);
    let operations = summary.operations();
    assert_eq!((operations["a"].rate_per_s, operations["b"].rate_per_s), (20.0, 20.0));
    let spread = operations["b"].documents_in_a_second.unwrap();
    assert_eq!((spread.seconds, spread.min, spread.max), (5, 20.0, 20.0));
}

#[test]
fn errors_are_allowed_only_where_an_expectation_bounds_them() {
    let names = ["a".to_owned()];
    let phases = [phase("fill", vec![load("a", 0, open())]), phase("main", vec![load("a", 0, open())])];
    for (metric, unexpected) in [
        ("skipped", 6.0),
        ("a.errors", 0.0),
        ("errors{phase:fill}", 3.0),
        ("errors{class:overload}", 0.0),
        ("errors{class:timeout}", 6.0),
        ("checks", 6.0),
    ] {
        let wanted = [wanted(&phases, &names, metric, Rule::new("count<100"))];
        let mut summary = Summary::new(names.to_vec(), Objective::standard()).expecting(&wanted);
        for phase in &phases {
            summary.add(phase, &second(0, vec![tally(10, 3, 1000)]));
            summary.end(phase, &Finished { to_ns: SECOND_NS, ..Finished::default() }, 0);
        }
        let found: f64 = summary.unexpected_errors().iter().filter_map(|it| it.value).sum();
        assert_eq!(found, unexpected, "{metric}");
    }
}

#[test]
fn a_request_given_up_at_the_end_of_its_load_is_not_an_unexpected_error() {
    let phase = phase("phase", vec![load("a", 0, open())]);
    let mut summary = Summary::new(vec!["a".into()], Objective::standard());
    let mut tally = Tally::default();
    let at = Instant::default();
    let instants = Instants { due: at, awake: at, sent: at, done: at };
    let timeout = Reply::failed(Outcome::Unknown(Doubt::Timeout), 1);
    tally.record(&instants, &Reply { given_up: true, ..timeout });
    summary.add(&phase, &second(0, vec![tally.clone()]));
    assert!(summary.unexpected_errors().is_empty());
    tally.record(&instants, &timeout);
    summary.add(&phase, &second(1, vec![tally]));
    assert_eq!(summary.unexpected_errors()[0].value, Some(1.0));
}

#[test]
fn operations_in_flight_at_the_end_count_as_achieved_and_a_backlog_does_not() {
    for late in [0, 1, 400] {
        let mut phase = phase("phase", vec![load("a", 0, open())]);
        phase.stop.duration = Some(Span::from_secs(1));
        let connections = u64::from(phase.loads[0].arrivals.connections());
        let mut summary = Summary::new(vec!["a".into()], Objective::standard());
        let due = |count: u64, due: u64| Tally { due, ..tally(count, 0, 1000) };
        summary.add(&phase, &second(0, vec![due(1000 - connections, 1000)]));
        summary.add(&phase, &second(1, vec![due(late, 0)]));
        summary.end(&phase, &Finished { to_ns: 2 * SECOND_NS, ..Finished::default() }, 0);
        let expected = (1000 - connections + late.min(connections)) as f64 / 1000.0;
        let found = summary.operations()["a"].achieved;
        assert_eq!(found, Some(expected), "{late}");
    }
}

/// An operation that a waiting lane took counts as due when it ends, so no more are done than were due.
#[test]
fn operations_that_waiting_lanes_took_are_not_achieved_twice() {
    let mut phase = phase("phase", vec![load("a", 0, open())]);
    phase.stop.duration = Some(Span::from_secs(1));
    let mut summary = Summary::new(vec!["a".into()], Objective::standard());
    for index in 0..2 {
        summary.add(&phase, &second(index, vec![Tally { due: 1, ..tally(1, 0, 1000) }]));
    }
    summary.end(&phase, &Finished { to_ns: 2 * SECOND_NS, ..Finished::default() }, 0);
    assert_eq!(summary.operations()["a"].achieved, Some(1.0));
}

#[test]
fn cpu_is_reported_for_an_operation_with_its_own_phase() {
    let one = |name, operation| load(name, operation, Arrivals::Closed { writers: 1 });
    let phases = [
        phase("a alone", vec![one("a", 0)]),
        phase("both", vec![one("a", 0), one("b", 1)]),
        phase("few", vec![one("a", 0)]),
    ];
    let mut summary = Summary::new(vec!["a".into(), "b".into()], Objective::standard());
    for (phase, counts) in phases.iter().zip([[200, 0], [100, 300], [18, 0]]) {
        // Two workers, 3 ms each second.
        for index in 0..2 {
            let tallies = counts.map(|count| tally(count / 2, 0, 1000)).into();
            summary.add(phase, &Second { cpu_ns: vec![1_000_000, 2_000_000], ..second(index, tallies) });
        }
        summary.end(phase, &Finished { to_ns: 2 * SECOND_NS, ..Finished::default() }, 0);
    }
    let of_phases: Vec<_> = summary.phases().iter().map(|phase| phase.cpu_us_per_operation).collect();
    assert_eq!(of_phases, [Some(30.0), Some(15.0), None], "the last phase has too few operations");
    let operations = summary.operations();
    assert_eq!(operations["a"].cpu_us_per_operation, Some(30.0), "the CPU shared with b is excluded");
    assert_eq!(operations["b"].cpu_us_per_operation, None);
}

#[test]
fn a_metric_by_tag_is_the_sum_of_the_matching_parts() {
    let names = ["ingest".to_owned(), "feed".to_owned()];
    let mut reading = load("readers", 1, open());
    reading.tags.insert(1, Tags::from([("kind".to_owned(), "read".to_owned())]));
    let phases = [
        phase("fill", vec![load("ingest", 0, open())]),
        phase("main", vec![load("devices", 0, open()), load("backfill", 0, open()), reading]),
    ];
    let read = |metric: &str| wanted(&phases, &names, metric, Rule::new("count==0"));
    let metrics = [
        ("operations", 110.0),
        ("ingest.operations", 60.0),
        ("operations{phase:main}", 100.0),
        ("operations{load:devices}", 20.0),
        ("operations{load:backfill}", 30.0),
        ("ingest.operations{phase:main}", 50.0),
        ("operations{kind:read}", 50.0),
        ("http_reqs{scenario:readers}", 50.0),
    ];
    let wanted: Vec<_> = metrics.iter().map(|(metric, _)| read(metric)).collect();
    let mut summary = Summary::new(names.to_vec(), Objective::standard()).expecting(&wanted);
    let finished = Finished { to_ns: SECOND_NS, ..Finished::default() };
    summary.add(&phases[0], &second(0, vec![tally(10, 0, 1), Tally::default()]));
    summary.end(&phases[0], &finished, 0);
    let part = |load, count| Part { load, operation: 0, tally: tally(count, 0, 1) };
    let parts = vec![part(0, 20), part(1, 30)];
    summary.add(&phases[1], &Second { parts, ..second(0, vec![tally(50, 0, 1), tally(50, 0, 1)]) });
    summary.end(&phases[1], &finished, SECOND_NS);
    for ((metric, value), judged) in metrics.iter().zip(summary.expectations(None, &[], false)) {
        assert_eq!((judged.metric.as_str(), judged.value), (*metric, Some(*value)));
    }
}

#[test]
fn checks_of_several_operations_add_up() {
    let names = ["a".to_owned(), "b".to_owned()];
    let phases = [phase("phase", vec![load("a", 0, open()), load("b", 1, open())])];
    let read = |metric: &str| wanted(&phases, &names, metric, Rule::new("rate>0.9"));
    let wanted = [read("checks"), read("a.checks"), read("checks{name:b}")];
    let mut summary = Summary::new(names.to_vec(), Objective::standard()).expecting(&wanted);
    summary.add(&phases[0], &second(0, vec![tally(10, 0, 1), tally(10, 0, 1)]));
    let values = |answers: &[Answers]| -> Vec<_> {
        summary.expectations(None, answers, false).into_iter().map(|it| (it.value, it.held)).collect()
    };
    assert_eq!(values(&[]), [(None, false); 3]);
    let check = |passed, failed| Check { name: "status 201".into(), passed, failed };
    let answers =
        |operation: &str, checks| Answers { operation: operation.into(), checks, ..Answers::default() };
    let all = [answers("a", vec![check(10, 0)]), answers("b", vec![check(5, 15), check(10, 0)])];
    assert_eq!(values(&all), [(Some(0.625), false), (Some(1.0), true), (Some(0.5), false)]);
}

/// The second after which a run ends because of one rule, and the reason, if in the first `slow_from` seconds
/// all operations are fast and none fails.
fn breaks_at(metric: &str, rule: Rule, slow_from: u64) -> Option<(u64, String)> {
    let (names, phases) = (["a".to_owned()], [phase("phase", vec![load("a", 0, open())])]);
    let wanted = [wanted(&phases, &names, metric, rule)];
    let mut summary = Summary::new(names.to_vec(), Objective::standard()).expecting(&wanted);
    summary.arm();
    (0..30).find_map(|index| {
        let slow = index >= slow_from;
        let tally = tally(1000, if slow { 500 } else { 0 }, if slow { 90_000_000 } else { 1_000_000 });
        summary.add(&phases[0], &second(index, vec![tally]));
        summary.broken().map(|reason| (index + 1, reason))
    })
}

fn aborting(threshold: &str, delay_s: u64) -> Rule {
    let delay_abort_eval = Span::from_secs(delay_s);
    Rule { abort_on_fail: true, delay_abort_eval, ..Rule::new(threshold) }
}

#[test]
fn a_threshold_is_checked_every_two_seconds_and_ends_the_run_after_its_delay() {
    let at = |rule: Rule, slow_from| breaks_at("a.response", rule, slow_from).map(|(second, _)| second);
    assert_eq!(at(aborting("p(95)<50", 0), 0), Some(2));
    // The third second is the first slow one; the next check follows the fourth.
    assert_eq!(at(aborting("p(95)<50", 0), 2), Some(4));
    // k6 requires more than the delay: at ten seconds it is not over yet.
    assert_eq!(at(aborting("p(95)<50", 10), 0), Some(12));
    assert_eq!(at(aborting("p(95)<50", 9), 0), Some(10));
    // Half of the operations of a slow second fail: the percentile lies among them.
    assert_eq!(at(aborting("p(95)<500", 0), 0), Some(2));
    assert_eq!(at(aborting("p(95)<500", 0), 30), None);
    assert_eq!(at(Rule::new("p(95)<50"), 0), None);
}

#[test]
fn the_reason_names_the_threshold_and_the_measured_value() {
    let (_, reason) = breaks_at("http_req_failed", aborting("rate<0.01", 0), 0).unwrap();
    assert_eq!(reason, "http_req_failed rate<0.01 did not hold: 0.5 after 2 s");
    let (_, reason) = breaks_at("response{load:a}", aborting("min<50", 3), 0).unwrap();
    assert!(reason.starts_with("response{load:a} min<50 did not hold: 89."), "{reason}");
    assert!(reason.ends_with("ms after 4 s"), "{reason}");
    let (_, reason) = breaks_at("a.response", aborting("p(95)<500", 0), 0).unwrap();
    assert_eq!(reason, "a.response p(95)<500 did not hold: it lies among the failed operations after 2 s");
    let (_, reason) = breaks_at("a.response", aborting("max<500", 0), 0).unwrap();
    assert_eq!(reason, "a.response max<500 did not hold: it lies among the failed operations after 2 s");
}

#[test]
fn a_disabled_or_unknown_expectation_does_not_end_the_run() {
    assert_eq!(breaks_at("a.response", aborting("p(99.999)<1ms", 0), 0), None);
    let (names, phases) = (["a".to_owned()], [phase("phase", vec![load("a", 0, open())])]);
    let wanted = [wanted(&phases, &names, "a.response", aborting("p(50)<1ms", 0))];
    let mut summary = Summary::new(names.to_vec(), Objective::standard()).expecting(&wanted);
    for index in 0..10 {
        summary.add(&phases[0], &second(index, vec![tally(1000, 0, 90_000_000)]));
        assert_eq!(summary.broken(), None);
    }
}
