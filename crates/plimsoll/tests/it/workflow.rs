//! Tests `plimsoll workflow` on real stores.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use plimsoll_host::Cache;
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_postgres::server::{Server, Settings};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{json, plimsoll, plimsoll_with, shared, stderr, stdout};
use crate::service::Service;

/// The time limit of every wait, longer than a lease.
const PATIENCE_NS: u64 = 90 * SECOND_NS;

/// A store, as the options that name it.
pub struct Store(pub Vec<String>);

impl Store {
    /// A database of the shared server.
    pub fn shared(database: &str) -> Self {
        Self(["--server", &shared(), "--database", database].map(str::to_owned).to_vec())
    }

    /// Runs a subcommand on the store.
    pub fn run(&self, words: &[&str]) -> Output {
        let store = self.0.iter().map(String::as_str);
        let words: Vec<_> = ["workflow"].into_iter().chain(words.iter().copied()).chain(store).collect();
        plimsoll_with(&words)
    }

    /// The output of a subcommand that must succeed.
    #[track_caller]
    pub fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// The JSON of a subcommand that must succeed.
    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
        json(&output)
    }

    /// Waits until an instance has a status. If the instance waits, it must wait only for this kind.
    #[track_caller]
    pub fn until(&self, instance: &str, status: &str, kind: &str) -> Value {
        let began = clock::now();
        loop {
            let shown = self.json(&["show", instance]);
            let waits = shown["waits"].as_array().unwrap();
            if shown["status"] == status && waits.iter().all(|wait| wait["kind"] == kind) {
                return shown;
            }
            assert!(clock::now().since(began) < PATIENCE_NS, "{instance} is not {status}: {shown:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts a worker and waits until it runs.
    pub fn worker(&self) -> Worker {
        let mut child = plimsoll()
            .args(["workflow", "worker"])
            .args(&self.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("running"), "{line}");
        Worker(child)
    }
}

/// A worker as a process; dropping it kills the process.
pub struct Worker(Child);

impl Worker {
    /// Asks the worker to end; returns its code.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

const ORDER: &str = "name: order\ndescription: Reserves, waits, ships.\nsteps:\n- service: {name: reserve, function: log}\n\
                     - wait: {name: paid, signal: paid, result: payment}\n- service: {name: ship, function: log}\n";

fn file(dir: &tempfile::TempDir, text: &str) -> String {
    let path = dir.path().join("order.yaml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Deploys, starts, explains, signals, shows and audits; every list fits into 60 columns.
fn lead_an_order(store: &Store) {
    let dir = tempfile::tempdir().unwrap();
    let order = file(&dir, ORDER);
    assert!(store.text(&["deploy", &order]).ends_with(" (new)\n"));
    assert!(store.text(&["deploy", &order]).ends_with(" (known)\n"));
    let worker = store.worker();
    let start = ["start", "order", "o-1", "--key", "k", "--input", "{\"item\": 1}"];
    assert_eq!(store.json(&start)["stored"], "new");
    assert_eq!(store.json(&start)["stored"], "known");
    store.until("o-1", "running", "signal");
    let explained = store.json(&["explain", "o-1"]);
    let reason = &explained["reasons"][0];
    assert_eq!(
        (&reason["kind"], &reason["path"], &reason["missing"]),
        (&"signal".into(), &"paid".into(), &"paid".into())
    );
    assert!(explained["owner"].as_str().is_some_and(|owner| !owner.is_empty()), "{explained}");
    assert_eq!(store.json(&["list", "--key", "k"])["instances"][0]["instance"], "o-1");
    assert_eq!(store.json(&["list", "--key", "other"])["instances"].as_array().unwrap().len(), 0);
    for words in [&["list"][..], &["show", "o-1"], &["explain", "o-1"], &["audit"]] {
        let words = [&["workflow"], words].concat();
        let output = plimsoll().env("COLUMNS", "60").args(words).args(&store.0).output().unwrap();
        let text = stdout(&output);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }
    let signal = ["signal", "o-1", "paid", "--id", "p-1", "--body", "{\"amount\": 12}"];
    assert_eq!(store.json(&signal)["stored"], "new");
    let shown = store.until("o-1", "done", "none");
    assert_eq!(shown["data"]["payment"]["amount"], 12);
    let history: Vec<_> =
        shown["history"].as_array().unwrap().iter().map(|visit| (&visit["path"], &visit["how"])).collect();
    let done = Value::from("done");
    assert_eq!(history, [(&"reserve".into(), &done), (&"paid".into(), &done), (&"ship".into(), &done)]);
    assert_eq!(worker.terminate(), Some(0));
    let report = store.json(&["audit"]);
    assert_eq!((&report["instances"]["done"], report["findings"].as_array().unwrap().len()), (&1.into(), 0));
}

#[test]
fn an_order_is_deployed_started_explained_signalled_shown_and_audited() {
    lead_an_order(&Store::shared("workflow_order"));
}

#[test]
fn the_same_commands_work_on_postgres() {
    let server = Server::start(Cache::locate().unwrap().root(), &Settings::default()).unwrap();
    lead_an_order(&Store(vec!["--postgres".into(), server.uri()]));
    let set = format!("postgres={}", server.uri());
    let service = Service::of("workflow", &["--set", &set]);
    assert_eq!(service.client().get("/api/instances/o-1")["status"], "done");
    let secret = set.replace("plimsoll@", "plimsoll:hunter2@");
    let printed = stdout(&plimsoll_with(&["serve", "workflow", "--set", &secret, "--print-settings"]));
    assert!(printed.contains("postgres://plimsoll:***@") && !printed.contains("hunter2"), "{printed}");
}

#[test]
fn a_definition_with_a_slip_is_refused_with_its_place_and_a_mark() {
    let dir = tempfile::tempdir().unwrap();
    for (wrong, parts) in [
        (
            "wait: {name: paid, signl: paid",
            &["order.yaml:5:22", "unknown key `signl`: did you mean `signal`?", "^"][..],
        ),
        ("wait: {name: paid, signal: 'a b'", &["order.yaml:5:22", "the name `a b` is invalid", "^"]),
        (
            "wait: {name: reserve, signal: paid",
            &["order.yaml:5:", "a second step has the name `reserve`", "^"],
        ),
    ] {
        let path = file(&dir, &ORDER.replace("wait: {name: paid, signal: paid", wrong));
        let output = plimsoll_with(&["workflow", "deploy", &path, "--server", "mongodb://127.0.0.1:1"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "`{part}` is not in: {said}"));
    }
    let path = file(&dir, &ORDER.replace("function: log", "function: teleport"));
    let output = Store::shared("workflow_slips").run(&["deploy", &path]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("`reserve`: this program has no function `teleport`"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn wrong_words_end_with_code_2_and_an_unreachable_store_with_3() {
    let (store, dir) = (Store::shared("workflow_words"), tempfile::tempdir().unwrap());
    let missing = store.run(&["show", "none"]);
    assert_eq!(missing.status.code(), Some(3), "{}", stderr(&missing));
    assert!(
        stderr(&missing).contains("no workflow store here: name another database"),
        "{}",
        stderr(&missing)
    );
    store.text(&["deploy", &file(&dir, ORDER)]);
    for (words, part) in [
        (&["show", "none"][..], "no instance has the id `none`: `plimsoll workflow list`"),
        (&["start", "none", "i"], "no definition is named none: deploy it first"),
        (&["start", "none", "i", "--input", "{"], "--input: `{` is no JSON"),
        (&["list", "--status", "waiting"], "--status: `waiting` is no status"),
        (&["task", "release", "x", "--by", "ann"], "`x` is no task"),
        (&["dead", "redrive", "i", "s", "--by", "ann"], "i has no dead letter `s`"),
        (&["migrate", "none"], "no definition is named `none`"),
    ] {
        let output = store.run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{words:?}: {}", stderr(&output));
    }
    let output = plimsoll_with(&["workflow", "definitions", "quote-cancl"]);
    assert!(stderr(&output).contains("did you mean `quote-cancel`?"), "{}", stderr(&output));
    for (option, uri, code) in [
        ("--server", "mongodb://ann:hunter2@127.0.0.1:1/", 3),
        ("--postgres", "postgres://ann:hunter2@127.0.0.1:1/db", 3),
        ("--server", "postgres://127.0.0.1:1/db", 2),
        ("--postgres", "mongodb://127.0.0.1:1/", 2),
    ] {
        let output = plimsoll_with(&["workflow", "list", option, uri]);
        assert_eq!(output.status.code(), Some(code), "{option} {uri}: {}", stderr(&output));
        assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
    }
}

#[test]
fn after_a_kill_of_the_worker_another_one_goes_on() {
    let (store, dir) = (Store::shared("workflow_killed"), tempfile::tempdir().unwrap());
    store.text(&["deploy", &file(&dir, ORDER)]);
    let first = store.worker();
    store.text(&["start", "order", "o-1"]);
    store.until("o-1", "running", "signal");
    drop(first);
    store.text(&["signal", "o-1", "paid", "--id", "p-1"]);
    store.text(&["start", "order", "o-2"]);
    let _second = store.worker();
    store.until("o-1", "done", "none");
    store.until("o-2", "running", "signal");
}

#[test]
fn a_task_is_listed_refused_completed_and_a_late_signal_is_redriven() {
    let store = Store::shared("workflow_tasks");
    store.text(&["deploy", "pdf", "convert-to-policy", "quotation-confirm"]);
    store.text(&["signal", "q-1", "confirmed", "--id", "early"]);
    store.text(&["start", "quotation-confirm", "q-1", "--input", "{\"customer\": \"ann\"}"]);
    let worker = store.worker();
    store.until("q-1", "running", "task");
    let wait = || {
        let began = clock::now();
        loop {
            let tasks = store.json(&["task", "list", "--instance", "q-1"])["tasks"].clone();
            if let Some(task) = tasks.as_array().unwrap().first() {
                return task.clone();
            }
            assert!(clock::now().since(began) < PATIENCE_NS, "no task");
        }
    };
    let task = wait()["id"].as_str().unwrap().to_owned();
    let complete = |payload: &str| {
        store.text(&["task", "complete", &task, "--by", "ann", "--role", "underwriter", "--payload", payload])
    };
    complete("{\"approved\": 1}");
    let began = clock::now();
    while wait()["refused"] != "say whether you approve" {
        assert!(clock::now().since(began) < PATIENCE_NS, "{}", wait());
    }
    complete("{\"approved\": true}");
    let shown = store.until("q-1", "done", "none");
    assert!(shown["data"]["policy"]["number"].as_str().unwrap().starts_with("P-"), "{shown}");
    store.text(&["signal", "q-1", "late", "--id", "late"]);
    let began = clock::now();
    while store.json(&["dead", "list"])["dead_letters"].as_array().unwrap().is_empty() {
        assert!(clock::now().since(began) < PATIENCE_NS, "no dead letter");
    }
    assert!(store.text(&["dead", "list"]).contains("ended"));
    assert_eq!(store.json(&["dead", "redrive", "q-1", "late", "--by", "ann"])["redriven"], 1);
    assert_eq!(worker.terminate(), Some(0));
}

#[test]
fn a_dry_run_of_a_migration_names_the_missing_step_and_a_migration_moves_the_others() {
    let (store, dir) = (Store::shared("workflow_migrated"), tempfile::tempdir().unwrap());
    store.text(&["deploy", &file(&dir, ORDER)]);
    let _worker = store.worker();
    store.text(&["start", "order", "o-1"]);
    store.until("o-1", "running", "signal");
    store.text(&["deploy", &file(&dir, &ORDER.replace("name: paid", "name: payment"))]);
    let dry = store.json(&["migrate", "order", "--dry-run"]);
    assert_eq!(
        (&dry["movable"], &dry["stuck"][0]["obstacle"]),
        (&0.into(), &"the latest version lacks paid".into())
    );
    assert_eq!(store.run(&["migrate", "order"]).status.code(), Some(99), "an instance cannot move");
    store.text(&["deploy", &file(&dir, &format!("{ORDER}- set: {{value: '{{new: true}}'}}\n"))]);
    assert_eq!(store.json(&["migrate", "order", "--dry-run"])["movable"], 1);
    assert_eq!(store.json(&["migrate", "order"])["movable"], 1);
    store.text(&["signal", "o-1", "paid", "--id", "p-1"]);
    assert_eq!(store.until("o-1", "done", "none")["data"]["new"], true);
}

#[test]
fn options_of_the_address_that_the_store_does_not_honour_are_refused_or_named() {
    let uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=1";
    for command in [&["workflow", "list"][..], &["serve", "workflow", "--listen", "127.0.0.1:0"]] {
        let with =
            |option: &str| plimsoll_with(&[command, &["--server", &format!("{uri}&{option}")]].concat());
        for option in ["w=1", "journal=false"] {
            let refused = with(option);
            assert_eq!(refused.status.code(), Some(2), "{command:?} {option}: {}", stderr(&refused));
            assert!(stderr(&refused).contains("remove `w` and `journal`"), "{}", stderr(&refused));
        }
        for (option, named) in [
            ("w=majority&fooBar=1", "`fooBar`"),
            ("wTimeoutMS=5", "`wTimeoutMS` of the address has no effect here"),
            ("readPreference=secondary", "`readPreference` of the address has no effect here"),
            ("readConcernLevel=local", "`readConcernLevel` of the address has no effect here"),
            ("minPoolSize=3", "`minPoolSize` of the address has no effect here"),
        ] {
            let unreachable = with(option);
            assert_eq!(unreachable.status.code(), Some(3), "{command:?} {option}: {}", stderr(&unreachable));
            assert_eq!(stderr(&unreachable).matches(named).count(), 1, "{}", stderr(&unreachable));
        }
    }
}
