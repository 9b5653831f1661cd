//! Tests runs that the scenario ends early.

use plimsoll_load::arrivals::{Arrivals, Stage};
use plimsoll_load::phase::Phase;
use plimsoll_load::rate_floor::RateFloor;
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::rule::Rule;

use crate::live::{Seen, live};
use crate::scripted::{Script, phase};

const MS: u64 = MILLISECOND_NS;

fn reaching(arrivals: Arrivals, share: f64, length_s: u64) -> Phase {
    let stop = Stop { duration: Some(Span::from_secs(40)), ..Stop::default() };
    let mut phase = phase(arrivals, stop);
    phase.loads[0].documents = plimsoll_load::phase::Documents::Used;
    phase.loads[0].timing.rate_floor = Some(RateFloor { share, window: Span::from_secs(length_s) });
    phase
}

fn constant(rate: f64, connections: u32) -> Arrivals {
    Arrivals::Constant { rate, connections }
}

fn run(phase: Phase, script: Script) -> Seen {
    live(phase, &["a"], &[], script)
}

#[test]
fn a_rate_that_is_not_reached_ends_the_run_with_its_reason() {
    // 500 of 1000 are done each second.
    let script = Script { turn_ns: 2 * MS, ..Script::steady(0) };
    let seen = run(reaching(constant(1000.0, 4), 0.99, 10), script);
    assert_eq!(seen.ended, Ended::NotReached);
    let reason = seen.reason.unwrap();
    assert!(
        reason.starts_with("load load: ") && reason.ends_with("due in 10 s were done, under 99 %"),
        "{reason}"
    );
    // The next operation obeys the stop, and operations in flight end.
    assert!((10 * SECOND_NS..10_010 * MS).contains(&seen.to_ns), "{}", seen.to_ns);
    let it = &seen.operations[0];
    assert!(it.due > 9_990 && it.skipped == 0 && it.achieved.unwrap() < 0.51, "{it:?}");
}

#[test]
fn a_reached_rate_does_not_end_the_run_and_a_lower_share_tolerates_a_stall() {
    let seen = run(reaching(constant(1000.0, 4), 0.99, 10), Script::steady(MS));
    assert_eq!((seen.ended, seen.reason), (Ended::Duration, None));
    // A stall of 0.3 s is made up within the window; a stall of one second at its end is not.
    let stall = |length: u64| Script { frozen: (20_500 * MS, (20_500 + length) * MS), ..Script::steady(MS) };
    assert_eq!(run(reaching(constant(1000.0, 4), 0.99, 10), stall(300)).ended, Ended::Duration);
    assert_eq!(run(reaching(constant(1000.0, 4), 0.99, 10), stall(1000)).ended, Ended::NotReached);
    assert_eq!(run(reaching(constant(1000.0, 4), 0.90, 10), stall(1000)).ended, Ended::Duration);
}

#[test]
fn a_silent_server_is_noticed_although_a_connection_is_free() {
    let script = Script { frozen: (5 * SECOND_NS, 50 * SECOND_NS), ..Script::steady(MS) };
    let seen = run(reaching(constant(1.0, 100), 0.5, 4), script);
    assert_eq!(seen.ended, Ended::NotReached);
    assert_eq!(seen.reason.unwrap(), "load load: 0 of 4 operations due in 4 s were done, under 50 %");
}

#[test]
fn a_ramp_and_a_rare_load_are_compared_with_their_due_operations() {
    let stages =
        vec![Stage { to: 100.0, over: Span::from_secs(30) }, Stage { to: 0.0, over: Span::default() }];
    let ramp = Arrivals::Rates { from: 0.0, stages, connections: 4 };
    assert_eq!(run(reaching(ramp, 1.0, 5), Script::steady(MS)).ended, Ended::Duration);
    assert_eq!(run(reaching(constant(0.05, 1), 1.0, 5), Script::steady(MS)).ended, Ended::Duration);
}

#[test]
fn a_load_is_checked_only_during_its_own_time() {
    // The load begins at 20 s; the server is down for the second half of the load's 20 seconds.
    let mut phase = reaching(constant(100.0, 2), 0.99, 5);
    phase.loads[0].timing.start = Span::from_secs(20);
    phase.loads[0].timing.stop.duration = Some(Span::from_secs(20));
    let calm = run(phase.clone(), Script::steady(MS));
    assert_eq!((calm.ended, calm.operations[0].count), (Ended::Duration, 2000));
    let script = Script { frozen: (30 * SECOND_NS, 39 * SECOND_NS), ..Script::steady(MS) };
    let seen = run(phase, script);
    assert_eq!(seen.ended, Ended::NotReached);
    assert!(seen.to_ns >= 31 * SECOND_NS, "{}", seen.to_ns);
}

#[test]
fn a_threshold_that_breaks_ends_the_run_after_its_delay() {
    let rule = |delay_s| Rule {
        abort_on_fail: true,
        delay_abort_eval: Span::from_secs(delay_s),
        ..Rule::new("p(90)<50")
    };
    let end = |delay_s, script: Script| {
        let mut phase = reaching(constant(100.0, 4), 0.5, 60);
        phase.loads[0].timing.rate_floor = None;
        live(phase, &["a"], &[("http_req_duration", rule(delay_s))], script)
    };
    let slow = Script::steady(70 * MS);
    let seen = end(10, slow);
    assert_eq!((seen.ended, seen.judged[0].held), (Ended::Threshold, false));
    let reason = seen.reason.unwrap();
    assert!(reason.starts_with("http_req_duration p(90)<50 did not hold: "), "{reason}");
    assert!((12 * SECOND_NS..12_100 * MS).contains(&seen.to_ns), "{}", seen.to_ns);
    assert!((2 * SECOND_NS..2_100 * MS).contains(&end(0, slow).to_ns));
    let fast = end(0, Script::steady(MS));
    assert_eq!((fast.ended, fast.judged[0].held, fast.reason), (Ended::Duration, true, None));
}
