//! Tests loads over HTTP: against a running service, and against one that the run starts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use plimsoll_http::NullServer;
use plimsoll_http::null::Options;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{json, plimsoll, plimsoll_with, scenario, shared, stderr};

/// A closed load of writes, with one document in each request.
pub fn text(more: &str) -> String {
    format!(
        "title: test\nhttp: {{url: \"http://127.0.0.1:1\"}}\nphases:\n  - load:\n      write:\n        \
         request: {{post: \"/things/{{n}}\", with: {{n: {{$sequence: {{}}}}}}, body: {{n: {{$number: {{}}}}}}, check: {{status: 200}}}}\n        \
         arrivals: {{closed: {{writers: 2}}}}\n{more}"
    )
}

fn run(dir: &Path, text: &str, server: &str, args: &[&str]) -> Value {
    let file = scenario(dir, text);
    let out = dir.join("run");
    let fixed = ["run", file.to_str().unwrap(), "--json", "--out", out.to_str().unwrap(), "--server", server];
    let output = plimsoll_with(&[&fixed[..], args].concat());
    json(&output)
}

#[test]
fn every_document_is_one_request_and_every_answer_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options::default()).unwrap();
    let url = format!("http://{}", server.address());
    let before = server.answered();
    let run = run(dir.path(), &text("    stop: {documents: 500}\n"), &url, &[]);
    assert_ne!(run["verdict"], "fail", "{run}");
    assert_eq!(run["operations"]["write"]["count"], 500);
    assert_eq!(run["answers"][0]["statuses"]["200"], 500);
    assert_eq!(run["answers"][0]["checks"][0]["passed"], 500);
    assert_eq!(run["integrity"], Value::Null, "a service proves nothing");
    assert!(server.answered() - before >= 500, "the null server answered them");
}

#[test]
fn requests_in_flight_at_the_end_are_awaited_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options { delay: Duration::from_secs(1), ..Options::default() }).unwrap();
    let url = format!("http://{}", server.address());
    let constant = "constant: {rate: 20, connections: 30}";
    let text = text("    stop: {duration: 3s}\n").replace("closed: {writers: 2}", constant);
    let run = run(dir.path(), &text, &url, &[]);
    let write = &run["operations"]["write"];
    assert!(write["count"].as_u64().is_some_and(|count| count >= 59), "{write}");
    assert_eq!(write["achieved"], 1.0, "{write}");
    assert!(!run["reasons"].to_string().contains("were completed"), "{}", run["reasons"]);
}

#[test]
fn a_check_that_fails_is_an_error_of_its_operation() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options { status: 503, ..Options::default() }).unwrap();
    let url = format!("http://{}", server.address());
    let text = text("    stop: {documents: 50}\nexpect: {write.errors: [\"count==0\"]}\n");
    let run = run(dir.path(), &text, &url, &[]);
    assert_eq!(run["verdict"], "fail", "{run}");
    assert_eq!(run["operations"]["write"]["count"], 0);
    assert_eq!(run["answers"][0]["checks"][0]["failed"], 50);
}

/// A constant load of writes, with a few parallel reads.
fn two_loads(line: &str) -> String {
    let read = "      read:\n        request: {get: /things, check: {status: 200}}\n        \
                arrivals: {constant: {rate: 50, connections: 4}}\n";
    text(&format!(
        "{read}    stop: {{duration: 2s}}\nline: {{objective: {{response: [\"med<1s\"]}}, start: 200{line}}}\n"
    ))
}

#[test]
fn the_line_of_one_load_is_searched_during_another_load() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options::default()).unwrap();
    let (file, out) = (scenario(dir.path(), &two_loads(", load: write")), dir.path().join("run"));
    let url = format!("http://{}", server.address());
    let args = ["line", file.to_str().unwrap(), "--server", &url, "--json", "--out", out.to_str().unwrap()];
    let mut child = plimsoll().args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // A complete search takes minutes. One attempt shows the searched load; the engine's own tests cover the
    // rest.
    let events = || std::fs::read_to_string(out.join("events.ndjson")).unwrap_or_default();
    while !events().contains("\"event\":\"probed\"") {
        assert!(child.try_wait().unwrap().is_none(), "the search ended before its first attempt");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let run = json(&output);
    let line = &run["line"];
    assert_eq!((&line["load"], &line["unit"]), (&"write".into(), &"requests/s".into()), "{run}");
    assert_eq!(line["background"], serde_json::json!(["read (constant 50/s over 4 connections)"]));
    let first = &line["probes"][0];
    assert_eq!(first["rate"], 200.0, "{line}");
    // The rate excludes the reads: with them it would be 250.
    let achieved = first["achieved"].as_f64().unwrap();
    assert!((50.0..225.0).contains(&achieved), "{line}");
    assert!(
        run["operations"]["read"]["count"].as_u64() > Some(500),
        "the reads continued all the time: {run}"
    );
    assert!(run["conclusions"].to_string().contains("Background load: read"), "{run}");
}

#[test]
fn a_search_over_several_loads_needs_the_name_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &two_loads(""));
    for command in ["line", "ladder"] {
        let output = plimsoll_with(&[command, file.to_str().unwrap(), "--server", "http://127.0.0.1:1"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("several loads (read, write)") && said.contains("line.load=read"), "{said}");
    }
}

#[test]
fn a_ladder_works_for_a_service_as_for_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options::default()).unwrap();
    let file = scenario(dir.path(), &text("    stop: {duration: 2s}\nline: {start: 200}\n"));
    let out = dir.path().join("run");
    let url = format!("http://{}", server.address());
    let output = plimsoll_with(&[
        "ladder",
        file.to_str().unwrap(),
        "--server",
        &url,
        "--writers",
        "1,2",
        "--step",
        "2",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ]);
    let run = json(&output);
    assert_eq!(run["ladder"]["rungs"].as_array().unwrap().len(), 2, "{run}");
    assert!(run["ladder"]["rungs"][0]["throughput"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_ladder_of_one_load_excludes_the_other() {
    let dir = tempfile::tempdir().unwrap();
    // An answer takes 100 ms: one writer sends ten a second, and the reads would add fifty.
    let options = Options { delay: Duration::from_millis(100), ..Options::default() };
    let server = NullServer::start(&options).unwrap();
    let (file, out) = (scenario(dir.path(), &two_loads(", load: write")), dir.path().join("run"));
    let url = format!("http://{}", server.address());
    let fixed =
        ["ladder", file.to_str().unwrap(), "--server", &url, "--json", "--out", out.to_str().unwrap()];
    let run = json(&plimsoll_with(&[&fixed[..], &["--writers", "1", "--step", "2"]].concat()));
    let reached = run["ladder"]["rungs"][0]["throughput"].as_f64().unwrap();
    assert!((1.0..=11.0).contains(&reached), "{run}");
    assert!(run["operations"]["read"]["count"].as_u64() > Some(0), "{run}");
}

#[test]
fn a_run_without_a_success_fails() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options { status: 503, ..Options::default() }).unwrap();
    let url = format!("http://{}", server.address());
    let run = run(dir.path(), &text("    stop: {documents: 50}\n"), &url, &[]);
    assert_eq!(run["verdict"], "fail", "{run}");
    assert!(run["reasons"].to_string().contains("write: no operation succeeded"), "{run}");
}

const STAGED: &str = "title: test\nhttp: {}\nservice:\n  telemetry:\n    \
    settings: {database: {name: DATABASE}}\n    \
    fill: {sensors: 20, over: 10m, every: 10s, users: 10, follows: 3, activities: 4}\nphases:\n  - load:\n      \
    ingest:\n        request:\n          post: /api/telemetry/ingest\n          body: {sensorId: {$family: {prefix: sensor-, count: 20, digits: 1}}, \
    timestamp: {$now: {}}, temperature: {$double: {min: 20, max: 30}}}\n          check: {status: 201}\n        \
    arrivals: {constant: {rate: 20, connections: 4}}\n      \
    statistics:\n        request: {get: \"/api/telemetry/stats/{s}?window=1h\", with: {s: {$family: {prefix: sensor-, count: 20, digits: 1}}}, check: {status: 200}}\n        \
    arrivals: {constant: {rate: 5, connections: 2}}\n      \
    feed:\n        request: {get: \"/api/activity/{u}?limit=50\", with: {u: {$family: {prefix: user-, count: 10, digits: 1}}}, check: {status: 200}}\n        \
    arrivals: {constant: {rate: 5, connections: 2}}\n";

#[test]
fn a_service_is_started_filled_and_measured() {
    let dir = tempfile::tempdir().unwrap();
    let text = STAGED.replace("DATABASE", "staged_plain") + "    stop: {duration: 3s}\n";
    let run = run(dir.path(), &text, &shared(), &[]);
    for (operation, status, count) in [("ingest", "201", 60), ("statistics", "200", 15), ("feed", "200", 15)]
    {
        let answers = run["answers"].as_array().unwrap();
        let answers = answers.iter().find(|it| it["operation"] == operation).unwrap();
        assert_eq!(answers["statuses"][status], count, "{run}");
    }
    let log = std::fs::read_to_string(dir.path().join("run/service.log")).unwrap();
    assert!(log.contains("http://127.0.0.1:"), "{log}");
    for name in ["scenario.yaml", "service.yaml"] {
        let mode = std::fs::metadata(dir.path().join("run").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} may hold secrets");
    }
}

#[test]
fn a_killed_service_restarts_at_the_same_address() {
    let dir = tempfile::tempdir().unwrap();
    let fault = "    stop: {duration: 8s}\n    faults:\n      - {at: 2s, victim: service, inject: {kill: {down: 1s}}}\n";
    let text = STAGED.replace("DATABASE", "staged_killed") + fault;
    let run = run(dir.path(), &text, &shared(), &[]);
    assert_eq!(run["faults"].as_array().unwrap().len(), 1, "{run}");
    assert!(run["faults"][0]["error"].is_null(), "{run}");
    let ingest = &run["operations"]["ingest"];
    assert!(ingest["count"].as_u64().unwrap() > 40, "the load continued after the fault: {run}");
    assert_eq!(ingest["skipped"], 0);
}

#[test]
fn ctrl_c_ends_a_run_during_its_fill() {
    let dir = tempfile::tempdir().unwrap();
    let text = STAGED.replace("DATABASE", "staged_stopped") + "    stop: {duration: 1s}\n";
    let file = scenario(dir.path(), &text.replace("sensors: 20, over: 10m", "sensors: 100_000, over: 10h"));
    let out = dir.path().join("run");
    let args =
        ["run", file.to_str().unwrap(), "--quiet", "--out", out.to_str().unwrap(), "--server", &shared()];
    let mut child = plimsoll().args(args).stderr(Stdio::null()).spawn().unwrap();
    while !out.join("service.yaml").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before its fill");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!out.exists(), "a run that did not begin leaves no directory");
}

#[track_caller]
fn refused(text: &str, args: &[&str], code: i32, part: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), text);
    let out = dir.path().join("run");
    let fixed = ["run", file.to_str().unwrap(), "--quiet", "--out", out.to_str().unwrap()];
    let output = plimsoll_with(&[&fixed[..], args].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(part), "{said}");
    assert!(!out.exists(), "a run that did not begin leaves no directory");
}

#[test]
fn invalid_service_scenarios_are_refused() {
    let plain = text("    stop: {documents: 5}\n");
    refused(&plain, &[], 3, "127.0.0.1:1");
    refused(&plain, &["--server", "mongodb://127.0.0.1:1"], 2, "name the address of the service");
    refused(&plain.replace("http: {url: \"http://127.0.0.1:1\"}\n", ""), &[], 2, "add a section `http`");
    refused(&plain.replace("request:", "operation:"), &[], 2, "unknown");
    refused(&plain.replace("with: {n:", "with: {m:"), &[], 2, "{n}");
    let both = plain.replace("        arrivals:", "        operation: {insert: {}}\n        arrivals:");
    refused(&both, &[], 2, "give one of `operation`, `request`, `unit` and `mix`");
    let fault = text("    stop: {documents: 5}\n    faults:\n      - {at: 1s, inject: {kill: {down: 1s}}}\n");
    refused(&fault, &[], 2, "that Plimsoll started");
}

#[test]
fn database_keys_are_refused_for_a_service() {
    let plain = text("    stop: {documents: 5}\n");
    for (more, part) in [
        ("client: driver\n", "http.protocol"),
        ("timeout: 3s\n", "http.timeout"),
        ("document: {n: 1}\n", "bodies of its requests"),
        ("cache: 64MB\n", "starts none"),
        ("expect: {integrity.lost: [\"count==0\"]}\n", "no audit"),
    ] {
        refused(&format!("{plain}{more}"), &["--server", "http://127.0.0.1:1"], 2, part);
    }
    let staged = STAGED.replace("DATABASE", "never") + "    stop: {duration: 1s}\n";
    refused(&staged.replace("every: 10s", "every: 0s"), &[], 2, "at least 1ms");
    refused(&staged.replace("http: {}", "http: {url: \"http://127.0.0.1:1\"}"), &[], 2, "so it needs no URL");
    refused(&plain, &["--server", "127.0.0.1:8080"], 2, "begins with http://");
}
