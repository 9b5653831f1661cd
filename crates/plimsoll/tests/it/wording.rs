//! Tests the wording of messages and results.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use plimsoll_http::NullServer;
use plimsoll_http::null::Options;

use crate::program::{inserts, json, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};

/// A closed load of requests.
fn requests(stop: &str, more: &str) -> String {
    format!(
        "title: test\nhttp: {{url: \"http://127.0.0.1:1\"}}\nphases:\n  - load:\n      ask:\n        \
         request: {{get: /things, check: {{status: 200}}}}\n        \
         arrivals: {{closed: {{writers: 2}}}}\n    stop: {stop}\n{more}"
    )
}

fn run(dir: &Path, text: &str, args: &[&str]) -> Output {
    let file = scenario(dir, text);
    let out = dir.join("run");
    let fixed = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    plimsoll_with(&[&fixed[..], args].concat())
}

#[test]
fn a_load_of_requests_is_reported_in_requests() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options::default()).unwrap();
    let url = format!("http://{}", server.address());
    let output = run(dir.path(), &requests("{duration: 4s}", ""), &["--server", &url]);
    let (live, summary) = (stderr(&output), stdout(&output));
    assert!(live.contains(" requests/s") && !live.contains("docs/s") && !live.contains("ops/s"), "{live}");
    assert!(summary.contains("requests/s"), "{summary}");
    for wrong in ["documents/s", "operations/s", "CPU/operation", "an operation"] {
        assert!(!summary.contains(wrong), "{wrong}: {summary}");
    }
    // A closed load has no due times, so no operation is noticed late; its bottleneck is still of interest.
    assert!(summary.contains("n/a (closed loop)"), "{summary}");
    assert!(summary.contains("Phase 1: "), "{summary}");
    let replayed = plimsoll_with(&["show", dir.path().join("run").to_str().unwrap(), "--replay"]);
    assert!(stderr(&replayed).contains(" requests/s"), "{}", stderr(&replayed));
}

#[test]
fn a_run_that_reached_its_rate_has_no_bottleneck() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options::default()).unwrap();
    let url = format!("http://{}", server.address());
    let text = requests("{duration: 1s}", "").replace("closed: {writers: 2}", "constant: {rate: 20}");
    let printed = json(&run(dir.path(), &text, &["--server", &url, "--json"]));
    assert!(printed["operations"]["ask"]["achieved"].as_f64().unwrap() >= 0.99, "{printed}");
    assert!(printed.get("bottleneck").is_none(), "{printed}");
    let dir = tempfile::tempdir().unwrap();
    let printed = json(&run(dir.path(), &requests("{operations: 5}", ""), &["--server", &url, "--json"]));
    assert!(printed["bottleneck"]["reason"].as_str().unwrap().contains("less than 3 s"), "{printed}");
}

#[test]
fn a_closed_run_of_a_database_reports_its_saturated_resources() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("held_back", 100, "{duration: 4s}");
    let printed = json(&run(dir.path(), &text, &["--server", &shared(), "--json"]));
    let bottleneck = &printed["bottleneck"];
    let count = |list: &str| bottleneck[list].as_array().unwrap().len();
    assert_eq!(count("at_limit") + count("below") + count("unchecked"), 14, "{bottleneck}");
    let seen: Vec<_> = bottleneck["below"]
        .as_array()
        .unwrap()
        .iter()
        .chain(bottleneck["at_limit"].as_array().unwrap())
        .collect();
    assert!(seen.iter().any(|it| it["name"] == "server CPU"), "{bottleneck}");
    assert!(seen.iter().any(|it| it["name"] == "WiredTiger cache"), "{bottleneck}");
    let said = printed["conclusions"].to_string();
    assert!(said.contains("bottleneck"), "{said}");
}

#[test]
fn a_missing_path_is_reported() {
    let output = plimsoll_with(&["show", "nope.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nope.json does not exist"), "{}", stderr(&output));
}

#[test]
fn two_exports_into_one_file_are_refused_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let (file, same) = (dir.path().join("k6.json"), dir.path().join("./k6.json"));
    let (file, same) = (file.to_str().unwrap(), same.to_str().unwrap());
    let args = ["--server", &shared(), "--summary-export", file, "--summary-export-legacy", same];
    let output = run(dir.path(), &inserts("exports", 10, "{documents: 100}"), &args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("name two files") && !dir.path().join("run").exists(), "{message}");
}

#[test]
fn a_cause_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let tls = requests("{operations: 5}", "")
        .replace("{url: \"http://127.0.0.1:1\"}", "{url: \"https://127.0.0.1:1\", tls: {ca: nowhere.pem}}");
    let uri = "mongodb://no-such-host.invalid:27017/?directConnection=true";
    for (text, args, cause) in [
        (tls, vec![], "No such file or directory"),
        (inserts("causes", 10, "{documents: 5}"), vec!["--server", uri], "lookup"),
        (
            inserts("causes", 10, "{documents: 5}").replace("text: {$text", "text: {$txt"),
            vec![],
            "unknown generator",
        ),
    ] {
        let output = run(dir.path(), &text, &args);
        let message = stderr(&output);
        assert!(!output.status.success());
        assert_eq!(message.matches(cause).count(), 1, "{message}");
    }
}

#[test]
fn https_to_a_plaintext_port_is_recognised_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options::default()).unwrap();
    let url = format!("https://{}", server.address());
    let text = requests("{operations: 5}", "").replace("http: {", "http: {limits: {connect_timeout: 300s}, ");
    let output = run(dir.path(), &text, &["--server", &url]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("answers HTTP without TLS: write http://"), "{message}");
}

#[test]
fn invalid_http_has_its_own_error_class() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // The server answers the preflight, and afterwards sends something other than HTTP.
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let said: &[u8] = if number == 0 {
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            } else {
                b"220 mail ready\r\n\r\n"
            };
            stream.read(&mut bytes).unwrap_or_default();
            stream.write_all(said).unwrap_or_default();
        }
    });
    let printed = json(&run(dir.path(), &requests("{operations: 4}", ""), &["--server", &url, "--json"]));
    assert!(printed["operations"]["ask"]["errors"]["malformed_answer"].as_u64().unwrap() >= 1, "{printed}");
}

#[test]
fn paths_of_a_service_are_relative_to_its_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("scenarios");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("secret"), "a secret of thirty-two bytes or more").unwrap();
    let text = "title: test\nhttp: {}\nservice:\n  telemetry:\n    settings:\n      database: {name: beside_it}\n      \
                security: {jwt: {algorithm: HS256, key_file: secret}}\nphases:\n  - load:\n      ask:\n        \
                request: {get: /health, check: {status: 200}}\n        arrivals: {closed: {writers: 1}}\n    stop: {operations: 3}\n";
    let file = scenario(&place, text);
    let out = dir.path().join("run");
    let mut command = plimsoll();
    // Runs in a directory other than the scenario's, with a run directory in a third directory.
    command.current_dir(dir.path()).args(["run", file.to_str().unwrap(), "--json", "--server", &shared()]);
    let output = command.args(["--out", out.to_str().unwrap()]).output().unwrap();
    let printed = json(&output);
    let statuses = printed["answers"][0]["statuses"].as_object().unwrap();
    assert_eq!(statuses.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 3, "{printed}");
    assert!(!statuses.contains_key("0"), "{printed}");
    let kept = std::fs::read_to_string(out.join("service.yaml")).unwrap();
    assert!(kept.contains(place.join("secret").to_str().unwrap()), "{kept}");
}
