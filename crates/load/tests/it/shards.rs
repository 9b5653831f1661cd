//! Shards of one plan, added up, against one run: equal in every counter and every histogram.

use std::sync::{Arc, Mutex};

use plimsoll_load::arrivals::{Arrivals, Share, Stage};
use plimsoll_load::engine::{Collector, Finished, Second};
use plimsoll_load::fault::Happening;
use plimsoll_load::mix::By;
use plimsoll_load::objective::Objective;
use plimsoll_load::phase::{Documents, Overdue, Phase, Timing};
use plimsoll_load::retry::Retry;
use plimsoll_load::runtime::Simulated;
use plimsoll_load::stop::Stop;
use plimsoll_load::summary::Summary;
use plimsoll_load::think::{Random, Think};
use plimsoll_load::worker::{self, Control, Ended, Order, Supply};
use plimsoll_measure::clock::{Instant, MILLISECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::expectation::{self, Wanted};
use plimsoll_measure::metric::Subject;
use plimsoll_measure::rule::Rule;

use crate::scripted::{Script, Scripted, phase};

const MS: u64 = MILLISECOND_NS;
/// Shards that a plan is tried with.
const SHARDS: [u64; 4] = [1, 2, 3, 5];
const NAMES: [&str; 2] = ["insert", "find"];

/// What a process has of a phase: all of it, or a shard's part.
#[derive(Debug, PartialEq)]
struct Measured {
    seconds: Vec<Second>,
    ended: Ended,
    to_ns: u64,
}

/// How a plan is shared.
#[derive(Clone, Copy, Debug)]
struct Plan<'a> {
    phase: &'a Phase,
    script: Script,
    shards: u64,
    /// Workers of each shard.
    crew: u64,
}

/// The operations of a phase that are counted.
fn operations(phase: &Phase) -> usize {
    let used = phase.loads.iter().flat_map(|load| &load.mix).map(|(operation, _)| operation + 1);
    used.max().unwrap()
}

/// Runs some of a plan's workers on a virtual clock, as one process does, each with a server of its own.
fn process(plan: Plan<'_>, workers: std::ops::Range<u64>) -> Measured {
    let Plan { phase, script, .. } = plan;
    let (world, crew, counted) = (Simulated::default(), workers.clone().count(), operations(phase));
    let shares: Vec<_> = workers.map(|index| Share { index, of: plan.shards * plan.crew }).collect();
    let phase = Arc::new(phase.clone());
    let supply = Arc::new(Supply::shared(&phase, shares.iter().copied()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (inside, sink) = (world.clone(), told.clone());
    let ends = world.run(async move {
        let work = shares.into_iter().enumerate().map(|(index, share)| {
            let target = Scripted::new(&inside, script);
            let (supply, start) = (supply.clone(), Instant::default());
            let order = Order { phase: phase.clone(), operations: counted, share, start, supply };
            let sink = sink.clone();
            worker::run(inside.clone(), target, Vec::new(), order, Control::default(), move |slice| {
                sink.lock().unwrap().push((index, slice));
            })
        });
        let ends = futures_util::future::join_all(work).await;
        ends.into_iter().map(|end| (end.ended, end.to_ns)).collect::<Vec<_>>()
    });
    let mut collector = Collector::new(crew);
    let mut seconds = Vec::new();
    for (worker, slice) in std::mem::take(&mut *told.lock().unwrap()) {
        collector.add(worker, slice);
        while let Some(second) = collector.complete() {
            seconds.push(second);
        }
    }
    seconds.extend(collector.finish());
    let ended = ends.iter().map(|(ended, _)| *ended).max().unwrap();
    Measured { seconds, ended, to_ns: ends.iter().map(|(_, to_ns)| *to_ns).max().unwrap() }
}

/// The whole plan in one process of as many workers as all shards have together.
fn whole(plan: Plan<'_>) -> Measured {
    process(plan, 0..plan.shards * plan.crew)
}

fn shards(plan: Plan<'_>) -> Vec<Measured> {
    (0..plan.shards).map(|index| process(plan, index * plan.crew..(index + 1) * plan.crew)).collect()
}

/// A second as it comes from a file.
fn read_back(second: &Second) -> Second {
    serde_json::from_str(&serde_json::to_string(second).unwrap()).unwrap()
}

/// Adds the shards up as they come from their files: through their text, one second of each after the other.
fn merged(plan: Plan<'_>) -> Measured {
    let shards = shards(plan);
    let mut collector = Collector::of(&vec![plan.crew as usize; shards.len()]);
    let (mut seconds, mut finished) = (Vec::new(), Finished::default());
    let mut left: Vec<_> =
        shards.iter().map(|shard| shard.seconds.iter().map(read_back).peekable()).collect();
    while left.iter_mut().any(|seconds| seconds.peek().is_some()) {
        for (number, seconds) in left.iter_mut().enumerate() {
            match seconds.next() {
                Some(second) => collector.add(number, second),
                None => collector.end(number),
            }
            seconds.next_if(Second::is_rest).into_iter().for_each(|rest| collector.add(number, rest));
        }
        while let Some(second) = collector.complete() {
            seconds.push(second);
        }
    }
    seconds.extend(collector.finish());
    for shard in &shards {
        finished.merge(&Finished { to_ns: shard.to_ns, ended: shard.ended, ..Finished::default() });
    }
    Measured { seconds, ended: finished.ended, to_ns: finished.to_ns }
}

/// What a run says of it.
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

/// Every number of shards adds up to one run, second by second and in what is said of it.
#[track_caller]
fn check(what: &str, phase: &Phase, script: Script) {
    SHARDS.into_iter().for_each(|shards| check_one(what, Plan { phase, script, shards, crew: 1 }));
}

#[track_caller]
fn check_one(what: &str, plan: Plan<'_>) {
    let (whole, merged) = (whole(plan), merged(plan));
    let what = format!("{what}, {} shards", plan.shards);
    let completed: u64 = whole.seconds.iter().flat_map(|it| &it.tallies).map(|it| it.completed()).sum();
    assert!(completed > 20, "{what}: {completed} operations show nothing");
    assert_eq!(merged.seconds.len(), whole.seconds.len(), "{what}");
    for (at, (merged, whole)) in merged.seconds.iter().zip(&whole.seconds).enumerate() {
        assert!(merged == whole, "{what}: second {at}\n{merged:?}\n{whole:?}");
    }
    assert_eq!((merged.ended, merged.to_ns), (whole.ended, whole.to_ns), "{what}");
    assert_eq!(summary(plan.phase, &merged), summary(plan.phase, &whole), "{what}");
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
fn it_makes_no_difference_how_many_workers_a_shard_has() {
    for arrivals in models() {
        let phase = phase(arrivals.clone(), lasting(1_350));
        let plan = Plan { phase: &phase, script: Script::steady(30 * MS), shards: 2, crew: 3 };
        check_one(&arrivals.describe(), plan);
    }
}

#[test]
fn shards_add_up_where_the_server_cannot_keep_up_or_is_away() {
    let slow = Script { turn_ns: 60 * MS, ..Script::steady(20 * MS) };
    let frozen = Script { frozen: (300 * MS, 900 * MS), ..Script::steady(30 * MS) };
    let away = Script { down: (500 * MS, 900 * MS), ..Script::steady(30 * MS) };
    for (arrivals, script) in
        models().into_iter().flat_map(|it| [slow, frozen, away].map(|script| (it.clone(), script)))
    {
        let what = format!("{}, {script:?}", arrivals.describe());
        let mut phase = phase(arrivals, lasting(1_100));
        phase.drain = Span::from_ns(500 * MS);
        check_one(&what, Plan { phase: &phase, script, shards: 3, crew: 1 });
        phase.retry = Retry::Once;
        phase.loads[0].overdue = Overdue::Skip { after: Span::from_ns(200 * MS) };
        check_one(&what, Plan { phase: &phase, script, shards: 5, crew: 1 });
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
            let plan = Plan { phase: &phase, script: Script::steady(10 * MS), shards: 3, crew: 1 };
            check_one(&format!("{}, {stop:?}", arrivals.describe()), plan);
        }
    }
    let each = Stop { operations_each: Some(7), ..Stop::default() };
    check("7 operations each", &phase(Arrivals::Closed { writers: 10 }, each), Script::steady(20 * MS));
}

#[test]
fn shards_of_loads_side_by_side_add_up_with_each_of_their_parts() {
    let mut beside = phase(Arrivals::Poisson { rate: 100.0, connections: 10 }, lasting(1_350));
    let think = Think::Random(Random::Exponential { mean: Span::from_ns(40 * MS) });
    for (name, mix, mix_by, arrivals) in [
        ("mixed", vec![(0, 3.0), (1, 1.0)], By::Count, Arrivals::Constant { rate: 90.0, connections: 10 }),
        ("timed", vec![(0, 1.0), (1, 1.0)], By::Time, Arrivals::Closed { writers: 10 }),
    ] {
        let mut load = beside.loads[0].arriving(arrivals);
        (load.name, load.mix, load.mix_by) = (name.into(), mix, mix_by);
        let think = (!load.arrivals.is_open()).then_some(think);
        load.timing = Timing { start: Span::from_ns(250 * MS), think, ..Timing::default() };
        beside.loads.push(load);
    }
    check("three loads", &beside, Script::steady(20 * MS));
}

/// Fewer connections than workers leave some of them without a share; shards of them are empty, and count.
#[test]
fn a_shard_without_a_connection_adds_nothing() {
    check("2 writers", &phase(Arrivals::Closed { writers: 2 }, lasting(1_100)), Script::steady(20 * MS));
    let constant = Arrivals::Constant { rate: 100.0, connections: 1 };
    check("one connection", &phase(constant, lasting(1_100)), Script::steady(MS));
}

/// The one thing that no shard can know: that the others have sent their documents. What goes on beside them until then
/// ends with the documents of its own process. The documents themselves are exact.
#[test]
fn what_lasts_until_the_documents_are_sent_lasts_until_those_of_its_own_shard_are() {
    let mut beside = phase(Arrivals::Closed { writers: 2 }, Stop { documents: Some(100), ..Stop::default() });
    let mut readers = beside.loads[0].arriving(Arrivals::Closed { writers: 12 });
    (readers.name, readers.mix, readers.documents) = ("readers".into(), vec![(1, 1.0)], Documents::Used);
    beside.loads.push(readers);
    let count = |measured: &Measured, operation: usize| -> u64 {
        measured.seconds.iter().filter_map(|it| it.tallies.get(operation)).map(|it| it.count).sum()
    };
    let plan = Plan { phase: &beside, script: Script::steady(5 * MS), shards: 3, crew: 1 };
    let (whole, merged) = (whole(plan), merged(plan));
    assert_eq!((count(&whole, 0), count(&merged, 0)), (100, 100));
    assert!(count(&whole, 1) > 0 && count(&whole, 1) != count(&merged, 1), "or the comment is out of date");
}

#[test]
fn a_fault_of_all_shards_lasts_from_the_first_beginning_to_the_last_end() {
    let happening = |fault, from_ns, to_ns| Happening { fault, from_ns, to_ns, error: None };
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
