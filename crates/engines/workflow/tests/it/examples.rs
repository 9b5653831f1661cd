//! Runs the example definitions to their ends.

use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{
    Act, Body, DeadReason, Ended, History, How, Signal, State, Status, TaskStatus, Wait, Work,
};
use plimsoll_workflow::program::Program;
use plimsoll_workflow::step::{Again, Ignored, Input, Outcome, calls};
use serde_json::{Value, json};

use crate::life::Life;

/// The text of an example.
pub fn text(name: &str) -> &'static str {
    match name {
        "signal-round-trip" => include_str!("definitions/signal-round-trip.yaml"),
        "three-steps" => include_str!("definitions/three-steps.yaml"),
        "timer" => include_str!("definitions/timer.yaml"),
        "quotation-confirm" => include_str!("../../../../../workflows/quotation-confirm.yaml"),
        "convert-to-policy" => include_str!("../../../../../workflows/convert-to-policy.yaml"),
        "pdf" => include_str!("../../../../../workflows/pdf.yaml"),
        "quote-cancel" => include_str!("../../../../../workflows/quote-cancel.yaml"),
        "external-resume" => include_str!("../../../../../workflows/external-resume.yaml"),
        other => panic!("no example is named {other}"),
    }
}

/// The names of the examples.
pub const ALL: [&str; 8] = [
    "signal-round-trip",
    "three-steps",
    "timer",
    "quotation-confirm",
    "convert-to-policy",
    "pdf",
    "quote-cancel",
    "external-resume",
];

#[test]
fn every_example_compiles() {
    for name in ALL {
        read(text(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_signal_moves_the_instance_on_and_a_repeated_one_changes_nothing() {
    let mut life = Life::read(text("signal-round-trip"), Value::Null);
    life.answer("noop", Ok(Value::Null));
    let signal = Signal::named("i", "once", "go", Value::Null, 1);
    assert_eq!(life.step(Input::Signal(signal.clone())), Outcome::Applied);
    assert_eq!(life.step(Input::Signal(signal.clone())), Outcome::Ignored(Ignored::Duplicate));
    life.answer("noop", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Done);
    assert_eq!(life.step(Input::Signal(signal)), Outcome::Ignored(Ignored::Duplicate));
    assert_eq!(life.state.due_ms(), None);
}

#[test]
fn a_signal_that_comes_before_its_wait_is_kept() {
    let mut life = Life::read(text("signal-round-trip"), Value::Null);
    assert_eq!(life.named("go", json!(1)), Outcome::Applied);
    life.answer("noop", Ok(Value::Null));
    life.answer("noop", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Done);
    let mut life = Life::read(text("signal-round-trip"), Value::Null);
    assert_eq!(life.named("other", json!(1)), Outcome::Applied);
    assert_eq!(life.send(Body::Cancel { reason: "enough".into() }), Outcome::Applied);
    assert_eq!(life.state.status, Status::Cancelled);
    assert!(matches!(life.state.outbox[0].work, Work::Bury(_)), "a signal that nothing used is not lost");
}

#[test]
fn a_quotation_is_reviewed_confirmed_and_converted() {
    let mut life = Life::read(text("quotation-confirm"), json!({"customer": "c"}));
    life.answer("quote.price", Ok(json!(10)));
    assert_eq!(life.act("ann", Act::Assign { to: "ann".into() }), Outcome::Applied);
    assert_eq!(life.act("bob", Act::Complete { payload: json!({"approved": true}) }), Outcome::Applied);
    assert_eq!(life.act("bob", Act::Reassign { to: "bob".into() }), Outcome::Applied);
    assert_eq!(life.act("bob", Act::Complete { payload: json!({}) }), Outcome::Applied);
    assert_eq!(life.act("bob", Act::Complete { payload: json!({"approved": true}) }), Outcome::Applied);
    let refusals: Vec<_> = life.rows().into_iter().filter_map(|(.., refused)| refused).collect();
    assert_eq!(
        refusals,
        ["the task is assigned to ann: reassign it before bob completes it", "say whether you approve"]
    );
    assert_eq!(life.rows().last().unwrap().0, TaskStatus::Completed);
    life.answer("capacity.reserve", Ok(json!("r")));
    assert_eq!(life.named("confirmed", json!({"by": "c"})), Outcome::Applied);
    let Some(Work::Start(child)) = life.state.outbox.back().map(|effect| &effect.work) else { panic!() };
    assert_eq!(
        (child.definition.as_str(), &child.input),
        ("convert-to-policy", &json!({"customer": "c", "price": 10}))
    );
    let visit = life.visit_of("workflow");
    let ended = Ended { visit, status: Status::Done, data: json!({"number": 7}), error: None };
    assert_eq!(life.send(Body::Ended(ended)), Outcome::Applied);
    assert_eq!(life.status_and("policy"), (Status::Done, json!({"number": 7})));
}

#[test]
fn a_failed_sub_workflow_is_compensated_in_reverse() {
    let mut life =
        Life::read(text("quotation-confirm"), json!({"customer": "c", "review": {"approved": true}}));
    life.answer("quote.price", Ok(json!(10)));
    life.answer("capacity.reserve", Ok(json!("r")));
    life.named("confirmed", Value::Null);
    let visit = life.visit_of("workflow");
    let ended = Ended { visit, status: Status::Failed, data: Value::Null, error: Some("no number".into()) };
    life.send(Body::Ended(ended));
    assert_eq!(life.state.status, Status::Compensating);
    life.answer("capacity.release", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Failed);
    assert_eq!(
        life.state.error.as_deref(),
        Some("the workflow convert-to-policy ended as failed: no number")
    );
}

#[test]
fn a_failed_compensation_parks_until_an_operator_retries() {
    let mut life = Life::read(text("quotation-confirm"), json!({"review": {"approved": true}}));
    life.answer("quote.price", Ok(json!(10)));
    life.answer("capacity.reserve", Ok(json!("r")));
    life.send(Body::Cancel { reason: "enough".into() });
    life.answer("capacity.release", Err(Again::Never));
    assert_eq!(life.state.status, Status::Parked);
    assert_eq!(calls(&life.program, &life.state, u64::MAX), []);
    life.send(Body::Retry);
    life.answer("capacity.release", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Cancelled);
}

#[test]
fn a_call_is_retried_with_the_same_key_after_a_growing_time() {
    let mut life = Life::read(text("three-steps"), Value::Null);
    let (mut keys, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        keys.push(calls(&life.program, &life.state, life.now_ms)[0].key.clone());
        life.answer("noop", Err(Again::Maybe));
        let due = life.state.due_ms().unwrap();
        assert_eq!(calls(&life.program, &life.state, due - 1), []);
        waits.push(due - life.now_ms);
        life.now_ms = due;
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
    assert!(keys[0].starts_with("i/2/"), "{keys:?}");
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
    life.answer("noop", Err(Again::Maybe));
    assert_eq!(life.state.status, Status::Failed);
    assert!(life.state.error.as_ref().unwrap().contains("noop failed in attempt 5: broken"));
}

#[test]
fn the_first_branch_of_a_fork_cancels_the_others() {
    let mut life = Life::read(text("quote-cancel"), Value::Null);
    life.answer("application.find", Ok(json!({"id": 2})));
    let pending = calls(&life.program, &life.state, life.now_ms);
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].input, json!({"id": 2}));
    life.answer("cancel", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Done);
}

#[test]
fn all_branches_of_a_fork_end_and_an_independent_instance_starts() {
    let mut life = Life::read(text("convert-to-policy"), json!({"customer": "c"}));
    life.answer("http://crm.invalid/policies", Err(Again::Never));
    assert_eq!(life.state.status, Status::Running);
    life.answer("policy.number", Ok(json!(7)));
    assert_eq!(life.status_and("number"), (Status::Done, json!(7)));
    let Work::Start(next) = &life.state.outbox[0].work else { panic!() };
    assert_eq!((next.definition.as_str(), &next.input, &next.parent), ("pdf", &json!({"number": 7}), &None));
}

#[test]
fn a_timer_and_a_timeout_fire_at_their_moment() {
    let mut life = Life::read(text("timer"), Value::Null);
    assert_eq!(life.state.due_ms(), Some(2000));
    life.now_ms = 1999;
    assert_eq!(life.step(Input::Due), Outcome::Ignored(Ignored::NotDue));
    life.now_ms = 2000;
    assert_eq!(life.step(Input::Due), Outcome::Applied);
    assert_eq!(life.state.status, Status::Done);

    let mut life = Life::read(text("external-resume"), Value::Null);
    life.answer("outside.ask", Ok(Value::Null));
    life.now_ms += 3_600_000;
    assert_eq!(life.step(Input::Due), Outcome::Applied);
    assert_eq!(life.state.status, Status::Failed);
    assert_eq!(life.state.error.as_deref(), Some("the outside system did not answer"));
}

#[test]
fn a_schedule_starts_an_instance_at_each_moment() {
    let (definition, _) =
        read("name: nightly\nstart: {cron: '0 3 * * *'}\nsteps:\n- service: {function: f}\n").unwrap();
    let schedule = definition.schedule().unwrap();
    let mut life = Life::begin(Program::compile(&schedule).unwrap(), Value::Null);
    for started in 1..=2 {
        life.now_ms = life.state.tokens[0].wait.due_ms(0).unwrap();
        assert_eq!(life.now_ms % 86_400_000, 3 * 3_600_000);
        assert_eq!(life.step(Input::Due), Outcome::Applied);
        assert_eq!(life.state.outbox.len(), started);
    }
}

#[test]
fn an_expression_that_fails_parks_the_instance_with_the_reason() {
    let (_, program) = read("name: a\nsteps:\n- set: {value: '.a.b.c'}\n").unwrap();
    let life = Life::begin(program, json!({"a": 1}));
    assert_eq!(life.state.status, Status::Parked);
    assert!(life.state.error.unwrap().contains("`.a.b.c`"));
}

#[test]
fn a_quarantined_instance_refuses_signals_until_an_operator_frees_it() {
    let mut life = Life::read(text("three-steps"), Value::Null);
    life.state.status = Status::Quarantined;
    assert_eq!(calls(&life.program, &life.state, u64::MAX), []);
    assert_eq!(life.named("go", Value::Null), Outcome::Refused(DeadReason::Quarantined));
    assert_eq!(life.send(Body::Retry), Outcome::Applied);
    life.answer("noop", Ok(Value::Null));
    assert_eq!(life.state.status, Status::Running);
}

#[test]
fn a_signal_to_an_ended_instance_is_refused_with_a_reason() {
    let mut life = Life::read(text("timer"), Value::Null);
    life.now_ms = 2000;
    life.step(Input::Due);
    let outcome = life.named("go", Value::Null);
    assert_eq!(outcome, Outcome::Refused(DeadReason::Ended));
    assert_eq!(life.send(Body::Retry), outcome);
}

#[test]
fn an_instance_migrates_if_the_other_version_has_its_steps() {
    use plimsoll_workflow::step::{migrate, missing};
    let from = read(text("signal-round-trip")).unwrap().1;
    let mut life = Life::read(text("signal-round-trip"), Value::Null);
    life.answer("noop", Ok(Value::Null));
    let (_, longer) = read(
        "name: signal-round-trip\nsteps:\n- timer: {after: 1s}\n- wait: {name: go, signal: go}\n- set: {value: '{new: true}'}\n",
    )
    .unwrap();
    let (_, other) = read("name: signal-round-trip\nsteps:\n- timer: {name: go, after: 1s}\n").unwrap();
    assert_eq!(missing(&from, &other, &life.state), ["go"]);
    assert_eq!(migrate(&from, &other, life.state.clone(), life.now_ms), Err(vec!["go".to_owned()]));
    life.state = migrate(&from, &longer, life.state, life.now_ms).unwrap();
    life.program = longer;
    assert!(matches!(life.state.tokens[0].wait, Wait::Signal { .. }));
    life.named("go", Value::Null);
    assert_eq!(life.status_and("new"), (Status::Done, json!(true)));
}

impl Life {
    /// The path, the length and the end of each visit.
    fn history(&self) -> Vec<(String, Option<u64>, How)> {
        let visits = plimsoll_workflow::explain::history(Some(&self.program), &self.state);
        let visit = |visit: plimsoll_workflow::explain::Visited| {
            let stayed_ms = visit.left_ms.map(|left_ms| left_ms - visit.entered_ms);
            (visit.path.unwrap(), stayed_ms, visit.how)
        };
        visits.into_iter().map(visit).collect()
    }
}

#[track_caller]
fn check_history(life: &Life, wanted: &[(&str, Option<u64>, How)]) {
    let history = life.history();
    let history: Vec<_> =
        history.iter().map(|(path, stayed_ms, how)| (path.as_str(), *stayed_ms, *how)).collect();
    assert_eq!(history, wanted);
}

#[test]
fn the_history_names_each_visit_with_its_length_and_its_end() {
    let mut life = Life::read(text("external-resume"), Value::Null);
    life.now_ms += 5;
    life.answer("outside.ask", Err(Again::Maybe));
    check_history(&life, &[("ask", Some(5), How::Retried), ("ask", None, How::Open)]);
    life.now_ms = life.state.due_ms().unwrap();
    let waited_ms = life.now_ms - 1005;
    life.answer("outside.ask", Ok(Value::Null));
    life.now_ms += 3_600_000;
    life.step(Input::Due);
    let ask = ("ask", Some(waited_ms), How::Done);
    check_history(&life, &[("ask", Some(5), How::Retried), ask, ("answer", Some(3_600_000), How::TimedOut)]);

    let mut life = Life::read(text("quote-cancel"), Value::Null);
    life.answer("application.find", Err(Again::Never));
    check_history(
        &life,
        &[
            ("find", Some(0), How::Cancelled),
            ("find/0/quote", Some(0), How::Cancelled),
            ("find/1/application", Some(0), How::Failed),
        ],
    );

    let mut life = Life::read(text("convert-to-policy"), json!({"customer": "c"}));
    life.answer("http://crm.invalid/policies", Ok(Value::Null));
    life.answer("policy.number", Ok(json!(7)));
    let done = |path| (path, Some(0), How::Done);
    check_history(
        &life,
        &[done("register"), done("register/0/number"), done("register/1/notify"), done("print")],
    );
}

#[test]
fn a_state_of_an_earlier_version_is_read_and_goes_on() {
    let mut life = Life::read(text("signal-round-trip"), Value::Null);
    life.answer("noop", Ok(Value::Null));
    life.state.history = History::default();
    let bytes = life.state.encode().unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("\"h\":"), "as an earlier version wrote it");
    life.state = State::decode(&bytes).unwrap();
    life.named("go", Value::Null);
    check_history(&life, &[("second", None, How::Open)]);
}

#[test]
fn the_history_of_a_round_trip_takes_less_than_50_bytes() {
    let mut life = Life::read(text("signal-round-trip"), Value::Null);
    for ms in [3, 40, 3] {
        life.now_ms += ms;
        if ms == 40 {
            life.named("go", Value::Null);
        } else {
            life.answer("noop", Ok(Value::Null));
        }
    }
    let with = life.state.encode().unwrap().len();
    life.state.history = History::default();
    let without = life.state.encode().unwrap().len();
    println!("a round trip's state has {without} bytes, and {with} with its history");
    assert!(with - without < 50, "{with} {without}");
}

#[test]
fn a_migration_renames_the_nodes_of_the_history() {
    let mut life = Life::read(text("signal-round-trip"), Value::Null);
    life.answer("noop", Ok(Value::Null));
    let text = "name: signal-round-trip\nsteps:\n- timer: {after: 1s}\n- wait: {name: go, signal: go}\n";
    let (_, other) = read(text).unwrap();
    life.state = plimsoll_workflow::step::migrate(&life.program, &other, life.state, life.now_ms).unwrap();
    let nodes: Vec<_> = life.state.history.visits.iter().map(|visit| visit.node).collect();
    assert_eq!(nodes, [None, Some(1)]);
}
