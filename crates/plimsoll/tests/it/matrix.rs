//! Tests matrices of runs: their estimate, their end and their continuation.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use plimsoll_wire::{ConnectOptions, Connection};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{inserts, json, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(90);

/// A small scenario with two axes of two values each; `more` is added under `matrix`.
fn two_by_two(collection: &str, more: &str) -> String {
    let base = inserts(collection, 10, "{documents: 1_000}");
    format!(
        "{base}matrix:\n  axes:\n    - name: batch\n      values:\n        small: {{phases.0.load.insert.operation.insert.batch: \
         10}}\n        large: {{phases.0.load.insert.operation.insert.batch: 500}}\n    - name: size\n      values:\n        \
         1K: {{phases.0.stop.documents: 1000}}\n        3K: {{phases.0.stop.documents: 3000}}\n{more}"
    )
}

/// Runs a scenario text in `dir` against the shared server.
fn run(dir: &Path, text: &str, args: &[&str]) -> Output {
    let file = scenario(dir, text);
    let out = dir.join("matrix");
    let mut all = vec!["run", file.to_str().unwrap()];
    let server = shared();
    if !args.contains(&"--server") {
        all.extend(["--server", &server]);
    }
    if !args.contains(&"--resume") {
        all.extend(["--out", out.to_str().unwrap()]);
    }
    all.extend(args);
    plimsoll_with(&all)
}

/// Checks that each collection was dropped after its audit. The embedded server gives a dropped collection a new, empty
/// entry if another client lists the database at that moment.
fn assert_gone(prefix: &str) {
    let with_documents: Vec<_> =
        collections(prefix).into_iter().filter(|(_, documents)| *documents > 0).collect();
    assert_eq!(with_documents, []);
}

/// Collections of the tests' database on the shared server whose names start with `prefix`, each with its
/// number of documents.
fn collections(prefix: &str) -> Vec<(String, i64)> {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        let list = bson::rawdoc! {"listCollections": 1, "nameOnly": true};
        let reply = connection.command("plimsoll_test", &list).await.unwrap();
        let reply = bson::Document::try_from(reply.as_ref()).unwrap();
        let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        let names: Vec<_> =
            batch.iter().map(|it| it.as_document().unwrap().get_str("name").unwrap().to_owned()).collect();
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| name.starts_with(prefix)) {
            let count = bson::rawdoc! {"count": name.as_str()};
            let reply = connection.command("plimsoll_test", &count).await.unwrap();
            let reply = bson::Document::try_from(reply.as_ref()).unwrap();
            found.push((name, reply.get_i64("n").unwrap_or_else(|_| reply.get_i32("n").unwrap().into())));
        }
        found.sort();
        found
    })
}

#[test]
fn a_matrix_writes_a_table_a_file_and_a_directory_for_each_cell() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &two_by_two("grid", ""), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (said, table) = (stderr(&output), stdout(&output));
    for part in
        ["4 cells, 4 runs", "8,000 in all", "plimsoll_test.grid_1 to plimsoll_test.grid_4", "[4/4] large, 3K"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    for part in ["size  batch  documents/s", "1K    small", "3K    large", "0 lost", "100 %"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let out = dir.path().join("matrix");
    let kept: Value = serde_json::from_str(&fs::read_to_string(out.join("matrix.json")).unwrap()).unwrap();
    assert_eq!((&kept["format"], &kept["complete"]), (&json!(1), &json!(true)));
    let cells: Vec<_> = kept["cells"].as_array().unwrap().iter().map(|cell| cell["values"].clone()).collect();
    let cell = |batch: &str, size: &str| json!({"batch": batch, "size": size});
    assert_eq!(cells, [cell("small", "1K"), cell("small", "3K"), cell("large", "1K"), cell("large", "3K")]);
    let figures = &kept["cells"][3]["figures"];
    let insert = &figures["operations"]["insert"];
    assert_eq!((&insert["documents"], &insert["documents_per_operation"]), (&json!(3_000), &json!(500.0)));
    assert!(insert["client_cpu_us_per_operation"].is_null(), "six operations are too few: {insert}");
    let insert = &kept["cells"][1]["figures"]["operations"]["insert"];
    assert!(insert["client_cpu_us_per_operation"]["median"].as_f64() > Some(0.0), "{insert}");
    assert_eq!((&figures["integrity"]["found"], &figures["integrity"]["lost"]), (&json!(3_000), &json!(0)));
    for name in ["001-small-1K", "002-small-3K", "003-large-1K", "004-large-3K"] {
        assert!(
            out.join(name).join("run.json").is_file() && out.join(name).join("report.html").is_file(),
            "{name}"
        );
    }
    assert!(fs::read_to_string(out.join("matrix.html")).unwrap().contains("004-large-3K/report.html"));
    assert_gone("grid_");

    let out = out.to_str().unwrap();
    assert!(stdout(&plimsoll_with(&["show", out])).contains("3K    large"));
    assert_eq!(json(&plimsoll_with(&["show", out, "--json"])), kept);
    assert!(stdout(&plimsoll_with(&["report", out])).contains("matrix.html"));
    let audited = plimsoll_with(&["audit", out]);
    assert!(stderr(&audited).contains("name one of the run directories"), "{}", stderr(&audited));
}

#[test]
fn only_json_is_printed_and_kept_collections_can_be_audited() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--json", "--keep", "--only", "size=1K", "--set", "matrix.repetitions=2"];
    let output = run(dir.path(), &two_by_two("kept", ""), &args);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let printed = json(&output);
    assert_eq!(printed["runs"].as_array().unwrap().len(), 4);
    let spread = &printed["cells"][0]["figures"]["operations"]["insert"]["documents_per_s"];
    assert_eq!(spread["of"], 2);
    assert!(
        spread["min"].as_f64() <= spread["median"].as_f64()
            && spread["median"].as_f64() <= spread["max"].as_f64()
    );
    let kept: Vec<_> = (1..=4).map(|number| (format!("kept_{number}"), 1_000)).collect();
    assert_eq!(collections("kept_"), kept);
    let cell = dir.path().join("matrix/003-small-r2");
    let audited = plimsoll_with(&["audit", cell.to_str().unwrap(), "--json"]);
    assert_eq!(json(&audited)["found"], 1_000, "{}", stderr(&audited));
}

#[test]
fn a_failed_cell_does_not_end_the_matrix_and_decides_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let text = two_by_two("fails", "")
        .replace("small: {phases", "small: {expect: {insert.documents: ['count>1000000']}, phases");
    let output = run(dir.path(), &text, &["--only", "size=1K", "--json"]);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    let printed = json(&output);
    assert_eq!((&printed["complete"], &printed["verdict"]), (&json!(true), &json!("fail")));
    assert_eq!(
        (&printed["cells"][0]["verdict"], &printed["cells"][1]["figures"]["runs"]),
        (&json!("fail"), &json!(1))
    );
}

#[test]
fn an_impossible_cell_does_not_end_the_matrix() {
    let dir = tempfile::tempdir().unwrap();
    // More connections than the system allows.
    let many = "small: {phases.0.load.insert.arrivals: {closed: {writers: 500}}, phases";
    let file = scenario(dir.path(), &two_by_two("unmade", "").replace("small: {phases", many));
    let out = dir.path().join("matrix");
    let script = r#"ulimit -n 128 && exec "$1" run "$2" --out "$3" --server "$4" --only size=1K"#;
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let output = Command::new("sh")
        .args(["-c", script, "sh", program, file.to_str().unwrap(), out.to_str().unwrap(), &shared()])
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("it could not be completed"), "{}", stderr(&output));
    let whole = json(&plimsoll_with(&["show", out.to_str().unwrap(), "--json"]));
    let states: Vec<_> = whole["runs"].as_array().unwrap().iter().map(|run| run["state"].clone()).collect();
    assert_eq!(states, ["failed", "done"]);
    assert_eq!(whole["cells"][1]["figures"]["operations"]["insert"]["documents"], 1_000);
    assert_eq!((&whole["complete"], &whole["verdict"]), (&json!(false), &json!("invalid")));
}

#[test]
fn a_list_starts_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let listed = run(dir.path(), &two_by_two("listed", ""), &["--list", "--only", "size=3K"]);
    assert!(stdout(&listed).contains("batch=large size=3K"), "{}", stdout(&listed));
    let refused = run(dir.path(), &two_by_two("listed", "  bounds: {disk: 1KB}\n"), &["--list"]);
    assert_eq!(refused.status.code(), Some(0));
    assert!(
        stdout(&refused).contains("The run would be refused: matrix.bounds.disk"),
        "{}",
        stdout(&refused)
    );
    let printed = run(dir.path(), &two_by_two("listed", ""), &["--list", "--json"]);
    assert_eq!(json(&printed)["runs"][1]["directory"], "002-small-3K");
    assert!(!dir.path().join("matrix").exists());
    assert_eq!(collections("listed_"), []);
}

/// Waits until the matrix in `out` has made `count` runs.
fn wait_for_runs(out: &Path, count: usize) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        let text = fs::read_to_string(out.join("matrix.json")).unwrap_or_default();
        if text.matches(r#""state": "done""#).count() >= count {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("the matrix made no run");
}

#[test]
fn an_interrupted_matrix_continues() {
    let dir = tempfile::tempdir().unwrap();
    // Two cells never end by themselves before the interruption, which follows the first cell.
    let text = two_by_two("resumed", "").replace(
        "3K: {phases.0.stop.documents: 3000}",
        "3K: {phases.0.stop: {documents: 3000, duration: 20s}}",
    );
    let file = scenario(dir.path(), &text);
    let out = dir.path().join("matrix");
    let args =
        ["run", file.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap(), "--json"];
    let run = plimsoll().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_runs(&out, 1);
    kill_process(Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let run = run.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130), "{}", stderr(&run));
    let first = json(&run);
    assert_eq!((&first["complete"], &first["verdict"]), (&json!(false), &json!("invalid")));
    let made = fs::read_to_string(out.join("001-small-1K/run.json")).unwrap();

    let other = scenario(dir.path(), &text.replace("size", "amount"));
    let refused = plimsoll_with(&["run", other.to_str().unwrap(), "--resume", out.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("made from another scenario"), "{}", stderr(&refused));

    let resumed =
        self::run(dir.path(), &text, &["--resume", out.to_str().unwrap(), "--set", "matrix.bounds.time=2h"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    assert!(
        stderr(&resumed).contains("not repeated") && !stderr(&resumed).contains("[1/4]"),
        "{}",
        stderr(&resumed)
    );
    let whole = json(&plimsoll_with(&["show", out.to_str().unwrap(), "--json"]));
    assert_eq!((&whole["complete"], &whole["cells"][3]["figures"]["runs"]), (&json!(true), &json!(1)));
    assert_eq!(
        made,
        fs::read_to_string(out.join("001-small-1K/run.json")).unwrap(),
        "finished runs are not repeated"
    );
    assert_gone("resumed_");
}

#[test]
fn a_collection_with_documents_is_never_changed() {
    let dir = tempfile::tempdir().unwrap();
    let single = scenario(dir.path(), &inserts("taken_2", 10, "{documents: 100}"));
    let out = dir.path().join("single");
    let args =
        ["run", single.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap(), "--quiet"];
    assert_eq!(plimsoll_with(&args).status.code(), Some(0));
    let output = run(dir.path(), &two_by_two("taken", ""), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("plimsoll_test.taken_2 (100 documents)"), "{}", stderr(&output));
    assert_eq!(collections("taken_"), [("taken_2".to_owned(), 100)]);
}

#[test]
fn invalid_matrices_are_refused_before_a_server_is_contacted() {
    let nowhere = "mongodb://no-such-host.invalid:27017/?directConnection=true";
    let rule = |when: &str| format!("  leave_out:\n    - {{when: {when}, because: no}}\n");
    for (more, args, part) in [
        ("", &["--only", "sise=1K"][..], "there is no axis `sise`; did you mean `size`?"),
        ("", &["--only", "size=2K"], "`size` has no value `2K`"),
        ("  bounds: {disk: 1KB}\n", &[], "matrix.bounds.disk: up to"),
        ("  bounds: {time: 1s}\n", &[], "matrix.bounds.time: 4 runs take up to"),
        (&rule("{size: [1K, 3K]}"), &[], "excludes every requested cell"),
        (&rule("{colour: red}"), &[], "no axis `colour`"),
        ("  bound: {}\n", &[], "did you mean `bounds`?"),
        ("existing: drop\n", &[], "leave out `existing`"),
        (
            "",
            &["--set", "matrix.axes.0.values.small={phases.4.stop: 1}"],
            "batch=small: phases.4.stop: `phases` has no `4`",
        ),
        ("", &["--set", "matrix.axes.0.name=size"], "two axes have the name `size`"),
        (
            "",
            &["--set", "matrix.axes.0.values.small={phases.0.stop.documents: 7}"],
            "set different values for",
        ),
        ("", &["--shard", "0/2"], "--shard: a matrix is run by one process"),
        ("", &["--resume", "/nowhere"], "name the directory of a matrix"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let args = [args, &["--server", nowhere]].concat();
        let output = run(dir.path(), &two_by_two("refused", more), &args);
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
}

#[test]
fn matrix_options_need_a_matrix_and_a_line_needs_a_single_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let plain = run(dir.path(), &inserts("plain", 10, "{documents: 100}"), &["--list"]);
    assert_eq!(plain.status.code(), Some(2));
    assert!(stderr(&plain).contains("are for a scenario with a `matrix`"), "{}", stderr(&plain));
    let file = scenario(dir.path(), &two_by_two("line", ""));
    let line = plimsoll_with(&["line", file.to_str().unwrap(), "--server", &shared()]);
    assert_eq!(line.status.code(), Some(2));
    assert!(stderr(&line).contains("scenario.yaml in the run directory of the cell"), "{}", stderr(&line));
}
