//! Adds a service to Plimsoll: `echo`, which answers each request with the request's body.
//!
//! This test is also that program: it starts itself with the variable [`PROGRAM`].
//! `docs/internals/adding-a-system.md` walks through its files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod load;
mod service;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

use plimsoll::{Registry, registry};
use plimsoll_telemetry::serve::Telemetry;
use plimsoll_telemetry_load::TelemetryLoad;
use serde_json::Value;

const REGISTRY: Registry = registry![
    TelemetryLoad => Telemetry,
    load::EchoLoad => service::Echo,
];

/// The environment variable that makes this test the program.
const PROGRAM: &str = "PLIMSOLL_ECHO";
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/echo/echo.yaml");

fn main() -> ExitCode {
    if env::var_os(PROGRAM).is_some() {
        return plimsoll::main(&REGISTRY);
    }
    a_run_starts_the_service_and_loads_it();
    the_command_line_and_the_schema_know_the_service();
    invalid_sections_are_refused_before_anything_starts();
    a_service_that_fails_ends_with_its_reason();
    ExitCode::SUCCESS
}

fn plimsoll(words: &[&str]) -> Output {
    Command::new(env::current_exe().unwrap()).env(PROGRAM, "1").args(words).output().unwrap()
}

/// Standard output and standard error of a run of the scenario with these words.
fn run(out: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = plimsoll(&[&["run", SCENARIO, "--json", "--out", out.to_str().unwrap()], words].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn a_run_starts_the_service_and_loads_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let (code, json, printed) = run(&out, &[]);
    assert_eq!(code, Some(0), "{printed}");
    let run: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(run["server"]["product"], "echo", "{run}");
    let answers = &run["answers"][0];
    assert_eq!(answers["statuses"]["200"], 200, "{answers}");
    let settings = std::fs::read_to_string(out.join("service.yaml")).unwrap();
    assert!(settings.contains("key: answer") && settings.contains("listen:"), "{settings}");
}

fn the_command_line_and_the_schema_know_the_service() {
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    let help = text(plimsoll(&["serve", "--help"]));
    assert!(help.contains("telemetry") && help.contains("echo"), "{help}");
    let schema: Value = serde_json::from_str(&text(plimsoll(&["schema", "scenario"]))).unwrap();
    let sections = &schema["$defs"]["Service"]["properties"];
    assert!(sections["echo"].is_object() && sections["telemetry"]["properties"]["fill"].is_object());
}

fn invalid_sections_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    for (set, reason) in [
        ("service.echo.settings.key=''", "service.echo.settings: key: it is empty: name it"),
        ("service.echo.settings.kee=x", "unknown key `kee`"),
        ("service.echo.fill={notes: 1}", "service.echo.fill: this service cannot be filled"),
        ("service={ecko: {}}", "did you mean `echo`?"),
        ("phases.0.load.echo.request.body={workload: {counter: {}}}", "counter.from: give a number"),
        ("cache=1GB", "this service has no database"),
    ] {
        let (code, _, printed) = run(&dir.path().join("refused"), &["--set", set]);
        assert_eq!(code, Some(2), "{set}: {printed}");
        assert!(printed.contains(reason), "{set}: {printed}");
    }
}

fn a_service_that_fails_ends_with_its_reason() {
    let output = plimsoll(&["serve", "echo", "--listen", "127.0.0.1:0", "--set", "key=failing"]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("the service ends") && printed.contains("it fails as asked"), "{printed}");
}
