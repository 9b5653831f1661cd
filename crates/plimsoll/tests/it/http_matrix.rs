//! Tests matrices of runs over HTTP: each cell with its own service, or against a running service.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use plimsoll_http::NullServer;
use plimsoll_http::null::Options;
use plimsoll_wire::{ConnectOptions, Connection};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{json, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};

/// The time limit of every wait, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A small service with a small load; `more` is appended.
pub fn staged(database: &str, more: &str) -> String {
    format!(
        "title: test\nhttp: {{timeout: 30s}}\nservice:\n  telemetry:\n    \
         settings: {{database: {{name: {database}}}}}\n    \
         fill: {{sensors: 5, over: 10m, every: 10s, users: 5, follows: 2, activities: 3}}\nphases:\n  - load:\n      \
         ingest:\n        request:\n          post: /api/telemetry/ingest\n          body: {{sensorId: {{$family: {{prefix: sensor-, \
         count: 5, digits: 1}}}}, timestamp: {{$now: {{}}}}, temperature: {{$double: {{min: 20, max: 30}}}}}}\n          \
         check: {{status: 201}}\n        arrivals: {{closed: {{writers: 2}}}}\n      \
         statistics:\n        request:\n          get: \"/api/telemetry/stats/{{s}}?window=1h\"\n          \
         with: {{s: {{$family: {{prefix: sensor-, count: 5, digits: 1}}}}}}\n          \
         check: {{status: 200, json: {{sensorId: {{exists: true}}}}}}\n        \
         arrivals: {{closed: {{writers: 1}}}}\n        stop: {{operations: 20}}\n    stop: {{documents: 40}}\n{more}"
    )
}

const DESIGNS: &str = "matrix:\n  axes:\n    - name: design\n      values:\n        document: {service.telemetry.settings.readings.design: \
                       document}\n        bucket: {service.telemetry.settings.readings.design: bucket}\n";

/// Requests to a running service; `more` is appended.
pub fn plain(more: &str) -> String {
    format!(
        "title: test\nhttp: {{url: \"http://127.0.0.1:1\"}}\nphases:\n  - load:\n      write:\n        \
         request: {{post: /things, body: {{n: {{$number: {{}}}}}}, check: {{status: 200}}}}\n        \
         arrivals: {{closed: {{writers: 1}}}}\n    stop: {{documents: 200}}\n{more}"
    )
}

pub fn null_server(status: u16) -> (NullServer, String) {
    let server = NullServer::start(&Options { status, ..Options::default() }).unwrap();
    let url = url(server.address());
    (server, url)
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// Runs a scenario text in `dir`; returns the output and its directory.
fn run(dir: &Path, text: &str, args: &[&str]) -> (Output, PathBuf) {
    let (file, out) = (scenario(dir, text), dir.join("matrix"));
    let fixed = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    (plimsoll_with(&[&fixed[..], args].concat()), out)
}

/// Databases of the shared server whose names start with `prefix`.
pub fn databases(prefix: &str) -> Vec<String> {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        let reply = connection.command("admin", &bson::rawdoc! {"listDatabases": 1}).await.unwrap();
        let reply = bson::Document::try_from(reply.as_ref()).unwrap();
        let names = reply.get_array("databases").unwrap().iter();
        let names = names.map(|it| it.as_document().unwrap().get_str("name").unwrap().to_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    })
}

fn wait_for(reached: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        if reached() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("the run did not reach the expected state");
}

fn interrupt(process: u32) {
    kill_process(Pid::from_raw(i32::try_from(process).unwrap()).unwrap(), Signal::INT).unwrap();
}

#[test]
fn each_design_of_a_service_is_measured_on_its_own_server() {
    let dir = tempfile::tempdir().unwrap();
    let (output, out) = run(dir.path(), &staged("designs", DESIGNS), &["--server", "embedded:relaxed"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stderr(&output);
    for part in ["2 cells, 2 runs", "starts its own server and service", "630 readings and activities"] {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(part), "{part}: {said}");
    }
    let kept: Value = serde_json::from_str(&fs::read_to_string(out.join("matrix.json")).unwrap()).unwrap();
    assert_eq!((&kept["format"], &kept["complete"]), (&json!(1), &json!(true)), "{kept}");
    for (cell, design) in [(0, "document"), (1, "bucket")] {
        let figures = &kept["cells"][cell]["figures"];
        assert_eq!(kept["cells"][cell]["values"]["design"], design);
        let count = |operation: &str| figures["operations"][operation]["documents"].clone();
        assert_eq!(count("ingest"), 40, "{figures}");
        // The phase ends with its documents, after any number of other requests.
        assert!((1..=20).contains(&count("statistics").as_u64().unwrap()), "{figures}");
        assert_eq!(figures["integrity"], Value::Null, "a service proves nothing");
        assert!(figures["disk_bytes"]["median"].as_f64() > Some(0.0), "{figures}");
        assert!(figures["server_cores"]["median"].as_f64() > Some(0.0), "{figures}");
        let directory = out.join(format!("00{}-{design}", cell + 1));
        let settings = fs::read_to_string(directory.join("service.yaml")).unwrap();
        assert!(settings.contains(&format!("design: {design}")), "{settings}");
        assert!(directory.join("report.html").is_file() && !directory.join("storage").exists());
    }
    let table = stdout(&output);
    for part in ["requests/s", "errors", "on disk", "CPU/request"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("integrity"), "{table}");
}

#[test]
fn on_an_existing_server_each_run_has_a_database_that_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (server, text) = (shared(), staged("http_matrix_own", DESIGNS));
    let (output, _) = run(dir.path(), &text, &["--server", &server, "--json", "--only", "design=bucket"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let printed = json(&output);
    assert_eq!(printed["runs"][0]["collection"], "http_matrix_own_1");
    assert_eq!(printed["cells"][0]["figures"]["operations"]["ingest"]["documents"], 40);
    assert_eq!(databases("http_matrix_own"), [] as [String; 0], "it is dropped after its run");

    let again = tempfile::tempdir().unwrap();
    let (kept, _) =
        run(again.path(), &text, &["--server", &server, "--json", "--only", "design=bucket", "--keep"]);
    assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));
    assert_eq!(databases("http_matrix_own"), ["http_matrix_own_1"]);
    let third = tempfile::tempdir().unwrap();
    let (refused, out) = run(third.path(), &text, &["--server", &server, "--only", "design=bucket"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("the database http_matrix_own_1: each run needs"),
        "{}",
        stderr(&refused)
    );
    assert!(!out.exists(), "no run begins");
}

#[test]
fn every_cell_loads_a_running_service_with_a_warning_about_leftovers() {
    let dir = tempfile::tempdir().unwrap();
    let axes = "matrix:\n  axes:\n    - name: writers\n      values:\n        1: {}\n        2: {phases.0.load.write.arrivals: \
                {closed: {writers: 2}}}\n";
    let (server, url) = null_server(200);
    let (output, out) = run(dir.path(), &plain(axes), &["--server", &url]);
    assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("the data of earlier runs in the service"), "{}", stderr(&output));
    let whole = json(&plimsoll_with(&["show", out.to_str().unwrap(), "--json"]));
    assert_eq!(whole["complete"], true, "{whole}");
    for cell in 0..2 {
        assert_eq!(whole["cells"][cell]["figures"]["operations"]["write"]["documents"], 200);
        assert_eq!(whole["runs"][cell]["collection"], "");
    }
    assert!(server.answered() >= 400);
}

#[test]
fn invalid_differences_between_service_cells_are_refused() {
    let axes =
        |value: &str| format!("matrix: {{axes: [{{name: a, values: {{x: {{}}, y: {{{value}}}}}}}]}}\n");
    for (text, args, part) in [
        (plain(&axes("cache: 64MB")), &[][..], "all cells share it"),
        (
            plain(&axes("http.url: 'http://127.0.0.1:2'")),
            &["--server", "http://127.0.0.1:1"],
            "leave out --server",
        ),
        (
            staged("never", &axes("server: 'mongodb://127.0.0.1:1'")),
            &[],
            "some cells go to a service on a server that is started for it, others to a service on a running server",
        ),
        (
            staged("never", &axes("service.telemetry.settings.readings.design: graph")),
            &[],
            "unknown choice `graph`",
        ),
        (staged("never", &axes("service.telemetry.fill.every: 0s")), &[], "at least 1ms"),
        (staged("never", &format!("{}matrix_: 1\n", axes(""))), &[], "matrix_"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (output, out) = run(dir.path(), &text, args);
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
        assert!(!out.exists());
    }
}

#[test]
fn an_interrupted_matrix_of_services_continues() {
    let dir = tempfile::tempdir().unwrap();
    // The second cell never ends by itself before the interruption.
    let axes = "matrix:\n  axes:\n    - name: size\n      values:\n        small: {}\n        large: {phases.0.stop: {documents: 1000000, \
                duration: 20s}}\n";
    let file = scenario(dir.path(), &staged("http_matrix_cut", axes));
    let out = dir.path().join("matrix");
    let words = ["run", file.to_str().unwrap(), "--server", &shared(), "--json"];
    let begun = [&words[..], &["--out", out.to_str().unwrap()]].concat();
    let begun = plimsoll().args(begun).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let events = || fs::read_to_string(out.join("002-large/events.ndjson")).unwrap_or_default();
    wait_for(|| events().contains(r#""event":"interval""#));
    interrupt(begun.id());
    let begun = begun.wait_with_output().unwrap();
    assert_eq!(begun.status.code(), Some(130), "{}", stderr(&begun));
    let cut = json(&begun);
    assert_eq!((&cut["complete"], &cut["runs"][1]["state"]), (&json!(false), &json!("interrupted")));
    assert_eq!(databases("http_matrix_cut"), [] as [String; 0]);
    let first = fs::read_to_string(out.join("001-small/run.json")).unwrap();

    let ended = plimsoll_with(&[&words[..], &["--resume", out.to_str().unwrap()]].concat());
    assert_eq!((ended.status.code(), stderr(&ended).as_str()), (Some(0), ""));
    let whole = json(&ended);
    assert_eq!((&whole["complete"], &whole["runs"][1]["state"]), (&json!(true), &json!("done")));
    assert_eq!(
        first,
        fs::read_to_string(out.join("001-small/run.json")).unwrap(),
        "a finished run is not repeated"
    );
    assert!(out.join("002-large.cut-1").is_dir());
    assert_eq!(databases("http_matrix_cut"), [] as [String; 0]);
}
