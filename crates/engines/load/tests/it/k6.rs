//! Tests k6's six executors, written as in its scripts.

use plimsoll_load::k6::Typed;
use plimsoll_load::phase::{Documents, Phase};
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};

use crate::live::{Seen, live};
use crate::scripted::{Script, phase};

const MS: u64 = MILLISECOND_NS;

fn executor(json: &str) -> Phase {
    let resolved = serde_json::from_str::<Typed>(json).unwrap().resolve();
    let mut phase = phase(resolved.arrivals, Stop::default());
    phase.loads[0].timing.stop = resolved.stop;
    phase.loads[0].documents = Documents::Used;
    phase
}

fn run(json: &str, script: Script) -> Seen {
    live(executor(json), &["a"], &[], script)
}

#[test]
fn constant_vus_send_one_after_the_other_for_their_time() {
    let seen = run(r#"{"constant-vus": {"vus": 3, "duration": "2s"}}"#, Script::steady(100 * MS));
    assert_eq!((seen.ended, seen.to_ns, seen.operations[0].count), (Ended::Duration, 2 * SECOND_NS, 60));
}

#[test]
fn ramping_vus_start_and_stop_and_each_finishes_its_operation() {
    let json = r#"{"ramping-vus": {"startVUs": 0, "gracefulRampDown": "0s",
        "stages": [{"target": 2, "duration": "2s"}, {"target": 2, "duration": "1s"}, {"target": 0, "duration": "2s"}]}}"#;
    let seen = run(json, Script::steady(300 * MS));
    assert_eq!(seen.ended, Ended::Duration);
    // The first writer works from 1 s to 5 s and the second from 2 s to 4 s, each in operations of 0.3 s.
    let first = (0..).map(|it| 1000 + it * 300).take_while(|at| *at < 5000);
    let second = (0..).map(|it| 2000 + it * 300).take_while(|at| *at < 4000);
    let mut expected: Vec<u64> = first.chain(second).collect();
    expected.sort_unstable();
    assert_eq!(seen.sent_ms(0), expected);
    assert_eq!(seen.operations[0].count, 14 + 7);
    // The last operation of the first writer begins at 4.9 s.
    assert_eq!(seen.to_ns, 5_200 * MS);
}

#[test]
fn per_vu_iterations_give_each_writer_its_own_number() {
    // The server works on one operation at a time: no writer may take over the operations of another.
    let script = Script { turn_ns: 10 * MS, ..Script::steady(0) };
    let seen = run(r#"{"per-vu-iterations": {"vus": 5, "iterations": 20, "maxDuration": "30s"}}"#, script);
    assert_eq!((seen.ended, seen.operations[0].count, seen.to_ns), (Ended::Operations, 100, SECOND_NS));
    let script = Script::steady(100 * MS);
    let seen = run(r#"{"per-vu-iterations": {"vus": 5, "iterations": 20, "maxDuration": "1s"}}"#, script);
    assert_eq!((seen.ended, seen.operations[0].count, seen.to_ns), (Ended::Duration, 50, SECOND_NS));
}

#[test]
fn shared_iterations_count_for_all_writers() {
    let seen = run(r#"{"shared-iterations": {"vus": 7, "iterations": 100}}"#, Script::steady(10 * MS));
    assert_eq!((seen.ended, seen.operations[0].count), (Ended::Operations, 100));
    assert_eq!(seen.to_ns, 150 * MS);
}

#[test]
fn a_constant_arrival_rate_ticks_evenly_in_its_time_unit() {
    let json = r#"{"constant-arrival-rate": {"rate": 120, "timeUnit": "1m", "duration": "5s", "preAllocatedVUs": 2}}"#;
    let seen = run(json, Script::steady(MS));
    assert_eq!(seen.sent_ms(0), (0..10).map(|it| it * 500).collect::<Vec<_>>());
    assert_eq!((seen.operations[0].due, seen.operations[0].skipped), (10, 0));
}

#[test]
fn an_arrival_without_a_free_vu_is_sent_late_and_counts_from_its_due_time() {
    let json = r#"{"constant-arrival-rate": {"rate": 100, "duration": "1s", "preAllocatedVUs": 1}}"#;
    let seen = run(json, Script::steady(20 * MS));
    let it = &seen.operations[0];
    assert_eq!((it.count, it.due, it.skipped, seen.to_ns), (100, 100, 0, 2 * SECOND_NS));
    // The last operation is due at 0.99 s and done at 2 s; the server took 20 ms for it.
    let (response, service) = (it.response_ns.max.unwrap(), it.service_ns.max.unwrap());
    assert!(
        response.abs_diff(1_010 * MS) <= MS && service.abs_diff(20 * MS) < MS / 10,
        "{response} {service}"
    );
}

#[test]
fn a_ramping_arrival_rate_ticks_where_the_integral_says() {
    let json = r#"{"ramping-arrival-rate": {"startRate": 0, "timeUnit": "1s", "preAllocatedVUs": 4,
        "stages": [{"target": 8, "duration": "2s"}, {"target": 8, "duration": "1s"}, {"target": 0, "duration": "2s"}]}}"#;
    let seen = run(json, Script::steady(MS));
    let expected: Vec<u64> = (0..24)
        .map(|number| {
            let n = f64::from(number);
            let seconds = match number {
                0..=8 => (n / 2.0).sqrt(),
                9..=16 => 2.0 + (n - 8.0) / 8.0,
                _ => 5.0 - ((24.0 - n) / 2.0).sqrt(),
            };
            (seconds * 1e9).round() as u64 / MS
        })
        .collect();
    assert_eq!(seen.sent_ms(0), expected);
    assert_eq!((seen.ended, seen.operations[0].achieved), (Ended::Duration, Some(1.0)));
}
