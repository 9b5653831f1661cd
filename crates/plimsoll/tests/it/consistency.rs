//! Tests the shipped scenario `consistency`: a real server keeps its promise, and the check finds a server
//! that breaks its promise, with and without transactions.

use std::collections::HashMap;
use std::process::Output;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use bson::{Bson, Document, doc};
use plimsoll_host::scripted::Server;
use serde_json::Value;

use crate::program::{json, plimsoll_with, stderr};

/// The way in which a server breaks its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// Acknowledges some single appends without storing them.
    LosesAppends,
    /// Answers some single reads without the last element.
    ReadsStale,
    /// Stores only the first append of some transactions.
    StoresHalf,
    /// Answers the later reads of some transactions from the present state instead of the snapshot, once another transaction has
    /// committed. Lists that the transaction has read keep their state.
    LeavesItsSnapshot,
}

/// Whether a server has transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transactions {
    Refused,
    /// Snapshot isolation: a transaction that changes a document fails if another one changed the document since its start.
    Isolated,
}

/// One in this many operations meets the defect.
const EVERY: u64 = 25;
/// The same for transactions that leave their snapshot: conflicts abort most of them.
const EVERY_SNAPSHOT: u64 = 3;
/// A transaction that leaves its snapshot waits for this many commits of others, for this time at most.
const COMMITS_OF_OTHERS: u64 = 3;
const WAIT_FOR_OTHERS: Duration = Duration::from_millis(100);

/// A document's `_id` and its field.
type List = (String, String);

/// A server that keeps lists in memory.
struct Store {
    transactions: Transactions,
    defect: Defect,
    /// The elements of each list, each with the number of its commit.
    lists: HashMap<List, Vec<(u64, i64)>>,
    commits: u64,
    /// Open transactions by their sessions.
    open: HashMap<String, Open>,
    operations: u64,
}

/// An open transaction.
#[derive(Default)]
struct Open {
    snapshot: u64,
    appends: Vec<(List, i64)>,
    leaves_snapshot: bool,
    /// The commit as of which it has first read or changed each `_id`.
    known: HashMap<String, u64>,
}

impl Store {
    fn answer(&mut self, command: &Document) -> Option<Document> {
        if self.transactions == Transactions::Refused && command.contains_key("startTransaction") {
            return Some(doc! {"ok": 0.0, "code": 20, "errmsg": "this server keeps it simple"});
        }
        let within = matches!(command.get_bool("autocommit"), Ok(false));
        let session = command.get_document("lsid").map(ToString::to_string).unwrap_or_default();
        if command.contains_key("startTransaction") {
            let leaves_snapshot = self.meets(Defect::LeavesItsSnapshot);
            let open = Open { snapshot: self.commits, leaves_snapshot, ..Open::default() };
            self.open.insert(session.clone(), open);
        }
        match command.keys().next()?.as_str() {
            "update" if within => Some(self.append_within(command, &session)),
            "update" => Some(self.append_alone(command)),
            "find" if within => Some(self.find_within(command, &session)),
            "find" => Some(self.find_alone(command)),
            "commitTransaction" => Some(self.commit(&session)),
            "abortTransaction" => {
                self.open.remove(&session);
                Some(doc! {"ok": 1.0})
            }
            "listCollections" | "listIndexes" => Some(batch(vec![])),
            "create" => Some(doc! {"ok": 1.0}),
            "count" | "aggregate" => {
                Some(doc! {"n": 0, "cursor": {"id": 0_i64, "ns": "d.c", "firstBatch": []}, "ok": 1.0})
            }
            _ => None,
        }
    }

    /// Whether the answer has to wait for commits of others.
    fn waits(&self, command: &Document) -> bool {
        let session = command.get_document("lsid").map(ToString::to_string).unwrap_or_default();
        let is_read = command.contains_key("find") && !command.contains_key("startTransaction");
        let open = self.open.get(&session).filter(|open| is_read && open.leaves_snapshot);
        open.is_some_and(|open| self.commits < open.snapshot + COMMITS_OF_OTHERS)
    }

    fn meets(&mut self, defect: Defect) -> bool {
        self.operations += 1;
        let every = if defect == Defect::LeavesItsSnapshot { EVERY_SNAPSHOT } else { EVERY };
        self.operations.is_multiple_of(every) && self.defect == defect
    }

    fn append_alone(&mut self, command: &Document) -> Document {
        let (list, element) = appended(command);
        if self.open.values().any(|open| open.changes(&list.0)) {
            return conflict();
        }
        if !self.meets(Defect::LosesAppends) {
            self.store(vec![(list, element)]);
        }
        doc! {"n": 1, "nModified": 1, "ok": 1.0}
    }

    fn append_within(&mut self, command: &Document, session: &str) -> Document {
        let (list, element) = appended(command);
        let Some(mut open) = self.open.remove(session) else { return conflict() };
        let is_newer = |(of, stored): (&List, &Vec<(u64, i64)>)| {
            of.0 == list.0 && stored.last().is_some_and(|(commit, _)| *commit > open.snapshot)
        };
        if self.lists.iter().any(is_newer) || self.open.values().any(|other| other.changes(&list.0)) {
            return conflict();
        }
        open.known.entry(list.0.clone()).or_insert(open.snapshot);
        open.appends.push((list, element));
        self.open.insert(session.to_owned(), open);
        doc! {"n": 1, "nModified": 1, "ok": 1.0}
    }

    fn commit(&mut self, session: &str) -> Document {
        let Some(Open { mut appends, .. }) = self.open.remove(session) else { return conflict() };
        if appends.len() > 1 && self.meets(Defect::StoresHalf) {
            appends.truncate(1);
        }
        self.store(appends);
        doc! {"ok": 1.0}
    }

    /// Stores appends in one commit.
    fn store(&mut self, appends: Vec<(List, i64)>) {
        self.commits += 1;
        for (list, element) in appends {
            self.lists.entry(list).or_default().push((self.commits, element));
        }
    }

    fn find_alone(&mut self, command: &Document) -> Document {
        let ids = ids(command);
        let is_stale = ids.len() == 1 && self.meets(Defect::ReadsStale);
        let list = |id: &str, field: &str| {
            let mut shown = self.list(id, field, u64::MAX);
            shown.truncate(shown.len() - usize::from(is_stale && !shown.is_empty()));
            shown
        };
        batch(ids.iter().map(|id| doc! {"_id": id, "a": list(id, "a"), "b": list(id, "b")}).collect())
    }

    fn find_within(&mut self, command: &Document, session: &str) -> Document {
        let starts = command.contains_key("startTransaction");
        let Some(mut open) = self.open.remove(session) else { return conflict() };
        let ids = ids(command);
        let snapshot = if open.leaves_snapshot && !starts { self.commits } else { open.snapshot };
        ids.iter().for_each(|id| _ = open.known.entry(id.clone()).or_insert(snapshot));
        let list = |id: &str, field: &str| {
            let is_shown = |(list, _): &&(List, i64)| list.0 == id && list.1 == field;
            let own = open.appends.iter().filter(is_shown).map(|(_, element)| *element);
            self.list(id, field, open.known[id]).into_iter().chain(own).collect::<Vec<_>>()
        };
        let found =
            batch(ids.iter().map(|id| doc! {"_id": id, "a": list(id, "a"), "b": list(id, "b")}).collect());
        self.open.insert(session.to_owned(), open);
        found
    }

    /// The elements of a list as of a commit.
    fn list(&self, id: &str, field: &str, snapshot: u64) -> Vec<i64> {
        let stored = self.lists.get(&(id.to_owned(), field.to_owned())).into_iter().flatten();
        stored.filter(|(commit, _)| *commit <= snapshot).map(|(_, element)| *element).collect()
    }
}

impl Open {
    fn changes(&self, id: &str) -> bool {
        self.appends.iter().any(|(list, _)| list.0 == id)
    }
}

/// The list and the element of an append.
fn appended(command: &Document) -> (List, i64) {
    let update = command.get_array("updates").unwrap()[0].as_document().unwrap();
    let id = update.get_document("q").unwrap().get_str("_id").unwrap().to_owned();
    let push = update.get_document("u").unwrap().get_document("$push").unwrap();
    let (field, element) = push.iter().next().unwrap();
    ((id, field.clone()), element.as_i64().unwrap())
}

/// The `_id`s that a find selects.
fn ids(command: &Document) -> Vec<String> {
    match command.get_document("filter").ok().and_then(|filter| filter.get("_id")) {
        Some(Bson::String(id)) => vec![id.clone()],
        Some(Bson::Document(within)) => {
            let ids = within.get_array("$in").into_iter().flatten();
            ids.map(|id| id.as_str().unwrap().to_owned()).collect()
        }
        _ => vec![],
    }
}

fn conflict() -> Document {
    doc! {
        "ok": 0.0, "code": 112, "codeName": "WriteConflict", "errmsg": "another operation changes the document",
        "errorLabels": ["TransientTransactionError"],
    }
}

fn batch(found: Vec<Document>) -> Document {
    doc! {"cursor": {"id": 0_i64, "ns": "d.c", "firstBatch": found}, "ok": 1.0}
}

fn run(server: &str, assignments: &[&str]) -> (Output, Value) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut args = vec!["run", "consistency", "--server", server, "--json", "--out", out.to_str().unwrap()];
    assignments.iter().for_each(|assignment| args.extend(["--set", assignment]));
    let output = plimsoll_with(&args);
    let run = json(&output);
    (output, run)
}

/// A server with this defect, and its address.
fn serve(transactions: Transactions, defect: Defect) -> (Server, String) {
    let (lists, open, commits, operations) = Default::default();
    let store = Mutex::new(Store { transactions, defect, lists, commits, open, operations });
    let committed = Condvar::new();
    let server = Server::start(move |command| {
        let store = store.lock().unwrap();
        let (mut store, _) =
            committed.wait_timeout_while(store, WAIT_FOR_OTHERS, |store| store.waits(command)).unwrap();
        let answer = store.answer(command);
        committed.notify_all();
        answer
    })
    .unwrap();
    let uri = format!("mongodb://{}", server.address());
    (server, uri)
}

/// Runs the scenario on a server with this defect.
fn run_with(transactions: Transactions, defect: Defect) -> (Output, Value) {
    let (_server, uri) = serve(transactions, defect);
    run(&uri, &["phases.0.faults=[]", "phases.0.stop={operations: 6000}", "existing=append"])
}

#[test]
fn a_server_without_transactions_is_checked_list_by_list() {
    let (output, run) = run_with(Transactions::Refused, Defect::None);
    let found = &run["integrity"]["consistency"];
    assert_eq!(found["violations"], 0, "{run}");
    assert_eq!(found["claim"], "linearizability");
    assert!(found["committed"].as_u64() > Some(5_999), "{found}");
    let reason = found["reason"].as_str().unwrap();
    assert!(reason.contains("no transactions (this server keeps it simple)"), "{reason}");
    assert_eq!(run["integrity"]["foreign"], 0, "{run}");
    let conclusions = run["conclusions"].to_string();
    assert!(conclusions.contains("each list is checked for linearizability"), "{conclusions}");
    assert_eq!(output.status.code(), Some(0), "{run}");
}

#[test]
fn a_write_concern_that_promises_nothing_is_refused_by_name() {
    let (_server, uri) = serve(Transactions::Refused, Defect::None);
    let sets = ["--set", "phases.0.faults=[]", "--set", "write_concern={w: 1}"];
    let args = [&["run", "consistency", "--server", &uri][..], &sets].concat();
    let output = plimsoll_with(&args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(r#"the write concern ({"w": 1}) acknowledges"#), "{message}");
    assert!(message.contains("write `write_concern: {w: majority, j: true}`"), "{message}");
}

#[test]
fn an_append_that_the_server_forgets_is_an_integrity_violation() {
    let (output, run) = run_with(Transactions::Refused, Defect::LosesAppends);
    assert_eq!(output.status.code(), Some(4), "{run}");
    let anomalies = &run["integrity"]["consistency"]["anomalies"];
    assert!(anomalies["lost append"].as_u64() > Some(0), "{anomalies}");
    let conclusions = run["conclusions"].to_string();
    assert!(conclusions.contains("break linearizability: lost append"), "{conclusions}");
}

#[test]
fn a_stale_read_of_a_list_is_an_integrity_violation() {
    let (output, run) = run_with(Transactions::Refused, Defect::ReadsStale);
    assert_eq!(output.status.code(), Some(4), "{run}");
    let found = &run["integrity"]["consistency"];
    assert!(found["anomalies"]["stale read"].as_u64() > Some(0), "{found}");
    assert!(found["anomalies"].get("lost append").is_none(), "{found}");
    assert!(found["examples"].to_string().contains("was acknowledged"), "{found}");
}

#[test]
fn a_server_with_snapshot_isolation_keeps_its_promise() {
    let (output, run) = run_with(Transactions::Isolated, Defect::None);
    let found = &run["integrity"]["consistency"];
    assert_eq!((&found["violations"], output.status.code()), (&0.into(), Some(0)), "{run}");
    assert_eq!(found["claim"], "snapshot isolation in real time");
    assert!(found["committed"].as_u64() > Some(100) && found["aborted"].as_u64() > Some(10), "{found}");
    assert!(found["reason"].is_null(), "{found}");
}

/// Runs the scenario on a server whose transactions have this defect. The run must end with exit code 4, and name the anomaly.
#[track_caller]
fn check_anomaly(defect: Defect, anomaly: &str, explanation: &str) {
    let (output, run) = run_with(Transactions::Isolated, defect);
    let found = &run["integrity"]["consistency"];
    assert_eq!(output.status.code(), Some(4), "{found}");
    assert!(found["anomalies"][anomaly].as_u64() > Some(0), "{found}");
    assert!(found["examples"].to_string().contains(explanation), "{found}");
    let conclusions = run["conclusions"].to_string();
    assert!(conclusions.contains(" snapshot isolation in real time: "), "{conclusions}");
    assert!(conclusions.contains(anomaly), "{conclusions}");
}

#[test]
fn a_transaction_of_which_the_server_stores_half_is_named() {
    check_anomaly(Defect::StoresHalf, "half transaction", "half transaction: T");
}

#[test]
fn a_transaction_that_sees_half_of_another_is_named() {
    check_anomaly(Defect::LeavesItsSnapshot, "read skew (G-single)", "read skew (G-single): T");
}

#[test]
fn the_embedded_server_keeps_its_promise_while_it_is_killed_and_stopped() {
    let faults =
        "phases.0.faults=[{at: 2s, inject: {kill: {down: 500ms}}}, {at: 5s, inject: {freeze: {lasts: 1s}}}]";
    let (output, run) = run("embedded", &[faults, "phases.0.stop={duration: 8s}"]);
    let found = &run["integrity"]["consistency"];
    assert_eq!(found["violations"], 0, "{found}");
    assert!(found["committed"].as_u64() > Some(100) && found["lists"].as_u64() > Some(8), "{found}");
    assert_eq!(output.status.code(), Some(0), "{run}");
}
