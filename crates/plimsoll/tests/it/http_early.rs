//! Tests runs that end early: the report names the reason, and the exit code is 99.

use std::time::Duration;

use plimsoll_http::NullServer;
use plimsoll_http::null::Options;

use crate::http::text;
use crate::program::{json, plimsoll_with, scenario, stderr};

/// Runs a scenario for up to a minute against a server with delayed answers, and checks that it ends early
/// for this reason.
#[track_caller]
fn ends_early(text: &str, delay_ms: u64, why: &str) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { delay: Duration::from_millis(delay_ms), ..Options::default() };
    let server = NullServer::start(&options).unwrap();
    let (file, out) = (scenario(dir.path(), text), dir.path().join("run"));
    let url = format!("http://{}", server.address());
    let fixed = ["run", file.to_str().unwrap(), "--json", "--out", out.to_str().unwrap(), "--server", &url];
    let output = plimsoll_with(&fixed);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    let run = json(&output);
    let said = run["aborted"].as_str().unwrap_or_else(|| panic!("the run did not end early: {run}"));
    assert!(said.contains(why), "{said}");
    assert!(run["duration_s"].as_f64().unwrap() < 30.0, "{run}");
    assert!(run["reasons"].to_string().contains(why), "{run}");
}

#[test]
fn a_threshold_that_aborts_ends_the_run_with_99() {
    let expect = "expect: {write.response: [{threshold: \"med<10ms\", abort_on_fail: true}]}\n";
    let text = text(&format!("    stop: {{duration: 60s}}\n{expect}"));
    ends_early(&text, 100, "write.response med<10ms did not hold");
}

#[test]
fn a_rate_that_is_not_reached_ends_the_run_with_99() {
    // Two connections get ten answers a second, and a hundred are due.
    let text = text("        rate_floor: {share: 0.9, for: 2s}\n    stop: {duration: 60s}\n")
        .replace("closed: {writers: 2}", "constant: {rate: 100, connections: 2}");
    ends_early(&text, 200, "load write: ");
}
