//! Tests suites: a failure of one test ends no other, and an interrupted suite continues.

mod pipelines;
mod process_columns;
mod refused;
mod resumed;
mod states;
#[cfg(feature = "full")]
mod streams;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{endlessly_patient, inserts, json, plimsoll, plimsoll_with, shared, stderr, stdout};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(120);
/// The watchdog of these tests: frequent, and patient enough for a busy machine.
const WATCH: [&str; 4] = ["--watch", "1s", "--hung-after", "12"];

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Writes scenarios, each with one purpose.
fn scenarios(dir: &Path, prefix: &str) {
    // Before each test a suite inspects its database, including the leftovers of all other tests there.
    let named = |name: &str, stop: &str| {
        inserts(&format!("{prefix}_{name}"), 20, stop).replace("plimsoll_test.", "plimsoll_suite.")
    };
    write(dir, "quick.yaml", &named("quick", "{documents: 2_000}"));
    write(dir, "long.yaml", &named("long", "{duration: 8s}"));
    let fails = named("fails", "{documents: 500}") + "expect:\n  insert.documents: ['count>1000000']\n";
    write(dir, "fails.yaml", &fails);
    // The server's process is paused after a second, and no further write is acknowledged.
    let hangs = endlessly_patient(&named("hangs", "{duration: 300s}"));
    write(dir, "hangs.yaml", &(hangs + "    faults:\n      - {at: 1s, inject: {freeze: {lasts: 300s}}}\n"));
}

fn start(args: &[&str]) -> Child {
    let all = [&["suite"], args, &WATCH[..]].concat();
    plimsoll().args(all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn suite(args: &[&str]) -> Output {
    start(args).wait_with_output().unwrap()
}

/// Columns of `results.csv` by name, a map for each row.
fn results(out: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = fs::read_to_string(out.join("results.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    lines.map(|values| names.iter().cloned().zip(values).collect()).collect()
}

fn column(out: &Path, name: &str) -> Vec<String> {
    results(out).into_iter().map(|row| row[name].clone()).collect()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        if is_there() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("timed out waiting for {what}");
}

fn has_load(out: &Path, run: &str) -> bool {
    let events = fs::read_to_string(out.join(run).join("run/events.ndjson")).unwrap_or_default();
    events.contains(r#""event":"interval""#)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

fn whole(out: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(out.join("suite.json")).unwrap()).unwrap()
}

#[test]
fn a_suite_continues_after_a_failure_a_hang_and_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_six");
    // The fifth test writes to the collection of the fourth, which is interrupted.
    let table = "# What can happen?\nname,scenario,server,warm_up,duration\nfirst,quick.yaml,,1s,\nfails,fails.yaml,,0s,\n\
                 hangs,hangs.yaml,embedded:relaxed,,\nlong,long.yaml,,0s,\nfifth,long.yaml,,0s,1s\nlast,quick.yaml,embedded:relaxed,0s,\n";
    let file = write(dir.path(), "six.csv", table);
    let out = dir.path().join("out");
    let server = shared();
    let begun = start(&[file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--server", &server]);
    wait_for("the load of the fourth test", || has_load(&out, "004-long"));
    signal(&begun, Signal::INT);
    let begun = begun.wait_with_output().unwrap();
    let said = stderr(&begun);
    assert_eq!(column(&out, "outcome"), ["completed", "failed", "hung", "interrupted"], "{said}");
    assert_eq!(column(&out, "exit"), ["0", "99", "3", "130"], "{said}");
    assert_eq!(begun.status.code(), Some(3), "{said}");
    for part in ["[3/6] hangs", "no progress at 12 checks", "The suite is incomplete. Continue with --resume"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let first = fs::read_to_string(out.join("001-first/run/run.json")).unwrap();

    // The documents of the interrupted test stay, and a foreign document among them blocks the test.
    let theirs = "somebody else's";
    command(&bson::rawdoc! {"insert": "suite_six_long_4", "documents": [{"_id": theirs}]});
    let refused = suite(&["--resume", out.to_str().unwrap(), "--quiet"]);
    assert_eq!(column(&out, "outcome"), ["completed", "failed", "hung", "refused", "completed", "completed"]);
    assert!(stdout(&refused).is_empty() && stderr(&refused).is_empty(), "{}", stderr(&refused));
    assert!(count("suite_six_long_4") > 1, "the collection of the interrupted test still exists");
    command(&bson::rawdoc! {"delete": "suite_six_long_4", "deletes": [{"q": {"_id": theirs}, "limit": 1}]});
    // The suite's own leftovers do not block it.
    let ended = suite(&["--resume", out.to_str().unwrap(), "--json"]);
    let printed = json(&ended);
    assert_eq!((ended.status.code(), stderr(&ended).as_str()), (Some(3), ""));
    let outcomes = ["completed", "failed", "hung", "completed", "completed", "completed"];
    let mut rows = results(&out);
    rows.sort_by_key(|row| row["run"].parse::<u32>().unwrap());
    assert_eq!(rows.iter().map(|row| row["outcome"].as_str()).collect::<Vec<_>>(), outcomes);
    for row in &rows {
        let at = |name: &str| row[name].parse::<u64>().unwrap();
        assert!(at("from_ms") > 1_700_000_000_000 && at("from_ms") <= at("to_ms"), "{row:?}");
        assert_eq!(row["directory"], format!("{:03}-{}", at("run"), row["test"]));
    }
    assert_eq!(
        (rows[0]["unit"].as_str(), rows[0]["total"].as_str(), rows[0]["lost"].as_str()),
        ("documents", "2000", "0")
    );
    assert!(rows[0]["rate_per_s"].parse::<f64>().unwrap() > 0.0);
    let warmed: Value =
        serde_json::from_str(&fs::read_to_string(out.join("001-first/warm-up/run.json")).unwrap()).unwrap();
    assert!(warmed["operations"]["insert"]["count"].as_u64() > Some(0), "{}", warmed["operations"]);
    assert!(!out.join("002-fails/warm-up").exists(), "a row with `warm_up` 0s has no warm-up");
    assert_eq!(printed, whole(&out));
    assert_eq!((&printed["complete"], &printed["question"]), (&json!(true), &json!("What can happen?")));
    assert_eq!(printed["tests"][3]["delta"]["above"], "first", "failed and hung tests are skipped");
    assert_eq!(
        first,
        fs::read_to_string(out.join("001-first/run/run.json")).unwrap(),
        "a finished run is not repeated"
    );
    assert!(out.join("004-long.cut-1").is_dir() && out.join("004-long.cut-2").is_dir());

    for left in ["suite_six_long", "suite_six_long_4", "suite_six_long_5", "suite_six_quick_1_warm_up"] {
        assert_eq!(count(left), 0, "{left}: intact collections are dropped");
    }

    let page = fs::read_to_string(out.join("suite.html")).unwrap();
    assert!(page.contains("001-first/run/report.html") && page.contains("Cost stack"));
    let again = suite(&["--resume", out.to_str().unwrap()]);
    assert!(stdout(&again).contains("COMPLETE, 1 failed, 1 hung"), "{}", stdout(&again));
}

fn client() -> (tokio::runtime::Runtime, plimsoll_wire::ConnectOptions) {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    (runtime, plimsoll_wire::ConnectOptions::new(address))
}

pub fn command(command: &bson::RawDocumentBuf) -> bson::Document {
    let (runtime, options) = client();
    runtime.block_on(async {
        let mut connection = plimsoll_wire::Connection::connect(&options).await.unwrap();
        let reply = connection.command("plimsoll_suite", command).await.unwrap();
        bson::Document::try_from(reply.as_ref()).unwrap()
    })
}

/// The number of documents in a collection of the tests' database on the shared server.
fn count(name: &str) -> i64 {
    let reply = command(&bson::rawdoc! {"count": name});
    reply.get_i64("n").unwrap_or_else(|_| reply.get_i32("n").unwrap().into())
}

#[test]
fn repetitions_are_interleaved_and_each_run_has_a_state_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_turns");
    let yaml = "title: turns\ndefaults: {scenario: quick.yaml, repetitions: 2, warm_up: 0s, server: 'embedded:relaxed', cache: 256MB, \
                client_cpus: 0}\ntests:\n  - {name: four, in_flight: 4, threads: 1}\n  - {name: one, in_flight: 1, executor: thread-per-worker}\n";
    let file = write(dir.path(), "turns.yaml", yaml);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = stderr(&made);
    assert_eq!(made.status.code(), Some(0), "{said}");
    assert_eq!(column(&out, "directory"), ["001-four-r1", "002-one-r1", "003-one-r2", "004-four-r2"]);
    let read =
        |path: &str| -> Value { serde_json::from_str(&fs::read_to_string(out.join(path)).unwrap()).unwrap() };
    for (run, connections) in [("001-four-r1", 4), ("003-one-r2", 1)] {
        let (before, after, ran) = (
            read(&format!("{run}/before.json")),
            read(&format!("{run}/after.json")),
            read(&format!("{run}/run/run.json")),
        );
        assert_eq!(before["server"]["profile"], "relaxed");
        let (was, is) = (&before["collections"][0], &after["collections"][0]);
        assert_eq!(
            (&was["exists"], &was["namespace"]),
            (&json!(false), &json!("plimsoll_suite.suite_turns_quick"))
        );
        assert_eq!((&is["documents"], is["samples"].as_array().unwrap().len()), (&json!(2000), 2));
        assert!(
            is["inventory"]["fields"].as_array().unwrap().len() >= 3
                && !is["times"].as_array().unwrap().is_empty()
        );
        assert_eq!(
            (&ran["client"]["connections"], &ran["environment"]["cores"]),
            (&json!(connections), &json!(1))
        );
        let server = &ran["server"];
        assert_eq!(
            (&server["kind"], &server["profile"], &server["product"]),
            (&json!("embedded"), &json!("relaxed"), &before["server"]["product"]),
            "a run knows its server's profile, although it has only an address"
        );
        // The server itself reports whole mebibytes of the requested 256 MB.
        assert_eq!(server["parameters"]["cache_bytes"], (244_u64 << 20).to_string());
        let events = fs::read_to_string(out.join(run).join("run/events.ndjson")).unwrap();
        assert!(events.contains(r#""event":"auditing""#), "the run's events show its audit");
    }
    for part in [
        "before",
        "does not exist yet",
        "after",
        "2,000 documents, only index",
        "written from",
        "COMPLETED",
        "from=",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let suite = whole(&out);
    assert_eq!(
        (&suite["tests"][0]["figures"]["runs"], &suite["tests"][1]["figures"]["rate_per_s"]["of"]),
        (&json!(2), &json!(2))
    );
    assert!(stdout(&made).contains("Time ranges"), "{}", stdout(&made));

    // A complete suite is printed again, even if its scenarios are gone.
    fs::remove_file(dir.path().join("quick.yaml")).unwrap();
    let printed = suite_of(&["suite", "--resume", out.to_str().unwrap(), "--json"]);
    let shown = suite_of(&["show", out.to_str().unwrap(), "--json"]);
    assert_eq!((&printed, &shown), (&suite, &suite), "showing a suite does not change it");
}

/// The JSON that a command prints.
fn suite_of(words: &[&str]) -> Value {
    let output = plimsoll_with(words);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    json(&output)
}
