//! Tests comparisons of two services, or of two settings of one service.

use std::fs;

use serde_json::json;

use crate::http_matrix::{databases, null_server, plain, staged};
use crate::program::{json, plimsoll_with, scenario, shared, stderr};

#[test]
fn two_services_are_measured_in_turns_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &plain(""));
    let ((_a, fast), (_b, other)) = (null_server(200), null_server(200));
    let out = dir.path().join("ab");
    let (a, b) = (format!("server={fast}"), format!("server={other}"));
    let output = plimsoll_with(&[
        "ab",
        file.to_str().unwrap(),
        "--pairs",
        "8",
        "--a",
        &a,
        "--b",
        &b,
        "--b",
        "set phases.0.load.write.request.body={n: 1, more: {$text: {bytes: 2000}}}",
        "--out",
        out.to_str().unwrap(),
        "--json",
    ]);
    assert!([Some(0), Some(99)].contains(&output.status.code()), "{}", stderr(&output));
    let found = json(&output);
    assert_eq!(found["method"], json!({"kind": "exact", "pairs": 8}), "{found}");
    assert_eq!(found["a"]["runs"].as_array().unwrap().len(), 8);
    let paths: Vec<_> =
        found["differences"].as_array().unwrap().iter().map(|it| it["path"].clone()).collect();
    assert!(
        paths.iter().all(|path| path.as_str().unwrap().starts_with("phases.0.load.write.request")),
        "{paths:?}"
    );
    let metrics: Vec<_> = found["metrics"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert!(metrics.contains(&json!("write.response_ns.p50")), "{metrics:?}");
}

#[test]
fn incomparable_services_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &plain(""));
    let url = "http://127.0.0.1:1";
    for (args, part) in [
        (&["--server", url][..], "A and B are identical"),
        (
            &["--a", "server=http://127.0.0.1:1", "--b", "server=mongodb://127.0.0.1:1"],
            "name the address of the service",
        ),
        (&["--server", url, "--b", "set client=driver"], "http.protocol"),
        (&["--server", url, "--b", "set phases.0.load.write.request.get=/things"], "one method"),
        (&["--server", url, "--b", "set http=null"], "add a section `http`"),
        (
            &[
                "--a",
                "server=http://127.0.0.1:1",
                "--b",
                "server=mongodb://127.0.0.1:1",
                "--b",
                "set http=null",
                "--b",
                "set document={n: 1}",
                "--b",
                "set phases.0.load.write={operation: {insert: {batch: 1}}, arrivals: {closed: {writers: 1}}}",
            ],
            "they cannot get the same load: give both the same section `http`",
        ),
    ] {
        let output = plimsoll_with(&[&["ab", file.to_str().unwrap()], args].concat());
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
}

/// Tests that `cargo xtask test --all` runs.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn two_settings_of_a_service_are_measured_in_separate_databases() {
        let dir = tempfile::tempdir().unwrap();
        let text = staged("http_ab", "").replace("stop: {documents: 40}", "stop: {documents: 30}");
        let file = scenario(dir.path(), &text);
        let out = dir.path().join("ab");
        let output = plimsoll_with(&[
            "ab",
            file.to_str().unwrap(),
            "--pairs",
            "8",
            "--server",
            &shared(),
            "--b",
            "set service.telemetry.settings.readings.design=bucket",
            "--out",
            out.to_str().unwrap(),
            "--json",
        ]);
        assert!([Some(0), Some(99)].contains(&output.status.code()), "{}", stderr(&output));
        let found = json(&output);
        let differences = found["differences"].as_array().unwrap();
        assert_eq!(differences.len(), 1, "separate databases are not a difference: {found}");
        assert_eq!(differences[0]["path"], "service.telemetry.settings.readings.design");
        let settings = fs::read_to_string(out.join("002-b/service.yaml")).unwrap();
        assert!(settings.contains("http_ab_3") && settings.contains("design: bucket"), "{settings}");
        assert_eq!(databases("http_ab"), [] as [String; 0]);
    }
}
