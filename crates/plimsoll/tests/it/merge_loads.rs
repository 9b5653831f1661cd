//! Tests joined shards that change documents, retry after network faults, and load a service: every counter
//! is their sum, and the audit agrees with the server's own counts.

use std::fs;
use std::path::{Path, PathBuf};

use bson::rawdoc;
use serde_json::{Value, json};

use crate::program::{inserts, json, plimsoll_with, scenario, stderr};
use crate::service::Service;
use crate::shards::{ask_of, count, counted, counters_add_up, merge, number, run_json, shards, shards_on};

/// Joins shards and checks every counter against theirs; returns the run, and the summary of each shard.
fn joined(dir: &Path, parts: &[PathBuf]) -> (Value, Vec<Value>) {
    let output = merge(parts, &dir.join("joined"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (run, parts) = (json(&output), parts.iter().map(|part| run_json(part)).collect::<Vec<_>>());
    assert_eq!(parts.len(), 3);
    counters_add_up(&run, &parts);
    (run, parts)
}

/// Checks that no document is missing, changed, duplicated or unexpected.
#[track_caller]
fn is_intact(found: &Value) {
    for kind in ["lost", "phantom", "duplicated", "corrupted", "foreign"] {
        assert_eq!(found[kind], 0, "{kind} in {found}");
    }
}

#[test]
fn the_changes_of_three_processes_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let phase = |name: &str, operation: &str| {
        format!(
            "  - load:\n      {name}: {{operation: {operation}, arrivals: {{closed: {{writers: 6}}}}}}\n    \
             stop: {{operations: 300}}\n"
        )
    };
    let text = inserts("merge_updates", 50, "{documents: 1_500}").replace("writers: 2", "writers: 6");
    let replaced = phase("replace", "{replace: {}}");
    let updated = phase("update", "{update: {update: {$inc: {hits: 1}}}}");
    let file = scenario(dir.path(), &format!("{text}{replaced}{updated}workers: 1\n"));
    let file = file.to_str().unwrap();
    let (run, parts) = joined(dir.path(), &shards(dir.path(), file));
    for (name, expected) in [("replace", 300), ("update", 300), ("insert", 1_500)] {
        let documents = |run: &Value| number(run, &format!("/operations/{name}/documents"));
        assert_eq!(documents(&run), expected, "{name}");
        assert!(parts.iter().all(|part| documents(part) > 0), "{name}");
    }
    // The server's own count of the updates.
    let sum = rawdoc! {"$group": {"_id": 1, "n": {"$sum": "$hits"}}};
    assert_eq!((counted(file, sum), count(file)), (300, 1_500));
    for found in parts.iter().chain([&run]).map(|run| &run["integrity"]) {
        is_intact(found);
        let seen = number(found, "/found") + number(found, "/not_audited");
        assert_eq!(seen, number(found, "/acknowledged"), "{found}");
    }
    // Replacements are proven by their versions; changes by operators are not.
    let unproven = number(&run, "/integrity/not_audited");
    assert!((1..=300).contains(&unproven), "{}", run["integrity"]);
    assert_eq!(run["integrity"]["acknowledged"], 1_500);
}

#[test]
fn retries_of_three_processes_store_documents_once_and_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("merge_retries", 10, "{duration: 2s}").replace("writers: 2", "writers: 6");
    let fault = "    faults: [{at: 600ms, inject: {network: {lasts: 200ms, how: reset}}}]\n";
    let file = scenario(dir.path(), &format!("{text}{fault}retry: once\nworkers: 1\n"));
    let file = file.to_str().unwrap();
    let (run, parts) = joined(dir.path(), &shards(dir.path(), file));
    for part in &parts {
        assert!(number(part, "/operations/insert/retries") > 0, "each shard has its own network: {part}");
        assert!(number(part, "/client/reconnects") > 0, "{part}");
    }
    assert_eq!(run["faults"].as_array().unwrap().len(), 1, "all shards share one fault: {}", run["faults"]);
    let events = fs::read_to_string(dir.path().join("joined/events.ndjson")).unwrap();
    assert!(
        (0..3).all(|shard| events.contains(&format!("(shard {shard}/3)"))),
        "each shard records its own fault"
    );
    let found = &run["integrity"];
    is_intact(found);
    let there = number(found, "/found") + number(found, "/unknown_present");
    assert_eq!(i64::try_from(there).unwrap(), count(file), "{found}");
    assert!(number(found, "/acknowledged") > 0, "{found}");

    // The joined ledger, by a separate audit.
    let directory = dir.path().join("joined");
    let audited = plimsoll_with(&["audit", directory.to_str().unwrap(), "--json"]);
    assert_eq!(audited.status.code(), Some(0), "{}", stderr(&audited));
    for kind in ["acknowledged", "found", "unknown_present", "unknown_absent", "foreign"] {
        assert_eq!(json(&audited)[kind], found[kind], "{kind}");
    }
}

#[test]
fn a_service_stores_all_acknowledged_readings_of_three_processes() {
    let dir = tempfile::tempdir().unwrap();
    let (database, readings) = ("merge_service", "readings");
    let service = Service::on_shared(database);
    let url = format!("http://{}", service.address);
    // Without their eventId, two readings of a sensor in one millisecond would be one reading.
    let text = "title: test\nhttp: {url: \"http://127.0.0.1:1\", timeout: 60s}\nworkers: 1\nphases:\n  - load:\n      \
                ingest:\n        request:\n          post: /api/telemetry/ingest\n          \
                body: {sensorId: {$family: {prefix: sensor-, count: 5, digits: 1}}, timestamp: {$now: {}}, \
                eventId: {$object_id: {}}, n: {$number: {}}}\n          check: {status: 201}\n        \
                arrivals: {closed: {writers: 6}}\n    stop: {documents: 300}\n";
    let file = scenario(dir.path(), text);
    let clear = || drop(ask_of(database, &rawdoc! {"delete": readings, "deletes": [{"q": {}, "limit": 0}]}));
    let (run, parts) = joined(dir.path(), &shards_on(&url, dir.path(), file.to_str().unwrap(), clear));
    assert_eq!(number(&run, "/operations/ingest/count"), 300);
    let answers = |run: &Value| number(run, "/answers/0/statuses/201");
    assert_eq!((answers(&run), parts.iter().map(answers).sum::<u64>()), (300, 300), "{}", run["answers"]);
    assert_eq!(run["answers"][0]["checks"][0], json!({"name": "status 201", "passed": 300, "failed": 0}));
    assert_eq!(run["integrity"], Value::Null, "a service proves nothing");
    // The service's database contains every number once.
    let each = rawdoc! {"$group": {"_id": "$m.n", "readings": {"$sum": 1}}};
    let all = rawdoc! {"$group": {"_id": 1, "numbers": {"$sum": 1}, "readings": {"$sum": "$readings"}}};
    let command = rawdoc! {"aggregate": readings, "pipeline": [each, all], "cursor": {}};
    let reply = bson::Document::try_from(ask_of(database, &command).as_ref()).unwrap();
    let first = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].clone();
    let first = first.into_relaxed_extjson();
    assert_eq!((&first["numbers"], &first["readings"]), (&json!(300), &json!(300)), "{first}");
}
