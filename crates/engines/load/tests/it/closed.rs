//! Tests writers with think times, and loads that begin later or end earlier than their phase.

use plimsoll_load::arrivals::{Arrivals, Share, Stage};
use plimsoll_load::engine::Second;
use plimsoll_load::phase::{Documents, Phase, Timing};
use plimsoll_load::stop::Stop;
use plimsoll_load::think::{Random, Think};
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::duration::Span;

use crate::live::live;
use crate::processes::{Plan, whole};
use crate::scripted::{Script, phase, simulate, simulate_all, simulate_with};

const MS: u64 = MILLISECOND_NS;

fn lasting(seconds: u64) -> Stop {
    Stop { duration: Some(Span::from_secs(seconds)), ..Stop::default() }
}

fn closed(writers: u32) -> Arrivals {
    Arrivals::Closed { writers }
}

/// Parallel loads, each with its own operation.
fn parallel_loads(loads: &[(Arrivals, Timing)], stop: Stop) -> Phase {
    let mut parallel_loads = phase(closed(1), stop);
    let usual = parallel_loads.loads.remove(0);
    for (operation, (arrivals, timing)) in loads.iter().enumerate() {
        let mut load = usual.arriving(arrivals.clone());
        (load.timing, load.mix, load.documents) = (*timing, vec![(operation, 1.0)], Documents::Used);
        load.name = format!("load {operation}");
        parallel_loads.loads.push(load);
    }
    parallel_loads
}

#[test]
fn think_time_is_part_of_no_latency() {
    let timing = Timing { think: Some(Think::Constant(Span::from_ns(400 * MS))), ..Timing::default() };
    let seen =
        live(parallel_loads(&[(closed(1), timing)], lasting(3)), &["a"], &[], Script::steady(100 * MS));
    assert_eq!(seen.sent_ms(0), [0, 500, 1000, 1500, 2000, 2500]);
    let max = seen.operations[0].response_ns.max.unwrap();
    assert!(max.abs_diff(100 * MS) <= MS, "{max}");
    assert_eq!((seen.ended, seen.to_ns), (Ended::Duration, 3 * SECOND_NS));
}

#[test]
fn an_operation_that_ends_at_a_second_s_start_counts_there_although_it_is_recorded_before_the_report() {
    let phase = parallel_loads(&[(closed(1), Timing::default())], lasting(5));
    let script = Script::steady(2 * SECOND_NS);
    let seconds = whole(Plan { phase: &phase, script, shards: 1, workers_per_shard: 1 }).seconds;
    let count = |second: &Second| {
        second.tallies.iter().for_each(|tally| assert_eq!(tally.due, tally.count));
        second.tallies.iter().map(|tally| tally.count).sum::<u64>()
    };
    let ended = seconds.iter().filter(|it| count(it) > 0).map(|it| (it.from_ns / SECOND_NS, count(it)));
    // The last interval is reported after the last operation, at 6 s.
    assert_eq!(ended.collect::<Vec<_>>(), [(2, 1), (4, 1), (5, 1)]);
}

/// Checks a closed writer's longest response, service, wait and wake time in milliseconds, if the server is down for a while.
#[track_caller]
fn check_outage(arrivals: Arrivals, timing: Timing, down_ms: (u64, u64), expected_ms: [u64; 4]) {
    let script = Script { down: (down_ms.0 * MS, down_ms.1 * MS), ..Script::steady(10 * MS) };
    let whole = simulate(parallel_loads(&[(arrivals, timing)], lasting(6)), script, Share::WHOLE).whole;
    assert_eq!((whole.errors.total(), whole.errors.unknown()), (1, 1));
    let longest_ns = [&whole.response, &whole.service, &whole.wait, &whole.wake].map(|it| it.max());
    for (ns, expected_ns) in longest_ns.iter().zip(expected_ms.map(|ms| ms * MS)) {
        assert!(ns.abs_diff(expected_ns) <= expected_ns / 1000 + 1, "{longest_ns:?} {expected_ms:?}");
    }
}

#[test]
fn a_reconnect_is_a_wait_of_the_next_operation() {
    // The connection breaks at 1.0 s. After attempts at 1.0, 1.01, 1.03, 1.07, 1.15, 1.25 s … the one at 3.05 s succeeds.
    check_outage(closed(1), Timing::default(), (1000, 3000), [2060, 10, 2050, 0]);
}

#[test]
fn a_reconnect_within_a_pause_is_no_wait() {
    let timing = Timing { think: Some(Think::Constant(Span::from_ns(400 * MS))), ..Timing::default() };
    // The connection breaks at 1.24 s, so the next operation is due at 1.64 s. The attempts at 1.31 s and 3.09 s succeed.
    check_outage(closed(1), timing, (1235, 1300), [10, 10, 0, 0]);
    check_outage(closed(1), timing, (1235, 3000), [1460, 10, 1450, 0]);
}

#[test]
fn a_reconnect_between_two_shifts_is_no_wait() {
    let stage = |to, seconds| Stage { to, over: Span::from_secs(seconds) };
    // The writer works for two seconds, rests for two, and works again.
    let stages = vec![stage(1, 2), stage(0, 0), stage(0, 2), stage(1, 0), stage(1, 2)];
    let arrivals = Arrivals::Writers { from: 1, stages };
    // The connection breaks at 1.5 s. The attempt at 4.25 s succeeds.
    check_outage(arrivals, Timing::default(), (1500, 4200), [260, 10, 250, 0]);
}

#[test]
fn percentiles_with_failures_exist_only_if_some_operation_failed() {
    let operation = |script| {
        let phase = parallel_loads(&[(closed(1), Timing::default())], lasting(6));
        live(phase, &["a"], &[], script).operations.remove(0)
    };
    assert_eq!(operation(Script::steady(10 * MS)).response_with_failures_ns, None);
    let failed = operation(Script { down: (1000 * MS, 3000 * MS), ..Script::steady(10 * MS) });
    let all = failed.response_with_failures_ns.unwrap();
    assert_eq!((all.count, all.p50, all.max), (failed.count + 1, failed.response_ns.p50, None));
}

#[test]
fn a_random_pause_follows_from_the_seed_and_differs_from_writer_to_writer() {
    let think = Think::Random(Random::Exponential { mean: Span::from_ns(200 * MS) });
    let timing = Timing { think: Some(think), ..Timing::default() };
    let moments = |seed| {
        let mut phase = parallel_loads(&[(closed(2), timing)], lasting(20));
        phase.seed = seed;
        live(phase, &["a"], &[], Script::steady(MS)).sent_ms(0)
    };
    assert_eq!(moments(1), moments(1));
    assert_ne!(moments(1), moments(2));
    // Two writers, one operation each 201 ms on average.
    assert!((170..=230).contains(&moments(1).len()), "seed 1: {}", moments(1).len());
    assert!(moments(1).windows(2).filter(|pair| pair[0] == pair[1]).count() < 10);
}

#[test]
fn the_last_operation_or_a_stop_ends_all_pauses() {
    let timing = Timing { think: Some(Think::Constant(Span::from_secs(3600))), ..Timing::default() };
    let mut phase = parallel_loads(&[(closed(3), timing)], Stop { operations: Some(3), ..Stop::default() });
    phase.loads[0].documents = Documents::Used;
    let outcome = simulate(phase, Script::steady(MS), Share::WHOLE);
    // All operations are taken: no writer waits out the hour.
    assert_eq!((outcome.ended, outcome.whole.count), (Ended::Operations, 3));
    assert!(outcome.to_ns <= 102 * MS, "{}", outcome.to_ns);
    let phase = parallel_loads(&[(closed(3), timing)], lasting(7200));
    let stop_at = Some(Instant::from_ns(1_500 * MS));
    let outcome = simulate_with(phase, Script::steady(MS), Share::WHOLE, Control::default(), stop_at);
    assert_eq!((outcome.ended, outcome.whole.count), (Ended::Interrupted, 3));
    assert!(outcome.to_ns <= 1_601 * MS, "{}", outcome.to_ns);
}

#[test]
fn loads_begin_and_end_at_their_own_times() {
    let own = |start_ms: u64, stop| Timing { start: Span::from_ns(start_ms * MS), stop, ..Timing::default() };
    let loads = [
        (closed(1), own(0, lasting(1))),
        (Arrivals::Constant { rate: 10.0, connections: 1 }, own(500, lasting(2))),
        (closed(1), own(2250, Stop { operations: Some(3), ..Stop::default() })),
        (Arrivals::Constant { rate: 2.0, connections: 1 }, own(0, Stop::default())),
    ];
    let seen = live(parallel_loads(&loads, lasting(4)), &["a", "b", "c", "d"], &[], Script::steady(50 * MS));
    assert_eq!(seen.sent_ms(0), (0..20).map(|it| it * 50).collect::<Vec<_>>());
    assert_eq!(seen.sent_ms(1), (0..20).map(|it| 500 + it * 100).collect::<Vec<_>>());
    assert_eq!(seen.sent_ms(2), [2250, 2300, 2350]);
    assert_eq!(seen.sent_ms(3), (0..8).map(|it| it * 500).collect::<Vec<_>>());
    let achieved: Vec<_> = seen.operations.iter().map(|it| it.achieved).collect();
    assert_eq!(achieved, [None, Some(1.0), None, Some(1.0)]);
    // A load's rate is its operations divided by the time of that load, not of the phase.
    assert_eq!((seen.operations[0].rate_per_s, seen.operations[1].rate_per_s), (20.0, 10.0));
    assert_eq!((seen.ended, seen.to_ns), (Ended::Operations, 3_550 * MS));
}

#[test]
fn a_phase_without_a_stop_ends_with_its_last_load() {
    let own = |stop| Timing { stop, ..Timing::default() };
    let loads = [(closed(1), own(lasting(1))), (closed(1), own(lasting(3)))];
    let seen = live(parallel_loads(&loads, Stop::default()), &["a", "b"], &[], Script::steady(100 * MS));
    assert_eq!((seen.operations[0].count, seen.operations[1].count, seen.to_ns), (10, 30, 3 * SECOND_NS));
}

#[test]
fn writers_are_numbered_over_all_workers() {
    // Seven writers over three workers: each has its own number, 4 operations, and shifts that follow from
    // its number.
    let each = Timing { stop: Stop { operations_each: Some(4), ..Stop::default() }, ..Timing::default() };
    let (tallies, ends) =
        simulate_all(parallel_loads(&[(closed(7), each)], Stop::default()), Script::steady(MS), 3, 1);
    assert_eq!((tallies[0].count, ends.len()), (28, 3));
    let stage = Stage { to: 7, over: Span::from_secs(7) };
    let writers = Arrivals::Writers { from: 0, stages: vec![stage] };
    let phase = parallel_loads(&[(writers, Timing::default())], lasting(8));
    let (tallies, _) = simulate_all(phase, Script::steady(100 * MS), 3, 1);
    // Writer w begins after w + 1 seconds and continues to the eighth: 7 + 6 + … + 1 seconds of ten
    // operations.
    assert_eq!(tallies[0].count, 280);
}

#[test]
fn an_operation_of_two_loads_is_counted_once_and_selected_by_tag() {
    let mut phase = parallel_loads(
        &[
            (Arrivals::Constant { rate: 10.0, connections: 1 }, Timing::default()),
            (Arrivals::Constant { rate: 30.0, connections: 1 }, Timing::default()),
        ],
        lasting(2),
    );
    phase.loads[1].mix = vec![(0, 1.0)];
    let rule = |text: &str| plimsoll_measure::rule::Rule::new(text);
    let rules = [
        ("operations", rule("count==80")),
        ("operations{load:load 0}", rule("count==20")),
        ("operations{load:load 1}", rule("count==60")),
        ("operations{load:load 1}", rule("rate>29")),
        ("achieved{load:load 0}", rule("value==1")),
    ];
    let seen = live(phase, &["a"], &rules, Script::steady(MS));
    assert_eq!(seen.operations[0].count, 80);
    for judged in seen.judged {
        assert!(judged.held, "{} {}: {:?}", judged.metric, judged.expression, judged.value);
    }
}
