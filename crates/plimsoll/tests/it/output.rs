//! Tests the output of commands: lost output, its width, the list of runs, and the exit of an invalid run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use plimsoll_http::NullServer;
use plimsoll_http::null::Options;
use plimsoll_measure::clock;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::run::{FORMAT, Operation, Run, ScenarioFacts, Verdict};

use crate::program::{fits_60, inserts, json, plimsoll, scenario, shared, stderr, stdout, widest};

#[test]
fn a_full_disk_is_reported_once_and_ends_with_1() {
    for words in [&["schema"][..], &["scenarios"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = plimsoll().args(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert_eq!(said.matches("standard output cannot be written").count(), 1, "{words:?}: {said}");
        assert!(said.contains("is the disk full?"), "{words:?}: {said}");
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = plimsoll().arg("schema").stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

/// Newcomers read the README, so it must name every command.
#[test]
fn the_readme_names_every_command_that_measures_and_how_to_install_the_program() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let help = stdout(&plimsoll().arg("--help").output().unwrap());
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<_> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| {
            !name.is_empty() && !["schema", "completions", "help", "server", "model"].contains(name)
        })
        .collect();
    assert!(commands.len() >= 15, "{commands:?}");
    for name in commands {
        assert!(
            readme.contains(&format!("plimsoll {name}")) || readme.contains(&format!("-- {name} ")),
            "{name}"
        );
    }
    assert!(readme.contains("cargo install --locked --path crates/plimsoll"));
}

/// Writes a run directory with a summary that is wider than a narrow terminal.
fn kept(directory: &Path, name: &str, started_ms: u64) -> PathBuf {
    let latency = Latency { count: 900, p50: Some(1_000_000), max: Some(9_000_000), ..Latency::default() };
    let operation = Operation {
        count: 900,
        documents: 1_234_567_890,
        documents_per_s: 1_234_567.0,
        response_ns: latency.clone(),
        service_ns: latency,
        ..Operation::default()
    };
    let run = Run {
        format: FORMAT,
        id: name.into(),
        command: "run".into(),
        started_ms,
        verdict: Verdict::Pass,
        reasons: vec!["a reason with many words ".repeat(10)],
        scenario: ScenarioFacts {
            name: name.into(),
            title: "a title ".repeat(20),
            ..ScenarioFacts::default()
        },
        operations: [("insert".to_owned(), operation)].into(),
        ..Run::default()
    };
    let path = directory.join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    path
}

#[test]
fn a_pipe_has_100_columns_and_those_of_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    kept(dir.path(), "a", 1);
    let show = |columns: Option<&str>| {
        let mut command = plimsoll();
        command.args(["show", "a"]).current_dir(dir.path()).env_remove("COLUMNS");
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        stdout(&command.output().unwrap())
    };
    let whole = show(None);
    assert!((81..=100).contains(&widest(&whole)), "{whole}");
    for columns in [60, 80, 100, 140] {
        let text = show(Some(&columns.to_string()));
        assert!(widest(&text) <= columns, "{columns}: {text}");
        assert!(
            text.contains("1,234,567")
                && text.ends_with("Page  a/report.html\nNext  plimsoll compare a OTHER-RUN\n"),
            "{text}"
        );
    }
    assert!(widest(&show(Some("20"))) <= 60);
    assert_eq!(show(Some("wide")), whole);
}

#[test]
fn lists_and_comparisons_fit_60_columns() {
    let dir = tempfile::tempdir().unwrap();
    ["a", "b"].iter().zip(1..).for_each(|(name, at)| drop(kept(dir.path(), name, at)));
    for words in [
        &["scenarios"][..],
        &["show", "a"],
        &["compare", "a", "b"],
        &["history", "."],
        &["runs", "list", "."],
        &["pipeline", "--help"],
        &["--help"],
    ] {
        fits_60(dir.path(), words, &[0]);
    }
}

#[test]
fn runs_matrices_and_suites_fit_60_columns() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let server = shared();
    let text = inserts("columns", 10, "{documents: 200}");
    write("one.yaml", &text);
    let cells = "matrix: {axes: [{name: seed, values: {one: {seed: 1}, two: {seed: 2}}}]}\n";
    write("matrix.yaml", &(inserts("columns_matrix", 10, "{documents: 200}") + cells));
    // Before each test a suite inspects its database, including the collections of all other tests there.
    write("other.yaml", &text.replace("plimsoll_test.", "plimsoll_columns."));
    write("suite.csv", &format!("name,scenario,server,warm_up\nfirst,other.yaml,{server},0s\n"));
    for words in [
        &["run", "one.yaml", "--dry-run"][..],
        &["run", "matrix.yaml", "--dry-run"],
        &["suite", "suite.csv", "--dry-run"],
        &["run", "one.yaml", "--out", "one"],
        &["audit", "one"],
        &["inspect", "--collection", "plimsoll_test.columns"],
        &["run", "matrix.yaml", "--list"],
        &["run", "matrix.yaml", "--out", "matrix"],
        &["suite", "suite.csv", "--list"],
        &["suite", "suite.csv", "--out", "suite"],
    ] {
        fits_60(dir.path(), &[words, &["--server", &server]].concat(), &[0]);
    }
}

#[test]
fn runs_are_listed_labelled_and_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("plimsoll-runs");
    for (name, started_ms) in [("a", 1_000), ("b", 2_000), ("c", clock::wall_ms()), ("strange", 500)] {
        kept(&runs, name, started_ms);
    }
    fs::write(runs.join("strange/thesis.txt"), "years of work").unwrap();
    fs::create_dir(runs.join("notes")).unwrap();
    let command = |args: &[&str]| plimsoll().arg("runs").args(args).current_dir(dir.path()).output().unwrap();
    let names = || {
        let listed = json(&command(&["list", "--json"]))["runs"].clone();
        let names = listed.as_array().unwrap().iter().map(|run| run["scenario"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(), ["c", "b", "a", "strange"]);
    let text = stdout(&command(&["list"]));
    for part in ["4 runs, ", "plimsoll-runs/a", "PASS", "1,234,567 documents/s", "KiB"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    let label = command(&["label", "plimsoll-runs/a/run.json", "before the upgrade"]);
    assert_eq!((label.status.code(), stderr(&label).as_str()), (Some(0), ""));
    assert!(stdout(&command(&["list"])).contains("before the upgrade"));

    let without_rule = command(&["prune"]);
    assert_eq!(without_rule.status.code(), Some(2), "{}", stderr(&without_rule));
    let dry = command(&["prune", "--older-than", "1d", "--dry-run"]);
    assert!(stdout(&dry).starts_with("plimsoll-runs/b  ") && stderr(&dry).contains("1 run would be removed"));
    assert_eq!(names().len(), 4);

    let pruned = command(&["prune", "--older-than", "1d"]);
    assert_eq!(pruned.status.code(), Some(0), "{}", stderr(&pruned));
    assert_eq!(stdout(&pruned), stdout(&dry));
    let said = stderr(&pruned);
    assert!(said.contains("plimsoll-runs/strange stays: it holds thesis.txt"), "{said}");
    assert_eq!(names(), ["c", "a", "strange"]);
    assert!(runs.join("notes").is_dir() && runs.join("strange/thesis.txt").is_file());

    let kept = command(&["prune", "--keep", "1"]);
    assert_eq!((kept.status.code(), names().len()), (Some(0), 3), "{}", stderr(&kept));
    let alone = command(&["prune", "plimsoll-runs/c", "--keep", "0"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(stderr(&alone).contains("is not a directory of runs"), "{}", stderr(&alone));
}

#[test]
fn an_invalid_run_fails_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { delay: Duration::from_millis(20), ..Options::default() };
    let server = NullServer::start(&options).unwrap();
    let url = format!("http://{}", server.address());
    let text = "title: test\nhttp: {url: \"http://127.0.0.1:1\"}\nphases:\n  - drain: 0s\n    load:\n      ask:\n        \
                request: {get: /, check: {status: 200}}\n        arrivals: {constant: {rate: 1000, connections: 1}}\n    \
                stop: {duration: 1s}\n";
    let file = scenario(dir.path(), text);
    let run = |out: &str, args: &[&str]| {
        let mut command = plimsoll();
        command
            .args(["run", file.to_str().unwrap(), "--server", &url, "--json", "--out"])
            .arg(dir.path().join(out));
        command.args(args).output().unwrap()
    };
    let plain = run("plain", &[]);
    assert_eq!(
        (plain.status.code(), &json(&plain)["verdict"]),
        (Some(0), &"invalid".into()),
        "{}",
        stderr(&plain)
    );
    let strict = run("strict", &["--fail-on-invalid"]);
    assert_eq!(
        (strict.status.code(), &json(&strict)["verdict"]),
        (Some(5), &"invalid".into()),
        "{}",
        stderr(&strict)
    );
}
