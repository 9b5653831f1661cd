//! Tests rare turns of an instance: refused definitions, migrations, retries, and calls that are dropped in flight.

use plimsoll_workflow::audit::violations;
use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{Body, Ended, StartRequest, Status, Wait, Work};
use plimsoll_workflow::step::Outcome;
use serde_json::Value;

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
    let starts = life.state.outbox.iter().filter_map(|effect| match &effect.work {
        Work::Start(request) => Some(request),
        _ => None,
    });
    starts.last().unwrap()
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
