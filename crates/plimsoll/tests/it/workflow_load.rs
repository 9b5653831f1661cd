//! Tests the workflow engine under load: on MongoDB and PostgreSQL, with faults, and with a store that loses an instance.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use bson::rawdoc;
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::Value;

use crate::faults::wait_for;
use crate::program::{guarded, json, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};

/// A scenario with the section's settings, the loads of one phase, and its end.
fn written(dir: &Path, section: &str, loads: &[(&str, &str)], rest: &str) -> String {
    let mut text = format!("title: t\nworkflow: {{{section}}}\nphases:\n  - load:\n");
    for (name, load) in loads {
        writeln!(text, "      {name}: {{{load}}}").unwrap();
    }
    scenario(dir, &(text + rest)).to_str().unwrap().to_owned()
}

/// Runs a file or a shipped scenario to its end, with its own database on the shared server.
fn run(name: &str, database: &str, more: &[&str]) -> Output {
    let database = format!("workflow.database=workflow_test_{database}");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let args = ["run", name, "--json", "--set", &database, "--out", out.to_str().unwrap()];
    plimsoll().args(args).args(more).output().unwrap()
}

fn on_shared(name: &str, database: &str) -> Value {
    let output = run(name, database, &["--server", &shared()]);
    assert_eq!(output.status.code(), Some(0), "{} {}", stderr(&output), stdout(&output));
    json(&output)
}

/// Checks that all of `count` instances ended and that nothing is left.
#[track_caller]
fn check_whole(summary: &Value, count: u64) {
    let (integrity, work) = (&summary["integrity"], &summary["workflow"]);
    assert_eq!(
        (&integrity["proof"], &integrity["acknowledged"]),
        (&"proven".into(), &count.into()),
        "{integrity}"
    );
    for kind in ["lost", "phantom", "duplicated", "corrupted"] {
        assert_eq!(integrity[kind], 0, "{kind}: {integrity}");
    }
    assert_eq!((&work["dead_letters"], &work["stuck"]), (&0.into(), &0.into()), "{work}");
    assert!(work["drain_s"].is_number(), "{work}");
}

/// Checks the figures of 64 round trips.
fn check_round_trips(summary: &Value) {
    check_whole(summary, 64);
    let work = &summary["workflow"];
    assert_eq!((&work["started"], &work["signals"]), (&64.into(), &64.into()), "{work}");
    for part in ["start_ns", "publish_ns", "signal_to_completion_ns"] {
        assert_eq!(work[part]["count"], 64, "{part}: {work}");
    }
    let items = |call: &str| work["calls"][call]["items"].as_u64().unwrap();
    assert_eq!((items("start"), items("publish")), (64, 64), "{work}");
    assert!(items("commit") >= 128, "a step before the wait, and one after: {work}");
    assert_eq!(summary["operations"]["round_trip"]["count"], 64);
}

#[test]
fn round_trips_on_mongodb_are_timed_counted_and_proven() {
    let summary = on_shared("mongo-signal-roundtrip-capacity-c4", "c4");
    check_round_trips(&summary);
    let inserted = summary["workflow"]["database"]["inserts"].as_u64().unwrap();
    assert!(inserted > 0, "{summary}");
    assert_eq!(summary["workflow"]["store"], "mongodb");
}

#[test]
fn round_trips_on_postgresql_are_timed_counted_and_proven() {
    let output = run("postgres-signal-roundtrip-capacity-c4", "unused", &[]);
    assert_eq!(output.status.code(), Some(0), "{} {}", stderr(&output), stdout(&output));
    let summary = json(&output);
    assert_eq!(summary["workflow"]["store"], "postgres");
    // The statement that commits a change also removes its signals.
    let work = &summary["workflow"];
    assert_eq!((&work["started"], &work["signals"]), (&64.into(), &64.into()), "{work}");
    check_whole(&summary, 64);
    assert!(summary["server"]["product"].as_str().unwrap().starts_with("PostgreSQL "), "{summary}");
}

#[test]
fn every_unit_runs_to_its_end_beside_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let each = "arrivals: {closed: {writers: 2}}, stop: {operations: 6}";
    let load = |unit: &str| format!("unit: {unit}, {each}");
    let units = [
        ("steps", load("steps")),
        ("timer", load("timer")),
        ("early", load("out_of_order")),
        ("start", load("start")),
        ("hot", load("{signal: {receivers: 1}}")),
        ("late", load("{signal: {receivers: 3, delay: 300ms}}")),
        ("cancel", load("{definition: quote-or-apl-cancel}")),
        ("confirm", load("{definition: quotation-confirm}")),
        ("resume", load("{definition: external-resume}")),
    ];
    let loads: Vec<_> = units.iter().map(|(name, load)| (*name, load.as_str())).collect();
    let file = written(dir.path(), "workers: 2", &loads, "    stop: {duration: 60s}\n");
    let summary = on_shared(&file, "units");
    for (name, _) in &units {
        assert_eq!(summary["operations"][*name]["count"], 6, "{name}: {summary}");
    }
    check_whole(&summary, 9 * 6);
    let at_least = |name: &str, ms: u64| {
        let fastest = summary["operations"][name]["response_ns"]["mean"].as_f64().unwrap();
        assert!(fastest >= ms as f64 * 1e6, "{name}: {fastest}");
    };
    at_least("timer", 1_000);
    at_least("late", 300);
}

#[test]
fn a_backlog_is_built_before_the_workers_begin_and_then_drained() {
    let dir = tempfile::tempdir().unwrap();
    let load = [("start", "unit: start, arrivals: {closed: {writers: 8}}")];
    let file = written(dir.path(), "begin: after_load", &load, "    stop: {operations: 200}\n");
    let summary = on_shared(&file, "backlog");
    assert_eq!(summary["workflow"]["backlog"], 200, "{summary}");
    check_whole(&summary, 200);
}

#[test]
fn the_control_arm_claims_each_signal_and_commits_each_change_in_a_transaction() {
    let output = run(
        "mongo-signal-roundtrip-capacity-c4",
        "transactions",
        &["--server", &shared(), "--set", "workflow.mode=transactions"],
    );
    assert_eq!(output.status.code(), Some(0), "{} {}", stderr(&output), stdout(&output));
    let summary = json(&output);
    check_whole(&summary, 64);
    let calls = &summary["workflow"]["calls"];
    for (call, count) in [("start", 64), ("publish", 64), ("claim", 64)] {
        assert_eq!((&calls[call]["calls"], &calls[call]["items"]), (&count.into(), &count.into()), "{calls}");
    }
    assert_eq!(calls["commit"]["calls"], calls["commit"]["items"], "{calls}");
}

/// Kills the store twice under load, and restarts it.
fn killed(section: &str, more: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let load = [("round_trip", "unit: round_trip, arrivals: {closed: {writers: 4}}")];
    let rest = "    stop: {duration: 11s}\n    faults:\n      - {at: 1s, every: 5s, times: 2, inject: {kill: {down: 200ms}}}\n\
                timeout: 5s\nunreachable_for: 60s\nexpect: {round_trip.errors: ['rate<0.9']}\n";
    let file = written(dir.path(), section, &load, rest);
    let output = run(&file, "killed", more);
    assert_eq!(output.status.code(), Some(0), "{} {}", stderr(&output), stdout(&output));
    let summary = json(&output);
    let (integrity, kills) = (&summary["integrity"], summary["faults"].as_array().unwrap());
    assert_eq!((kills.len(), &integrity["proof"]), (2, &"proven".into()), "{summary}");
    assert!(kills.iter().all(|kill| kill["error"].is_null()), "{kills:?}");
    assert!(kills[1]["first_success_s"].is_number(), "{kills:?}");
    for kind in ["lost", "phantom", "duplicated", "corrupted"] {
        assert_eq!(integrity[kind], 0, "{kind}: {integrity}");
    }
    assert!(integrity["acknowledged"].as_u64().unwrap() > 10, "{integrity}");
    assert!(summary["workflow"]["failures"].as_u64().unwrap() > 0, "{summary}");
    summary
}

#[test]
fn a_killed_mongodb_loses_no_acknowledged_instance_and_no_signal() {
    killed("store: mongodb", &["--server", "embedded"]);
}

#[test]
fn a_killed_postgresql_loses_no_acknowledged_instance_and_no_signal() {
    killed("store: postgres", &[]);
}

fn start(file: &str, database: &str, out: &Path) -> Child {
    let database = format!("workflow.database={database}");
    let args =
        ["run", file, "--json", "--server", &shared(), "--set", &database, "--out", out.to_str().unwrap()];
    plimsoll().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Removes one ended instance from the store, without the engine.
fn remove_one(database: &str) {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reply = runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        let delete =
            rawdoc! {"delete": "instances", "deletes": [{"q": {"s": "done"}, "limit": 1}], "writeConcern": {"w": 1}};
        connection.command(database, &delete).await.unwrap()
    });
    assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply:?}");
}

/// The engine reaches the store through a proxy.
#[test]
fn a_network_fault_keeps_the_user_of_the_address() {
    let (dir, server) = (tempfile::tempdir().unwrap(), guarded());
    let load = [("round_trip", "unit: round_trip, arrivals: {closed: {writers: 2}}")];
    let rest = "    stop: {duration: 2s}\n    faults: [{at: 500ms, inject: {network: {lasts: 500ms, how: {delay: {by: 1ms, direction: both}}}}}]\n";
    let file = written(dir.path(), "store: mongodb", &load, rest);
    let uri = format!("mongodb://ann:right@{}/?directConnection=true&appName=shop", server.address());
    let output = run(&file, "behind", &["--server", &uri]);
    assert_eq!(output.status.code(), Some(0), "{} {}", stderr(&output), stdout(&output));
    let summary = json(&output);
    assert_eq!(summary["integrity"]["proof"], "proven", "{summary}");
    assert!(summary["faults"][0]["error"].is_null() && summary["faults"][0]["name"].is_string(), "{summary}");
}

#[test]
fn an_instance_that_the_store_lost_ends_the_run_with_4() {
    let (dir, database) = (tempfile::tempdir().unwrap(), "workflow_test_lost");
    let out = dir.path().join("run");
    let load = [("round_trip", "unit: round_trip, arrivals: {closed: {writers: 2}}")];
    let file = written(dir.path(), "", &load, "    stop: {duration: 4s}\n");
    let running = start(&file, database, &out);
    wait_for(&out, r#""event":"interval""#, 1);
    remove_one(database);
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let summary = json(&output);
    assert_eq!(summary["integrity"]["lost"], 1, "{summary}");
    assert!(summary["integrity"]["examples"][0].as_str().unwrap().contains("is missing"), "{summary}");
}

#[test]
fn a_store_with_instances_of_others_is_refused_unless_the_scenario_appends() {
    let dir = tempfile::tempdir().unwrap();
    let load = [("steps", "unit: steps, arrivals: {closed: {writers: 1}}")];
    let file = written(dir.path(), "", &load, "    stop: {operations: 3}\n");
    let server = shared();
    let again = |more: &[&str]| run(&file, "again", &[&["--server", &server], more].concat());
    assert_eq!(again(&[]).status.code(), Some(0));
    let refused = again(&[]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("`workflow.database`"), "{}", stderr(&refused));
    let appended = again(&["--set", "existing=append"]);
    assert_eq!(appended.status.code(), Some(0), "{}", stderr(&appended));
    let integrity = &json(&appended)["integrity"];
    assert_eq!((&integrity["found"], &integrity["foreign"]), (&3.into(), &3.into()), "{integrity}");
}

#[test]
fn a_section_that_contradicts_itself_is_refused_before_anything_starts() {
    for (set, part) in [
        ("workflow.workers=0", "workflow.workers: 0: write a number from 1"),
        ("workflow.postgres=postgres://h", "the store is MongoDB"),
        ("existing=drop", "never dropped"),
        ("retry=driver", "remove `retry`"),
        ("phases.0.load.round_trip.unit={definition: nothing}", "quotation-confirm"),
        ("workflow.stor=postgres", "did you mean `store`?"),
    ] {
        let refused = plimsoll_with(&["run", "workflow-roundtrip", "--dry-run", "--set", set]);
        assert_eq!(refused.status.code(), Some(2), "{set}: {}", stdout(&refused));
        assert!(stderr(&refused).contains(part), "{set}: {}", stderr(&refused));
    }
}

#[test]
fn an_address_with_a_weaker_write_concern_than_that_of_the_store_is_refused() {
    for option in ["w=1", "journal=false", "w=majority&journal=false"] {
        let uri = format!("mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=1&{option}");
        for more in [&["--dry-run"][..], &[]] {
            let args = [&["run", "workflow-roundtrip", "--server", &uri], more].concat();
            let refused = plimsoll_with(&args);
            let said = stderr(&refused);
            assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""), "{args:?}: {said}");
            assert!(said.contains("remove `w` and `journal` from the address"), "{args:?}: {said}");
        }
    }
    let stronger = "mongodb://127.0.0.1:9/?w=majority&journal=true";
    let accepted = plimsoll_with(&["run", "workflow-roundtrip", "--dry-run", "--server", stronger]);
    assert_eq!(accepted.status.code(), Some(0), "{}", stderr(&accepted));
}

#[test]
fn the_summary_shows_the_parts_of_an_operation_and_the_calls_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let args =
        ["run", "mongo-signal-roundtrip-capacity-c1", "--server", &shared(), "--out", out.to_str().unwrap()];
    let output =
        plimsoll().args(args).args(["--set", "workflow.database=workflow_test_shown"]).output().unwrap();
    let text = stdout(&output);
    for part in
        ["Parts of an operation", "signal to completion", "drain overhang", "Calls of the store", "stuck"]
    {
        assert!(text.contains(part), "{part}: {text} {}", stderr(&output));
    }
}

#[test]
fn batches_and_transactions_are_compared_in_turns() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("ab");
    let (side, stop) = ("set workflow.mode=transactions", "phases.0.stop={operations: 20}");
    let args = ["ab", "workflow-roundtrip", "--b", side, "--set", stop, "--pairs", "8", "--json"];
    let output = plimsoll().args(args).args(["--out", out.to_str().unwrap()]).output().unwrap();
    // The verdict depends on the machine; 99 means that B is worse.
    assert!(matches!(output.status.code(), Some(0 | 99)), "{}", stderr(&output));
    let run = |name: &str| std::fs::read_to_string(out.join(name).join("run.json")).unwrap();
    let mode = |name| serde_json::from_str::<Value>(&run(name)).unwrap()["workflow"]["mode"].clone();
    assert_eq!((mode("001-a"), mode("001-b")), ("batches".into(), "transactions".into()));
}

#[test]
fn the_suite_has_every_tier_on_both_stores_and_a_pattern_chooses_one() {
    let listed = |more: &[&str]| {
        let output =
            plimsoll_with(&[&["suite", "workflow-tiers", "--repetitions", "1", "--list"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let all = listed(&[]);
    assert!(
        all.contains("mongo-signal-roundtrip-soak") && all.contains("postgres-signal-roundtrip-soak"),
        "{all}"
    );
    let smoke = listed(&["--only", "*-smoke"]);
    assert!(smoke.contains("postgres-immediate-burst-smoke") && !smoke.contains("soak"), "{smoke}");
}
