//! Tests every executor in k6's form, and its meaning.

use super::typed::NAMES;
use super::*;

fn read(json: &str) -> Result<Typed, serde_json::Error> {
    serde_json::from_str(json)
}

fn check(json: &str, arrivals: Arrivals, stop: Stop) {
    let typed = read(json).unwrap();
    assert_eq!(typed.resolve(), ResolvedExecutor { arrivals, stop }, "{json}");
    let again = read(&serde_json::to_string(&typed).unwrap()).unwrap();
    assert_eq!(again, typed, "{json}");
}

fn lasting(seconds: u64) -> Stop {
    Stop { duration: Some(Span::from_secs(seconds)), ..Stop::default() }
}

fn stage<T>(to: T, over_s: u64) -> Stage<T> {
    Stage { to, over: Span::from_secs(over_s) }
}

#[test]
fn closed_executors_are_closed_arrivals() {
    let closed = |writers| Arrivals::Closed { writers };
    check(r#"{"constant-vus": {"vus": 10, "duration": "1h2m3s"}}"#, closed(10), lasting(3723));
    check(r#"{"constant-vus": {"duration": 30000}}"#, closed(1), lasting(30));
    check(
        r#"{"per-vu-iterations": {"vus": 5, "iterations": 20, "maxDuration": "30s"}}"#,
        closed(5),
        Stop { operations_each: Some(20), ..lasting(30) },
    );
    check(
        r#"{"shared-iterations": {"vus": 5, "iterations": 200}}"#,
        closed(5),
        Stop { operations: Some(200), ..lasting(600) },
    );
    check(r#"{"per-vu-iterations": {}}"#, closed(1), Stop { operations_each: Some(1), ..lasting(600) });
}

#[test]
fn ramping_vus_are_writers_until_the_last_stage_ends() {
    check(
        r#"{"ramping-vus": {"startVUs": 0, "stages": [{"duration": "20s", "target": 10}, {"duration": "10s", "target": 0}],
            "gracefulRampDown": "0s"}}"#,
        Arrivals::Writers { from: 0, stages: vec![stage(10, 20), stage(0, 10)] },
        lasting(30),
    );
    check(
        r#"{"ramping-vus": {"stages": [{"duration": "5s", "target": 3}]}}"#,
        Arrivals::Writers { from: 1, stages: vec![stage(3, 5)] },
        lasting(5),
    );
}

#[test]
fn arrival_rates_count_in_their_time_unit() {
    check(
        r#"{"constant-arrival-rate": {"rate": 30, "timeUnit": "1m", "duration": "5m", "preAllocatedVUs": 2, "maxVUs": 50}}"#,
        Arrivals::Constant { rate: 0.5, connections: 50 },
        lasting(300),
    );
    check(
        r#"{"constant-arrival-rate": {"rate": 1000, "duration": "30s", "preAllocatedVUs": 20}}"#,
        Arrivals::Constant { rate: 1000.0, connections: 20 },
        lasting(30),
    );
    check(
        r#"{"ramping-arrival-rate": {"startRate": 300, "timeUnit": "1m", "preAllocatedVUs": 5,
            "stages": [{"target": 600, "duration": "2m"}, {"target": 60, "duration": "0s"}, {"target": 60, "duration": "1m"}]}}"#,
        Arrivals::Rates {
            from: 5.0,
            stages: vec![stage(10.0, 120), stage(1.0, 0), stage(1.0, 60)],
            connections: 5,
        },
        lasting(180),
    );
}

#[test]
fn plimsolls_own_form_is_unchanged() {
    check(r#"{"closed": {"writers": 2}}"#, Arrivals::Closed { writers: 2 }, Stop::default());
    check(
        r#"{"constant": {"rate": 5.0}}"#,
        Arrivals::Constant { rate: 5.0, connections: CONNECTIONS_DEFAULT },
        Stop::default(),
    );
}

#[test]
fn the_names_are_those_of_both_forms() {
    let listed = |error: serde_json::Error| {
        let text = error.to_string();
        let (_, list) = text.split_once("expected one of ").unwrap();
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let ours = listed(serde_json::from_str::<Arrivals>(r#"{"none": 1}"#).unwrap_err());
    let theirs = listed(serde_json::from_str::<Executor>(r#"{"none": 1}"#).unwrap_err());
    assert_eq!([ours, theirs].concat(), NAMES);
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    for (json, part) in [
        (r#"{"constant-rate": {}}"#, "unknown variant `constant-rate`, expected one of `closed`"),
        (
            r#"{"constant-vus": {"vu": 1, "duration": "1s"}}"#,
            "unknown field `vu`, expected `vus` or `duration`",
        ),
        (r#"{"constant-vus": {"vus": 1}}"#, "missing field `duration`"),
        (r#"{"constant-vus": {"vus": 1, "duration": "soon"}}"#, "invalid duration `soon`"),
        (r#"{"closed": {"writer": 1}}"#, "unknown field `writer`"),
        (
            r#"{"constant-arrival-rate": {"rate": 5, "timeUnit": "0s", "duration": "1s"}}"#,
            "timeUnit: 0 is invalid: write for example 1s",
        ),
        (r#"{"ramping-arrival-rate": {"timeUnit": 0, "stages": []}}"#, "timeUnit: 0"),
    ] {
        let message = read(json).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}
