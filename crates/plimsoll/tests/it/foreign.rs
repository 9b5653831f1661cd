//! Tests results of other tools, and exports in k6's form.

use std::path::{Path, PathBuf};

use plimsoll_http::NullServer;
use plimsoll_http::null::Options;
use serde_json::Value;

use crate::program::{inserts, json, plimsoll_with, scenario, shared, stderr, stdout};

/// A results file of k6, wrk or another tool.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/report/tests/data/foreign").join(name)
}

fn show(file: &Path, words: &[&str]) -> std::process::Output {
    let mut args = vec!["show", file.to_str().unwrap()];
    args.extend(words);
    plimsoll_with(&args)
}

#[test]
fn results_of_other_tools_are_shown_with_the_limits_of_a_comparison() {
    for (name, words) in [
        ("k6-summary.json", "THRESHOLDS FAILED: 6 of 8 thresholds held"),
        ("k6-summary-export.json", "THRESHOLDS FAILED: 6 of 8 thresholds held"),
        ("k6-samples.json.gz", "Recomputed from 520 lines of samples"),
        ("wrk.txt", "coordinated omission is possible"),
        ("wrk2-both.txt", "Response time, counted from when an operation was due"),
    ] {
        let shown = show(&data(name), &[]);
        assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
        let text = stdout(&shown).replace("\n    ", " ");
        assert!(text.contains(words), "{name}: {text}");
    }
    let read = json(&show(&data("k6-samples.json.gz"), &["--json"]));
    assert_eq!((&read["tool"], &read["form"]), (&"k6".into(), &"k6_samples".into()));
    assert_eq!(read["operations"][0]["times"][0]["since"], "sent");
    assert_eq!(read["operations"][0]["count"], 27);
}

#[test]
fn a_truncated_file_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string(data("k6-summary.json")).unwrap();
    let file = dir.path().join("cut.json");
    let cut: Vec<_> = whole.lines().take(40).collect();
    std::fs::write(&file, cut.join("\n")).unwrap();
    let refused = show(&file, &[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr(&refused);
    assert!(said.contains("cut.json: line 40: the file ends here"), "{said}");
    assert_eq!(show(&data("wrk.txt"), &["--replay"]).status.code(), Some(2));
}

#[test]
fn a_run_is_exported_in_both_forms_of_k6_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("summary_export", 5, "{operations: 40}")
        + "expect:\n  insert.response: [\"max<60m\", \"max<1ns\"]\n  integrity.lost: [count==0]\n";
    let file = scenario(dir.path(), &text);
    let [summary, legacy, out] = ["k6.json", "k6-legacy.json", "run"].map(|name| dir.path().join(name));
    let words = [&file, &summary, &legacy, &out].map(|path| path.to_str().unwrap());
    let [file, summary_word, legacy_word, out] = words;
    let ran = plimsoll_with(&[
        "run",
        file,
        "--server",
        &shared(),
        "--json",
        "--out",
        out,
        "--summary-export",
        summary_word,
        "--summary-export-legacy",
        legacy_word,
    ]);
    assert_eq!(ran.status.code(), Some(99), "{}", stderr(&ran));
    let run = json(&ran);
    let read = |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };

    let metrics = read(&summary)["metrics"].clone();
    assert_eq!(metrics["http_reqs"]["values"]["count"], 40);
    assert_eq!(metrics["insert_documents"]["values"]["count"], run["operations"]["insert"]["documents"]);
    assert_eq!(metrics["http_req_duration"]["values"]["count"], 40);
    let max_ms = metrics["http_req_duration"]["values"]["max"].as_f64().unwrap();
    let max_ns = run["operations"]["insert"]["response_ns"]["max"].as_f64().unwrap();
    assert!((max_ms * 1e6 - max_ns).abs() < 1.0, "{max_ms} ms, {max_ns} ns");
    assert_eq!(metrics["insert_response"]["thresholds"]["max<3600000"]["ok"], true);
    assert_eq!(metrics["insert_response"]["thresholds"]["max<0.000001"]["ok"], false);
    assert_eq!(metrics["integrity_lost"]["thresholds"]["count==0"]["ok"], true);

    let older = read(&legacy)["metrics"].clone();
    assert_eq!(
        older["insert_response"]["thresholds"]["max<0.000001"], true,
        "`true` means failed in this form"
    );
    assert_eq!(older["http_reqs"]["count"], 40);

    for path in [&summary, &legacy] {
        let shown = json(&show(path, &["--json"]));
        assert_eq!(shown["tool"], "plimsoll");
        let insert =
            shown["operations"].as_array().unwrap().iter().find(|it| it["name"] == "insert").unwrap();
        assert_eq!((&insert["count"], &insert["failed"]), (&40.into(), &0.into()));
        assert_eq!(insert["times"][0]["since"], "due");
    }
}

#[test]
fn the_checks_of_a_service_are_exported_with_their_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let server = NullServer::start(&Options::default()).unwrap();
    let url = format!("http://{}", server.address());
    let text = "title: test\nhttp: {url: \"http://127.0.0.1:1\"}\nphases:\n  - load:\n      read:\n        \
                request: {get: /a, check: {status: 200, headers: {x-none: {exists: false}}}}\n        \
                arrivals: {closed: {writers: 2}}\n    stop: {operations: 40}\nexpect: {checks: [\"rate==1\"]}\n";
    let file = scenario(dir.path(), text);
    let [summary, out] = ["k6.json", "run"].map(|name| dir.path().join(name));
    let [file, summary_word, out] = [&file, &summary, &out].map(|path| path.to_str().unwrap());
    let ran = plimsoll_with(&[
        "run",
        file,
        "--server",
        &url,
        "--json",
        "--out",
        out,
        "--summary-export",
        summary_word,
    ]);
    let run = json(&ran);
    let exported: Value = serde_json::from_slice(&std::fs::read(&summary).unwrap()).unwrap();
    let counted = run["answers"][0]["checks"].as_array().unwrap();
    let checks = exported["root_group"]["checks"].as_array().unwrap();
    assert_eq!((counted.len(), checks.len()), (2, 2), "{exported}");
    for (counted, check) in counted.iter().zip(checks) {
        assert_eq!(check["name"], format!("read: {}", counted["name"].as_str().unwrap()));
        assert_eq!((&check["passes"], &check["fails"]), (&counted["passed"], &counted["failed"]));
    }
    let checks = &exported["metrics"]["checks"];
    assert_eq!((&checks["values"]["rate"], &checks["values"]["passes"]), (&1.into(), &80.into()));
    assert_eq!(checks["thresholds"]["rate==1"]["ok"], true);
}

#[test]
fn an_unwritable_export_is_refused_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("summary_export_nowhere", 5, "{operations: 40}"));
    let nowhere = dir.path().join("nowhere/k6.json");
    let out = dir.path().join("run");
    let words = [&file, &nowhere, &out].map(|path| path.to_str().unwrap());
    let [file, nowhere, out] = words;
    let refused =
        plimsoll_with(&["run", file, "--server", &shared(), "--summary-export", nowhere, "--out", out]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("name a file in an existing directory"), "{}", stderr(&refused));
    assert!(!Path::new(out).exists());
    let matrix = plimsoll_with(&["run", "strategies", "--summary-export", "k6.json", "--list"]);
    assert_eq!(matrix.status.code(), Some(2));
    assert!(stderr(&matrix).contains("writes one run"), "{}", stderr(&matrix));
}
