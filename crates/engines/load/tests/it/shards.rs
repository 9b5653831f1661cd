//! Compares the sum of a plan's shards with one run: every counter and every histogram is equal.

use plimsoll_load::arrivals::{Arrivals, Stage};
use plimsoll_load::engine::Finished;
use plimsoll_load::fault::InjectedFault;
use plimsoll_load::mix::By;
use plimsoll_load::objective::Objective;
use plimsoll_load::phase::{Documents, Overdue, Phase, Timing};
use plimsoll_load::retry::Retry;
use plimsoll_load::stop::Stop;
use plimsoll_load::summary::Summary;
use plimsoll_load::think::{Random, Think};
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::duration::Span;
use plimsoll_measure::expectation::{self, Wanted};
use plimsoll_measure::metric::Subject;
use plimsoll_measure::rule::Rule;

use crate::processes::{Measured, Plan, joined, merged, operations, shards, whole};
use crate::scripted::{Script, phase};

const MS: u64 = MILLISECOND_NS;
/// The numbers of shards to test.
const SHARDS: [u64; 4] = [1, 2, 3, 5];
const NAMES: [&str; 2] = ["insert", "find"];

/// The summary of a run.
fn summary(phase: &Phase, measured: &Measured) -> String {
    let names: Vec<_> = NAMES.iter().take(operations(phase)).map(|name| (*name).to_owned()).collect();
    let wanted = wanted(phase, &names);
    let mut summary = Summary::new(names, Objective::standard()).expecting(&wanted);
    measured.seconds.iter().for_each(|second| summary.add(phase, second));
    let finished = Finished { to_ns: measured.to_ns, ended: measured.ended, ..Finished::default() };
    summary.end(phase, &finished, 0);
    let expectations = summary.expectations(None, &[], false);
    format!("{:#?}\n{:#?}\n{expectations:#?}", summary.operations(), summary.phases())
}

fn wanted(phase: &Phase, names: &[String]) -> Vec<Wanted> {
    let subjects: Vec<Subject<'_>> = phase.subjects(names).collect();
    let rules = [
        ("insert.response", "p(99)<1s"),
        ("insert.operations", "count>1"),
        ("operations{load:load}", "rate>1"),
        ("insert.errors", "count==0"),
    ];
    rules
        .iter()
        .map(|(metric, rule)| expectation::read(metric, &Rule::new(*rule), &subjects).unwrap())
        .collect()
}

/// Checks that every number of shards adds up to one run, second by second and in its summary.
#[track_caller]
fn check(name: &str, phase: &Phase, script: Script) {
    SHARDS
        .into_iter()
        .for_each(|shards| check_one(name, Plan { phase, script, shards, workers_per_shard: 1 }));
}

#[track_caller]
fn check_one(name: &str, plan: Plan<'_>) {
    let (whole, merged) = (whole(plan), merged(plan));
    let name = format!("{name}, {} shards", plan.shards);
    let completed: u64 = whole.seconds.iter().flat_map(|it| &it.tallies).map(|it| it.completed()).sum();
    assert!(completed > 20, "{name}: {completed} operations are inconclusive");
    assert_eq!(merged.seconds.len(), whole.seconds.len(), "{name}");
    for (at, (merged, whole)) in merged.seconds.iter().zip(&whole.seconds).enumerate() {
        assert!(merged == whole, "{name}: second {at}\n{merged:?}\n{whole:?}");
    }
    assert_eq!((merged.ended, merged.to_ns), (whole.ended, whole.to_ns), "{name}");
    assert_eq!(summary(plan.phase, &merged), summary(plan.phase, &whole), "{name}");
}

fn lasting(ms: u64) -> Stop {
    Stop { duration: Some(Span::from_ns(ms * MS)), ..Stop::default() }
}

fn models() -> Vec<Arrivals> {
    let (rate, connections) = (120.0, 10);
    let stage = |to: f64, over: u64| Stage { to, over: Span::from_ns(over * MS) };
    let every = Span::from_ns(400 * MS);
    vec![
        Arrivals::Constant { rate, connections },
        Arrivals::Poisson { rate, connections },
        Arrivals::Ramp { from: 10.0, to: rate, over: Span::from_secs(1), connections },
        Arrivals::Steps { rates: vec![30.0, 120.0, 60.0], every, connections },
        Arrivals::Rates { from: 0.0, stages: vec![stage(rate, 500), stage(0.0, 700)], connections },
        Arrivals::Closed { writers: 10 },
        Arrivals::Writers { from: 1, stages: vec![Stage { to: 10, over: Span::from_secs(1) }] },
    ]
}

#[test]
fn shards_of_every_arrival_model_add_up_to_one_run() {
    for arrivals in models() {
        check(&arrivals.describe(), &phase(arrivals.clone(), lasting(1_350)), Script::steady(30 * MS));
    }
}

#[test]
fn the_number_of_workers_per_shard_does_not_matter() {
    for arrivals in models() {
        let phase = phase(arrivals.clone(), lasting(1_350));
        let plan = Plan { phase: &phase, script: Script::steady(30 * MS), shards: 2, workers_per_shard: 3 };
        check_one(&arrivals.describe(), plan);
    }
}

#[test]
fn shards_add_up_with_a_slow_or_missing_server() {
    let slow = Script { turn_ns: 60 * MS, ..Script::steady(20 * MS) };
    let frozen = Script { frozen: (300 * MS, 900 * MS), ..Script::steady(30 * MS) };
    let away = Script { down: (500 * MS, 900 * MS), ..Script::steady(30 * MS) };
    for (arrivals, script) in
        models().into_iter().flat_map(|it| [slow, frozen, away].map(|script| (it.clone(), script)))
    {
        let name = format!("{}, {script:?}", arrivals.describe());
        let mut phase = phase(arrivals, lasting(1_100));
        phase.drain = Span::from_ns(500 * MS);
        check_one(&name, Plan { phase: &phase, script, shards: 3, workers_per_shard: 1 });
        phase.retry = Some(Retry::Once);
        phase.loads[0].overdue = Overdue::Skip { after: Span::from_ns(200 * MS) };
        check_one(&name, Plan { phase: &phase, script, shards: 5, workers_per_shard: 1 });
    }
}

#[test]
fn shards_add_up_to_the_operation_and_to_the_document() {
    for arrivals in models().into_iter().filter(|it| !matches!(it, Arrivals::Rates { .. })) {
        for stop in [
            Stop { operations: Some(61), ..lasting(60_000) },
            Stop { documents: Some(59), ..lasting(60_000) },
        ] {
            let phase = phase(arrivals.clone(), stop);
            let plan =
                Plan { phase: &phase, script: Script::steady(10 * MS), shards: 3, workers_per_shard: 1 };
            check_one(&format!("{}, {stop:?}", arrivals.describe()), plan);
        }
    }
    let each = Stop { operations_each: Some(7), ..Stop::default() };
    check("7 operations each", &phase(Arrivals::Closed { writers: 10 }, each), Script::steady(20 * MS));
}

#[test]
fn shards_of_parallel_loads_add_up_with_each_of_their_parts() {
    let mut parallel_loads = phase(Arrivals::Poisson { rate: 100.0, connections: 10 }, lasting(1_350));
    let think = Think::Random(Random::Exponential { mean: Span::from_ns(40 * MS) });
    for (name, mix, mix_by, arrivals) in [
        ("mixed", vec![(0, 3.0), (1, 1.0)], By::Count, Arrivals::Constant { rate: 90.0, connections: 10 }),
        ("timed", vec![(0, 1.0), (1, 1.0)], By::Time, Arrivals::Closed { writers: 10 }),
    ] {
        let mut load = parallel_loads.loads[0].arriving(arrivals);
        (load.name, load.mix, load.mix_by) = (name.into(), mix, mix_by);
        let think = (!load.arrivals.is_open()).then_some(think);
        load.timing = Timing { start: Span::from_ns(250 * MS), think, ..Timing::default() };
        parallel_loads.loads.push(load);
    }
    check("three loads", &parallel_loads, Script::steady(20 * MS));
}

/// With fewer connections than workers, some workers have no share and give empty shards to the sum.
#[test]
fn a_shard_without_a_connection_adds_nothing() {
    check("2 writers", &phase(Arrivals::Closed { writers: 2 }, lasting(1_100)), Script::steady(20 * MS));
    let constant = Arrivals::Constant { rate: 100.0, connections: 1 };
    check("one connection", &phase(constant, lasting(1_100)), Script::steady(MS));
}

/// A shard that was stopped before a later phase is not awaited, and its workers keep their indices.
#[test]
fn a_shard_that_misses_a_phase_adds_nothing_to_it() {
    let phase = phase(Arrivals::Closed { writers: 10 }, lasting(1_350));
    let parts =
        shards(Plan { phase: &phase, script: Script::steady(30 * MS), shards: 3, workers_per_shard: 2 });
    let counted = |measured: &Measured| -> u64 {
        measured.seconds.iter().filter_map(|it| it.tallies.first()).map(|it| it.count).sum()
    };
    let two = joined(vec![Some(&parts[0]), None, Some(&parts[2])], 2);
    assert_eq!(counted(&two), counted(&parts[0]) + counted(&parts[2]));
    assert_eq!((two.seconds[0].cpu_ns.len(), two.to_ns), (6, parts[0].to_ns.max(parts[2].to_ns)));
    assert_eq!(counted(&joined(vec![None, Some(&parts[1])], 2)), counted(&parts[1]));
}

/// A shard does not know when the other shards have sent their documents. So a parallel load without a stop
/// ends when its shard has sent its share. The number of documents is exact.
#[test]
fn a_load_without_a_stop_ends_with_the_documents_of_its_own_shard() {
    let mut parallel_loads =
        phase(Arrivals::Closed { writers: 2 }, Stop { documents: Some(100), ..Stop::default() });
    let mut readers = parallel_loads.loads[0].arriving(Arrivals::Closed { writers: 12 });
    (readers.name, readers.mix, readers.documents) = ("readers".into(), vec![(1, 1.0)], Documents::Used);
    parallel_loads.loads.push(readers);
    let count = |measured: &Measured, operation: usize| -> u64 {
        measured.seconds.iter().filter_map(|it| it.tallies.get(operation)).map(|it| it.count).sum()
    };
    let plan =
        Plan { phase: &parallel_loads, script: Script::steady(5 * MS), shards: 3, workers_per_shard: 1 };
    let (whole, merged) = (whole(plan), merged(plan));
    assert_eq!((count(&whole, 0), count(&merged, 0)), (100, 100));
    assert!(count(&whole, 1) > 0 && count(&whole, 1) != count(&merged, 1), "or the comment is out of date");
}

#[test]
fn a_fault_of_all_shards_lasts_from_the_first_begin_to_the_last_end() {
    let happening = |fault, from_ns, to_ns| InjectedFault { fault, from_ns, to_ns, error: None };
    let mut all = Finished {
        to_ns: 100,
        faults: vec![happening(0, 10, Some(20)), happening(1, 30, Some(31)), happening(0, 50, Some(60))],
        ..Finished::default()
    };
    all.merge(&Finished {
        to_ns: 90,
        ended: Ended::Unreachable,
        faults: vec![happening(0, 12, Some(25)), happening(0, 49, None), happening(2, 70, None)],
        ..Finished::default()
    });
    assert_eq!((all.to_ns, all.ended), (100, Ended::Unreachable));
    let expected = [
        happening(0, 10, Some(25)),
        happening(1, 30, Some(31)),
        happening(0, 49, None),
        happening(2, 70, None),
    ];
    assert_eq!(all.faults, expected);
}
