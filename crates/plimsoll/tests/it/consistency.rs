//! Tests the shipped scenario `consistency`: a real server keeps its promise, and the check finds a server
//! that breaks its promise.

use std::collections::HashMap;
use std::process::Output;
use std::sync::Mutex;

use bson::{Bson, Document, doc};
use plimsoll_host::scripted::Server;
use serde_json::Value;

use crate::program::{json, plimsoll_with};

/// The way in which a server breaks its promise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Acknowledges some appends without storing them.
    LosesAppends,
    /// Answers some reads without the last element.
    ReadsStale,
}

/// One in this many operations meets the defect.
const EVERY: u64 = 25;

/// A server without transactions that keeps lists in memory.
#[derive(Default)]
struct Store {
    lists: HashMap<(String, String), Vec<i64>>,
    operations: u64,
}

impl Store {
    fn answer(&mut self, command: &Document, defect: Defect) -> Option<Document> {
        if command.contains_key("startTransaction") {
            return Some(doc! {"ok": 0.0, "code": 20, "errmsg": "this server keeps it simple"});
        }
        match command.keys().next()?.as_str() {
            "update" => Some(self.append(command, defect)),
            "find" => Some(self.find(command, defect)),
            "listCollections" | "listIndexes" => Some(batch(vec![])),
            "create" => Some(doc! {"ok": 1.0}),
            "count" | "aggregate" => {
                Some(doc! {"n": 0, "cursor": {"id": 0_i64, "ns": "d.c", "firstBatch": []}, "ok": 1.0})
            }
            _ => None,
        }
    }

    fn meets(&mut self) -> bool {
        self.operations += 1;
        self.operations.is_multiple_of(EVERY)
    }

    fn append(&mut self, command: &Document, defect: Defect) -> Document {
        let update = command.get_array("updates").unwrap()[0].as_document().unwrap();
        let id = update.get_document("q").unwrap().get_str("_id").unwrap().to_owned();
        let push = update.get_document("u").unwrap().get_document("$push").unwrap();
        let (field, element) = push.iter().next().unwrap();
        if !(self.meets() && defect == Defect::LosesAppends) {
            self.lists.entry((id, field.clone())).or_default().push(element.as_i64().unwrap());
        }
        doc! {"n": 1, "nModified": 1, "ok": 1.0}
    }

    fn find(&mut self, command: &Document, defect: Defect) -> Document {
        let ids: Vec<String> = match command.get_document("filter").ok().and_then(|filter| filter.get("_id"))
        {
            Some(Bson::String(id)) => vec![id.clone()],
            Some(Bson::Document(within)) => {
                let ids = within.get_array("$in").into_iter().flatten();
                ids.map(|id| id.as_str().unwrap().to_owned()).collect()
            }
            _ => vec![],
        };
        let is_stale = self.meets() && defect == Defect::ReadsStale && ids.len() == 1;
        let found = ids.into_iter().map(|id| {
            let list = |field: &str| {
                let stored = self.lists.get(&(id.clone(), field.to_owned())).cloned().unwrap_or_default();
                let shown = stored.len() - usize::from(is_stale && !stored.is_empty());
                stored[..shown].to_vec()
            };
            doc! {"_id": &id, "a": list("a"), "b": list("b")}
        });
        batch(found.collect())
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

/// Runs the scenario on a server with this defect.
fn run_with(defect: Defect) -> (Output, Value) {
    let store = Mutex::new(Store::default());
    let server = Server::start(move |command| store.lock().unwrap().answer(command, defect)).unwrap();
    let uri = format!("mongodb://{}", server.address());
    run(&uri, &["phases.0.faults=[]", "phases.0.stop={operations: 2000}", "existing=append"])
}

#[test]
fn a_server_without_transactions_is_checked_list_by_list() {
    let (output, run) = run_with(Defect::None);
    let found = &run["integrity"]["consistency"];
    assert_eq!(found["violations"], 0, "{run}");
    assert_eq!(found["claim"], "linearizability");
    assert!(found["committed"].as_u64() > Some(1_999), "{found}");
    let reason = found["reason"].as_str().unwrap();
    assert!(reason.contains("no transactions (this server keeps it simple)"), "{reason}");
    assert_eq!(run["integrity"]["foreign"], 0, "{run}");
    let conclusions = run["conclusions"].to_string();
    assert!(conclusions.contains("each list is checked for linearizability"), "{conclusions}");
    assert_eq!(output.status.code(), Some(0), "{run}");
}

#[test]
fn an_append_that_the_server_forgets_is_an_integrity_violation() {
    let (output, run) = run_with(Defect::LosesAppends);
    assert_eq!(output.status.code(), Some(4), "{run}");
    let anomalies = &run["integrity"]["consistency"]["anomalies"];
    assert!(anomalies["lost append"].as_u64() > Some(0), "{anomalies}");
    let conclusions = run["conclusions"].to_string();
    assert!(conclusions.contains("break linearizability: lost append"), "{conclusions}");
}

#[test]
fn a_stale_read_of_a_list_is_an_integrity_violation() {
    let (output, run) = run_with(Defect::ReadsStale);
    assert_eq!(output.status.code(), Some(4), "{run}");
    let found = &run["integrity"]["consistency"];
    assert!(found["anomalies"]["stale read"].as_u64() > Some(0), "{found}");
    assert!(found["anomalies"].get("lost append").is_none(), "{found}");
    assert!(found["examples"].to_string().contains("was acknowledged"), "{found}");
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
