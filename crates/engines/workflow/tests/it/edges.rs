//! Tests rare turns of an instance: refused definitions, migrations, retries, and calls that are dropped in flight.

use plimsoll_workflow::audit::violations;
use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{
    Act, Body, DeadReason, Ended, KEPT_MAX, StartRequest, Status, TaskRow, TaskStatus, Wait, Work,
};
use plimsoll_workflow::step::{Again, Input, Outcome, calls, migrate};
use serde_json::{Value, json};

use crate::life::Life;

#[track_caller]
fn refused(text: &str, words: &str) {
    let error = read(text).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_repetition_whose_fork_ends_without_a_wait_is_refused() {
    let text = |join| {
        format!(
            "name: a\nsteps:\n- repeat:\n    steps:\n    - fork:\n        join: {join}\n        branches: [[{{wait: {{signal: go}}}}], [{{set: {{value: .}}}}]]\n"
        )
    };
    refused(&text("any"), "the repetition never waits and never ends");
    read(&text("all")).unwrap();
}

#[test]
fn two_steps_with_the_same_path_are_refused() {
    refused(
        "name: a\nsteps:\n- timer: {name: wait-1, after: 1s}\n- wait: {signal: go}\n",
        "line 4, column 3: a second step has the path `wait-1`",
    );
}

const PARENT: &str = "name: a\nsteps:\n- workflow: {definition: c, on_failure: park}\n";

fn child_of(life: &Life) -> &StartRequest {
    let mut starts = life.state.outbox.iter().filter_map(|effect| match &effect.work {
        Work::Start(request) => Some(request),
        _ => None,
    });
    starts.next_back().unwrap()
}

#[test]
fn a_retry_starts_a_failed_sub_workflow_again() {
    let mut life = Life::read(PARENT, Value::Null);
    let (first, visit) = (child_of(&life).id.clone(), life.visit_of("workflow"));
    let ended =
        |visit, status| Body::Ended(Ended { visit, status, data: Value::Null, error: Some("no".into()) });
    life.send(ended(visit, Status::Failed));
    assert_eq!((life.state.status, violations(&life.state)), (Status::Parked, Vec::new()));
    assert!(life.state.tokens.iter().all(|token| token.wait != Wait::Child), "no child is waited for");
    assert_eq!(life.send(Body::Retry), Outcome::Applied);
    assert_ne!(child_of(&life).id, first, "another visit, another child");
    let visit = life.visit_of("workflow");
    life.send(ended(visit, Status::Done));
    assert_eq!(life.state.status, Status::Done);
}

#[test]
fn a_migration_delivers_a_kept_signal() {
    let mut life = Life::read("name: a\nsteps:\n- wait: {name: pay, signal: payed}\n", Value::Null);
    assert_eq!(life.named("paid", json!(1)), Outcome::Applied);
    let (_, to) =
        read("name: a\nsteps:\n- wait: {name: pay, signal: paid, result: p}\n- wait: {signal: go}\n")
            .unwrap();
    life.state = migrate(&life.program, &to, life.state, life.now_ms).unwrap();
    life.program = to;
    assert_eq!((&life.state.data["p"], life.state.kept.len()), (&json!(1), 0));
    life.named("go", Value::Null);
    assert_eq!(life.state.status, Status::Done);
}

#[test]
fn a_migration_changes_the_timeout_of_a_waiting_step() {
    let text = |timeout: &str| format!("name: a\nsteps:\n- wait: {{name: w, signal: go{timeout}}}\n");
    let mut life = Life::read(&text(""), Value::Null);
    let entered_ms = life.now_ms;
    life.now_ms += 10_000;
    for (timeout, due_ms) in [
        (", timeout: 1m", Some(entered_ms + 60_000)),
        (", timeout: 1m, on_timeout: continue", Some(entered_ms + 60_000)),
        (", timeout: 2m", Some(entered_ms + 120_000)),
        ("", None),
        (", timeout: 5s", Some(entered_ms + 5_000)),
    ] {
        let (_, to) = read(&text(timeout)).unwrap();
        life.state = migrate(&life.program, &to, life.state, life.now_ms).unwrap();
        life.program = to;
        assert_eq!(life.state.due_ms(), due_ms, "{timeout}");
    }
    // The time of the new timeout is over already.
    life.step(Input::Due);
    assert_eq!(life.state.status, Status::Failed);
}

fn rows(life: &Life) -> Vec<&TaskRow> {
    let rows = life.state.outbox.iter().filter_map(|effect| match &effect.work {
        Work::Task(row) => Some(row),
        _ => None,
    });
    rows.collect()
}

#[test]
fn a_migration_writes_the_row_of_an_open_task() {
    let mut life = Life::read("name: a\nsteps:\n- task: {name: t, roles: [x]}\n", Value::Null);
    let (_, to) = read("name: a\nsteps:\n- task: {name: t, roles: ['y']}\n").unwrap();
    life.state = migrate(&life.program, &to, life.state, life.now_ms).unwrap();
    let last = rows(&life).last().copied().unwrap();
    assert_eq!((&last.roles[..], last.status), (&["y".to_owned()][..], TaskStatus::Open));
}

const RESERVE: &str = "service: {function: reserve, timeout: 5s, retries: {attempts: 1}, compensate: {service: {function: release}}}";

fn names(life: &Life) -> Vec<String> {
    calls(&life.program, &life.state, life.now_ms).iter().map(|call| call.target.to_string()).collect()
}

#[test]
fn a_call_that_is_cancelled_in_flight_is_compensated_after_its_limit() {
    let mut life = Life::read(&format!("name: a\nsteps:\n- {RESERVE}\n"), Value::Null);
    assert_eq!(names(&life), ["reserve"]);
    life.send(Body::Cancel { reason: "enough".into() });
    // The call may still be on its way: its compensation must not overtake it.
    assert_eq!((names(&life), life.state.due_ms()), (Vec::new(), Some(life.now_ms + 5_000)));
    life.now_ms += 5_000;
    life.step(Input::Due);
    life.answer("release", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Cancelled);
}

#[test]
fn a_call_that_another_branch_drops_is_compensated() {
    let text = format!(
        "name: a\nsteps:\n- fork:\n    branches:\n    - - {RESERVE}\n    - - service: {{function: other}}\n"
    );
    let mut life = Life::read(&text, Value::Null);
    life.answer("other", Err(Again::Never));
    assert_eq!(life.state.status, Status::Compensating);
    life.now_ms += 5_000;
    life.step(Input::Due);
    life.answer("release", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Failed);
}

#[test]
fn a_call_whose_last_answer_is_missing_or_unusable_is_compensated_and_a_refused_one_is_not() {
    let text = format!("name: a\nsteps:\n- {RESERVE}\n");
    for again in [Again::Maybe, Again::Unusable] {
        let mut life = Life::read(&text, Value::Null);
        life.answer("reserve", Err(again));
        life.answer("release", Ok(Value::Null));
        assert_eq!(life.state.status, Status::Failed);
    }
    let mut life = Life::read(&text, Value::Null);
    life.answer("reserve", Err(Again::Never));
    assert_eq!(life.state.status, Status::Failed);
}

#[test]
fn a_call_that_never_began_is_not_compensated() {
    let text =
        format!("name: a\nsteps:\n- fork:\n    branches:\n    - - {RESERVE}\n    - - fail: {{error: no}}\n");
    assert_eq!(Life::read(&text, Value::Null).state.status, Status::Failed);
}

#[test]
fn a_retry_leaves_the_backoff_of_other_branches() {
    let slow = "retries: {attempts: 5, backoff: 1h, backoff_max: 1h}";
    let text = format!(
        "name: a\nsteps:\n- fork:\n    branches:\n    - - service: {{function: slow, {slow}}}\n    - - service: {{function: parks, on_failure: park}}\n"
    );
    let mut life = Life::read(&text, Value::Null);
    life.answer("slow", Err(Again::Maybe));
    life.answer("parks", Err(Again::Never));
    assert_eq!(life.state.status, Status::Parked);
    life.send(Body::Retry);
    assert_eq!(names(&life), ["parks"]);
}

#[test]
fn a_task_keeps_the_payload_of_its_opening() {
    let mut life = Life::read(
        "name: a\nsteps:\n- fork:\n    branches:\n    - - task: {payload: '.n'}\n    - - wait: {signal: go}\n      - set: {value: '{n: 2}'}\n      - wait: {signal: never}\n",
        json!({"n": 1}),
    );
    life.named("go", Value::Null);
    assert_eq!(life.state.data["n"], json!(2));
    life.act("ann", Act::Assign { to: "ann".into() });
    let payloads: Vec<_> = rows(&life).iter().map(|row| row.payload.clone()).collect();
    assert_eq!(payloads, [json!(1), json!(1)]);
}

#[test]
fn kept_signals_are_limited_in_bytes() {
    let mut life = Life::read("name: a\nsteps:\n- wait: {signal: go}\n", Value::Null);
    let large = Value::from("x".repeat(1 << 20));
    let outcomes: Vec<_> = (0..9).map(|_| life.named("other", large.clone())).collect();
    assert_eq!(outcomes[0], Outcome::Applied);
    assert_eq!(outcomes[8], Outcome::Refused(DeadReason::Full));
    assert!(life.state.encode().unwrap().len() < 4 << 20);
    // Small ones are limited in number.
    let mut life = Life::read("name: a\nsteps:\n- wait: {signal: go}\n", Value::Null);
    for _ in 0..KEPT_MAX {
        assert_eq!(life.named("other", Value::Null), Outcome::Applied);
    }
    assert_eq!(life.named("other", Value::Null), Outcome::Refused(DeadReason::Full));
}

#[test]
fn headers_of_the_engine_and_invalid_ones_are_refused() {
    let text =
        |header: &str| format!("name: a\nsteps:\n- http: {{url: 'http://h/', headers: {{{header}}}}}\n");
    for name in ["Host", "content-length", "Transfer-Encoding", "Idempotency-Key", "connection"] {
        refused(&text(&format!("{name}: x")), &format!("the engine writes the header `{name}` itself"));
    }
    refused(&text("'a b': x"), "the header `a b` is invalid");
    for url in ["http://h:0/", "http://ann@h/", "https://"] {
        refused(&format!("name: a\nsteps:\n- http: {{url: '{url}'}}\n"), "line 3, column 10: `");
    }
    refused(&text(r#"x: "a\r\nb: c""#), "the header `x` is invalid");
    read(&text("Authorization: '${crm}'")).unwrap();
}
