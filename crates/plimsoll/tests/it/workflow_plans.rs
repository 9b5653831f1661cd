//! Tests the plans of the workflow engine's searches on MongoDB. The plans on PostgreSQL are tested by the
//! server's counts of scans.

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_stores::workflow::Mongo;
use plimsoll_wire::{ConnectOptions, Connection};
use plimsoll_workflow::contract;
use serde_json::Value;

use crate::program::shared;

const DATABASE: &str = "workflow_test_plans";
/// The number of instances, of signals, of dead letters and of tasks.
const FILLED: usize = 2_000;
/// The limit of each search.
const LIMIT: u64 = 10;

/// The names of all stages below a stage.
fn stages(plan: &Value, names: &mut Vec<String>) {
    match plan {
        Value::Object(fields) => {
            names.extend(fields.get("stage").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| stages(field, names));
        }
        Value::Array(items) => items.iter().for_each(|item| stages(item, names)),
        _ => {}
    }
}

async fn explained(connection: &mut Connection, find: RawDocumentBuf) -> Value {
    let command = rawdoc! {"explain": find, "verbosity": "executionStats"};
    let reply = connection.command(DATABASE, &command).await.unwrap();
    value(&reply)
}

fn value(reply: &RawDocument) -> Value {
    serde_json::to_value(bson::Document::try_from(reply).unwrap()).unwrap()
}

/// The searches of a worker, a client and an inbox, as the store sends them.
fn searches() -> [(&'static str, RawDocumentBuf); 6] {
    let limit = LIMIT.cast_signed();
    let due = rawdoc! {"p": {"$in": [0, 1, 2]}, "due": {"$lte": 20_i64}};
    [
        (
            "due signals",
            rawdoc! {"find": "signals", "filter": due.clone(), "sort": {"due": 1, "at": 1, "_id.s": 1}, "limit": limit},
        ),
        ("due instances", rawdoc! {"find": "instances", "filter": due, "sort": {"due": 1}, "limit": limit}),
        (
            "instances by id",
            rawdoc! {"find": "instances", "filter": {"_id": {"$in": ["f1", "f2"]}}, "sort": {"_id": 1}, "limit": 2_i64},
        ),
        (
            "instances by key",
            rawdoc! {"find": "instances", "filter": {"k": "key of f8"}, "sort": {"_id": 1}, "limit": limit},
        ),
        (
            "instances of a definition",
            rawdoc! {"find": "instances", "filter": {"_id": {"$gt": ""}, "d": "none"}, "sort": {"_id": 1}, "limit": limit},
        ),
        ("tasks", rawdoc! {"find": "tasks", "filter": {"s": "open"}, "sort": {"_id": 1}, "limit": limit}),
    ]
}

#[test]
fn every_search_of_a_large_store_on_mongodb_scans_an_index_and_looks_at_few_documents() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Mongo::open(&shared(), DATABASE, 2, 4).await.unwrap();
        contract::fill(&store, FILLED).await.unwrap();
        let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        let whole =
            explained(&mut connection, rawdoc! {"find": "instances", "filter": {"note": "none"}}).await;
        let mut names = Vec::new();
        stages(&whole["queryPlanner"]["winningPlan"], &mut names);
        assert_eq!(names, ["COLLSCAN"], "the server tells a scan of a whole collection: {whole}");
        for (name, search) in searches() {
            let plan = explained(&mut connection, search).await;
            let mut names = Vec::new();
            stages(&plan["queryPlanner"]["winningPlan"], &mut names);
            let is_indexed = names.iter().any(|stage| stage == "IXSCAN" || stage == "IDHACK");
            let is_whole = names.iter().any(|stage| stage == "COLLSCAN" || stage == "SORT");
            assert!(is_indexed && !is_whole, "{name}: {names:?} {plan}");
            let looked_at = plan["executionStats"]["totalDocsExamined"].as_u64().unwrap();
            assert!(looked_at <= LIMIT * 4, "{name} looks at {looked_at} documents: {plan}");
        }
    });
}
