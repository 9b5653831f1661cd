//! Tests rare turns of an instance: refused definitions, migrations, retries, and calls that are dropped in flight.

use plimsoll_workflow::file::read;

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
