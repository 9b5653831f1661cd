//! Tests one load over several independent servers.

use serde_json::Value;

use crate::program::{guarded, impatient, inserts, json, plimsoll_with, scenario, shared, stderr};

/// Runs a scenario over embedded servers.
fn run(text: &str, words: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), text);
    let out = dir.path().join("run");
    let mut args = vec!["run", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"];
    args.extend(words);
    json(&plimsoll_with(&args))
}

fn numbers(run: &Value, key: &str) -> Vec<u64> {
    run["spread"].as_array().unwrap().iter().map(|share| share[key].as_u64().unwrap()).collect()
}

#[test]
fn four_servers_have_even_shares_and_every_document_is_found_once() {
    let text = inserts("hosts", 10, "{operations: 4_000}");
    let run = run(&text, &["--server", "embedded:relaxed", "--count", "4"]);
    let operations = numbers(&run, "operations");
    assert_eq!(operations.len(), 4, "{}", run["spread"]);
    assert!(operations.iter().all(|count| count.abs_diff(1_000) <= 10), "{operations:?}");
    assert_eq!(numbers(&run, "documents").iter().sum::<u64>(), 40_000);
    assert_eq!(run["server"]["addresses"].as_array().unwrap().len(), 4);
    let integrity = &run["integrity"];
    assert_eq!((&integrity["found"], &integrity["lost"]), (&40_000.into(), &0.into()), "{integrity}");
    assert_eq!(integrity["duplicated"], 0);
    assert_eq!(run["verdict"], "pass", "{}", run["reasons"]);
}

#[test]
fn a_killed_server_is_named_skipped_and_audited_after_its_restart() {
    let text = impatient(&inserts("killed", 10, "{duration: 5s}")).replace(
        "    stop: {duration: 5s}\n",
        "    stop: {duration: 5s}\n    faults: [{at: 1s, server: 2, inject: {kill: {down: 60s}}}]\n",
    );
    let run = run(&text, &["--server", "embedded", "--count", "3"]);
    let unavailable: Vec<_> =
        run["spread"].as_array().unwrap().iter().map(|share| !share["away"].is_null()).collect();
    assert_eq!(unavailable, [false, false, true], "{}", run["spread"]);
    let (operations, skipped) = (numbers(&run, "operations"), numbers(&run, "passed_over"));
    assert!(operations[2] < operations[0] && operations[2] < operations[1], "{operations:?}");
    assert!(skipped[2] > 0 && skipped[0] == 0, "{skipped:?}");
    assert_eq!(run["faults"][0]["name"], "kill");
    assert!(run["faults"][0]["outage_s"].as_f64().unwrap() < 1.0, "the others continue: {}", run["faults"]);
    assert_eq!((&run["integrity"]["proof"], &run["integrity"]["lost"]), (&"proven".into(), &0.into()));
    assert_eq!(run["interrupted"], false);
}

#[test]
fn servers_count_as_protected_if_one_needs_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("half_open", 10, "{documents: 1_000}"));
    let out = dir.path().join("run");
    let server = guarded();
    let hosts = format!("{},mongodb://ann:right@{}/?directConnection=true", shared(), server.address());
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let output = plimsoll_with(&["run", file, "--hosts", &hosts, "--out", out, "--json"]);
    let run = json(&output);
    assert_eq!((&run["integrity"]["found"], &run["server"]["open"]), (&1_000.into(), &false.into()));
    let refused = plimsoll_with(&["audit", out]);
    assert!(stderr(&refused).contains("needed a user or TLS"), "{}", stderr(&refused));
    let audited = plimsoll_with(&["audit", out, "--hosts", &hosts, "--json"]);
    assert_eq!(json(&audited)["found"], 1_000, "{}", stderr(&audited));
}

#[test]
fn a_dead_host_is_named_before_any_load() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("dead", 10, "{documents: 10}"));
    let live = shared().trim_start_matches("mongodb://").split('/').next().unwrap().to_owned();
    let hosts = format!("{live},127.0.0.1:1");
    let out = dir.path().join("run");
    let output = plimsoll_with(&[
        "run",
        file.to_str().unwrap(),
        "--hosts",
        &hosts,
        "--out",
        out.to_str().unwrap(),
        "--quiet",
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("127.0.0.1:1 refused the connection"), "{}", stderr(&output));
    assert!(!out.exists());
}

#[test]
fn unsupported_options_of_several_servers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = inserts("several", 10, "{documents: 10}");
    let find = "  - load:\n      find: {operation: {find: {}}, arrivals: {closed: {writers: 1}}}\n    stop: {operations: 5}\n";
    for (text, words, part) in [
        (format!("{good}{find}"), vec!["--hosts", "a:1,b:2"], "the server that has one is unknown"),
        (format!("{good}retry: once\n"), vec!["--hosts", "a:1,b:2"], "use retry: none"),
        (format!("{good}client: driver\n"), vec!["--hosts", "a:1,b:2"], "use client: lean"),
        (good.clone(), vec!["--hosts", "a:1,a:1"], "a:1 is named twice"),
        (good.clone(), vec!["--hosts", "a:1,b:2", "--server", "embedded"], "leave out --server"),
        (good.clone(), vec!["--server", "mongod", "--count", "3"], "--count starts embedded servers"),
    ] {
        let file = scenario(dir.path(), &text);
        let mut args = vec!["run", file.to_str().unwrap(), "--quiet"];
        args.extend(words);
        let output = plimsoll_with(&args);
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
}
