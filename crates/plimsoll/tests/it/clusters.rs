//! Tests runs on a simulated replica set that elects a new primary meanwhile, and on a simulated sharded cluster.

use std::collections::HashSet;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_host::replica_set::{self, ReplicaSet};
use plimsoll_host::sharded::{self, Cluster};
use serde_json::Value;

use crate::program::{inserts, json, plimsoll_with, scenario, stderr};

/// The number of documents of a run, and the number after which the set elects a new primary.
const DOCUMENTS: u64 = 8_000;
const EVENT_AFTER: usize = 400;

/// Runs a scenario of inserts on a deployment; `event` happens once `is_due`.
fn run(
    dir: &Path,
    uri: &str,
    text: &str,
    is_due: impl Fn() -> bool + Send + Sync,
    event: impl FnOnce() + Send,
) -> (Output, Value) {
    let file = scenario(dir, text);
    let out = dir.join("run");
    let args = ["run", file.to_str().unwrap(), "--server", uri, "--out", out.to_str().unwrap(), "--json"];
    let is_over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_due() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::yield_now();
            }
            event();
        });
        let output = plimsoll_with(&args);
        is_over.store(true, Ordering::Relaxed);
        output
    });
    let run = json(&output);
    (output, run)
}

/// Runs inserts with a write concern on a replica set that fails over during the load.
fn run_through_a_failover(set: &ReplicaSet, write_concern: &str) -> (Output, Value) {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("failover", 1, &format!("{{documents: {DOCUMENTS}}}"))
        .replace("write_concern: {w: 1, j: true}", &format!("write_concern: {write_concern}"));
    run(
        dir.path(),
        &set.uri(),
        &text,
        || set.documents("plimsoll_test.failover") >= EVENT_AFTER,
        || {
            let (killed, _) = set.fail_over().unwrap();
            set.restart(killed).unwrap();
        },
    )
}

fn set(lag: usize) -> ReplicaSet {
    ReplicaSet::start(replica_set::Options { lag, ..replica_set::Options::default() }).unwrap()
}

#[test]
fn a_collection_of_another_replica_set_is_not_dropped() {
    let (dir, set) = (tempfile::tempdir().unwrap(), set(0));
    let file = scenario(dir.path(), &inserts("stays", 10, "{documents: 50}"));
    let run = |uri: &str, out: &str| {
        let out = dir.path().join(out);
        let args = ["run", file.to_str().unwrap(), "--server", uri, "--set", "existing=drop"];
        plimsoll_with(&[&args[..], &["--out", out.to_str().unwrap()]].concat())
    };
    let first = run(&set.uri(), "first");
    assert_eq!(
        (first.status.code(), set.documents("plimsoll_test.stays")),
        (Some(0), 50),
        "{}",
        stderr(&first)
    );
    let hosts = set.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let one = format!("mongodb://{}/?replicaSet=other&directConnection=true", set.addresses()[0]);
    for uri in [format!("mongodb://{hosts}/?replicaSet=other"), one] {
        let refused = run(&uri, "refused");
        assert_eq!(refused.status.code(), Some(3), "{uri}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("other"), "{uri}: {}", stderr(&refused));
        assert_eq!(set.documents("plimsoll_test.stays"), 50, "{uri}");
    }
}

#[test]
fn a_run_at_majority_survives_an_election_without_a_failure_and_loses_nothing() {
    let set = set(10);
    let (output, run) = run_through_a_failover(&set, "{w: majority}");
    assert_eq!(output.status.code(), Some(0), "{}\n{}", run["reasons"], stderr(&output));
    let integrity = &run["integrity"];
    assert_eq!(
        (&integrity["acknowledged"], &integrity["lost"]),
        (&DOCUMENTS.into(), &0.into()),
        "{integrity}"
    );
    assert_eq!(integrity["proof"], "proven");
    assert!(run["operations"]["insert"]["retries"].as_u64().unwrap() > 0, "{}", run["operations"]["insert"]);
    assert_eq!(run["verdict"], "pass", "{}", run["reasons"]);
}

#[test]
fn a_run_with_one_confirmation_is_told_what_a_failover_rolled_back() {
    // A run file names five lost documents at most.
    let set = set(5);
    let (output, run) = run_through_a_failover(&set, "{w: 1}");
    assert_eq!(output.status.code(), Some(4), "{}\n{}", run["reasons"], stderr(&output));
    let rolled_back = set.rolled_back();
    assert!(!rolled_back.is_empty());
    let integrity = &run["integrity"];
    assert_eq!(integrity["lost"], rolled_back.len(), "{integrity}");
    assert_eq!(integrity["acknowledged"], DOCUMENTS);
    for key in ["phantom", "duplicated", "corrupted"] {
        assert_eq!(integrity[key], 0, "{key}: {integrity}");
    }
    for (_, id) in &rolled_back {
        let bson::Bson::ObjectId(id) = id else { panic!("{id}") };
        assert!(integrity.to_string().contains(&id.to_hex()), "{id} is not named: {integrity}");
    }
}

#[test]
fn a_run_on_a_sharded_cluster_shards_its_collection_and_finds_every_document() {
    let cluster = Cluster::start(&sharded::Options { routers: 2, ..sharded::Options::default() }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut text = inserts("sharded", 10, &format!("{{documents: {DOCUMENTS}}}"));
    text.push_str("shard: {key: {_id: hashed}}\n");
    let (output, run) = run(dir.path(), &cluster.uri(), &text, || true, || {});
    assert_eq!(output.status.code(), Some(0), "{}\n{}", run["reasons"], stderr(&output));
    assert_eq!((&run["integrity"]["found"], &run["integrity"]["lost"]), (&DOCUMENTS.into(), &0.into()));
    let documents = [0, 1].map(|shard| cluster.shard(shard).documents("plimsoll_test.sharded"));
    assert_eq!(documents.iter().sum::<usize>() as u64, DOCUMENTS);
    assert!(documents.iter().all(|count| *count > 800), "{documents:?}");
    assert!((0..2).all(|router| cluster.routed(router) > 50), "both routers have a share");
    let shards = &run["integrity"]["shards"];
    let counts = ["shard0", "shard1"].map(|name| shards["documents"][name].as_u64().unwrap() as usize);
    assert_eq!((counts, shards["orphans"].is_null()), (documents, true), "{shards}");
    let sentence = "The documents of this run by shard: ";
    assert!(run["conclusions"].to_string().contains(sentence), "{}", run["conclusions"]);
}

/// Audits a run again; returns the exit code and the findings.
fn audit_again(dir: &Path, uri: &str) -> (Option<i32>, Value) {
    let run = dir.join("run");
    let output = plimsoll_with(&["audit", run.to_str().unwrap(), "--server", uri, "--json"]);
    (output.status.code(), json(&output))
}

#[test]
fn an_audit_names_the_document_that_a_secondary_lost_and_leaves_a_member_that_is_down_open() {
    let (set, dir) = (set(3), tempfile::tempdir().unwrap());
    let mut text = inserts("members", 10, "{documents: 2_000}");
    text.push_str("audit: {lag_max: 300ms}\n");
    let (output, run) = run(dir.path(), &set.uri(), &text, || true, || {});
    assert_eq!(output.status.code(), Some(0), "{}\n{}", run["reasons"], stderr(&output));
    assert_eq!(run["integrity"]["members"]["compared"].as_array().unwrap().len(), 2, "{}", run["integrity"]);

    let member = set.addresses()[2].to_string();
    let Some(bson::Bson::ObjectId(id)) = set.lose(2, "plimsoll_test.members", 1234) else { panic!() };
    let (code, integrity) = audit_again(dir.path(), &set.uri());
    assert_eq!((code, &integrity["member_differences"]), (Some(4), &1.into()), "{integrity}");
    assert_eq!(integrity["examples"][0], format!("missing on {member}: {id}"), "{integrity}");
    assert_eq!((&integrity["lost"], &integrity["found"]), (&0.into(), &2_000.into()));

    set.kill(2);
    let (code, integrity) = audit_again(dir.path(), &set.uri());
    assert_eq!((code, integrity["member_differences"].is_null()), (Some(3), true), "{integrity}");
    let open = integrity["members"]["open"][0].as_str().unwrap();
    assert!(open.contains(&member), "{open}");
}

#[test]
fn an_audit_of_a_cluster_with_a_lagging_shard_finds_every_document_and_stays_open() {
    let cluster = Cluster::start(&sharded::Options::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut text = inserts("lagging", 10, "{documents: 2_000}");
    text.push_str("shard: {key: {_id: hashed}}\naudit: {lag_max: 300ms}\n");
    let (output, run) = run(dir.path(), &cluster.uri(), &text, || true, || {});
    assert_eq!(output.status.code(), Some(0), "{}\n{}", run["reasons"], stderr(&output));
    cluster.shard(1).hold(true);
    cluster.shard(1).elect(1).unwrap();
    let (code, integrity) = audit_again(dir.path(), &cluster.uri());
    assert_eq!((code, &integrity["found"]), (Some(3), &2_000.into()), "{integrity}");
    let open = integrity["shards"]["open"][0].as_str().unwrap();
    assert!(open.starts_with("The shard shard1 lags"), "{open}");
}

/// A scenario that inserts 2,000 documents, and then sends 2,000 operations at `w: 1`.
fn changes(collection: &str, operation: &str) -> String {
    let text = inserts(collection, 10, "{documents: 2_000}").replace("{w: 1, j: true}", "{w: 1}");
    let load = format!("{{operation: {operation}, arrivals: {{closed: {{writers: 2}}}}}}");
    format!("{text}  - load:\n      change: {load}\n    stop: {{operations: 2_000}}\n")
}

/// Runs a scenario on a replica set that fails over once its log has this many entries.
fn run_through_a_failover_at(set: &ReplicaSet, text: &str, entries: usize) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let fail_over = || {
        let (killed, _) = set.fail_over().unwrap();
        set.restart(killed).unwrap();
    };
    let (output, run) = run(dir.path(), &set.uri(), text, || set.entries() >= entries, fail_over);
    assert_eq!(output.status.code(), Some(4), "{}\n{}", run["reasons"], stderr(&output));
    run["integrity"].clone()
}

fn hex(names: Vec<(String, bson::Bson)>) -> Vec<String> {
    names.into_iter().filter_map(|(_, id)| Some(id.as_object_id()?.to_hex())).collect()
}

/// The documents of an integrity's examples.
fn examples(integrity: &Value) -> Vec<String> {
    let examples = integrity["examples"].as_array().unwrap().iter();
    examples.map(|it| it.as_str().unwrap().rsplit(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn a_run_is_told_which_updates_a_failover_rolled_back() {
    for (collection, operation) in [
        ("increments", "{update: {update: {$inc: {visits: 1}}}}"),
        (
            "kinds",
            "{update: {update: {one_of: [{$inc: {visits: 1}}, {$inc: {visits: 5}}, {$push: {tags: x}}]}}}",
        ),
    ] {
        let set = set(5);
        let integrity = run_through_a_failover_at(&set, &changes(collection, operation), 800);
        let rolled_back = hex(set.rolled_back_updates());
        assert!(!rolled_back.is_empty() && set.rolled_back().is_empty());
        let lost = integrity["lost_increments"].as_u64().unwrap() as usize;
        // Two lost updates of different kinds of one document may count as one.
        let lost_min = match collection {
            "kinds" => rolled_back.iter().collect::<HashSet<_>>().len(),
            _ => rolled_back.len(),
        };
        assert!((lost_min..=rolled_back.len()).contains(&lost), "{rolled_back:?}: {integrity}");
        assert!(
            rolled_back.iter().all(|id| examples(&integrity).contains(id)),
            "{rolled_back:?}: {integrity}"
        );
        assert_eq!((&integrity["lost"], &integrity["corrupted"]), (&0.into(), &0.into()), "{integrity}");
    }
}

#[test]
fn a_run_is_told_which_transactions_a_failover_rolled_back() {
    let set = set(5);
    let operation = "{transaction: {operations: [{insert: {batch: 1}}, {replace: {}}]}}";
    let integrity = run_through_a_failover_at(&set, &changes("transactions", operation), 1_500);
    let rolled_back = [hex(set.rolled_back()), hex(set.rolled_back_updates())].concat();
    let lost = integrity["lost"].as_u64().unwrap() as usize;
    // A transaction of each writer may be rolled back without an answer.
    assert!(lost > 0 && (lost..=lost + 4).contains(&rolled_back.len()), "{rolled_back:?}: {integrity}");
    assert!(examples(&integrity).iter().all(|id| rolled_back.contains(id)), "{rolled_back:?}: {integrity}");
    assert_eq!((&integrity["half_transactions"], &integrity["phantom"]), (&Value::Null, &0.into()));
}

#[test]
fn a_run_is_told_what_members_whose_time_lags_rolled_back() {
    let set = set(0);
    [1, 2].into_iter().for_each(|member| set.delay(member, std::time::Duration::from_millis(20)));
    let text = changes("delayed", "{insert: {}}");
    let integrity = run_through_a_failover_at(&set, &text, 800);
    let rolled_back = hex(set.rolled_back());
    assert!(!rolled_back.is_empty());
    assert_eq!(integrity["lost"], rolled_back.len(), "{integrity}");
    assert!(examples(&integrity).iter().all(|id| rolled_back.contains(id)), "{integrity}");
}

#[test]
fn a_member_whose_time_lags_is_compared_when_it_has_caught_up_and_else_left_open() {
    for (delay_s, code, compared) in [(1, 0, 2), (3600, 3, 1)] {
        let (set, dir) = (set(0), tempfile::tempdir().unwrap());
        set.delay(2, std::time::Duration::from_secs(delay_s));
        let lag_max = if compared == 2 { "30s" } else { "300ms" };
        let text = inserts("late", 10, "{documents: 2_000}") + &format!("audit: {{lag_max: {lag_max}}}\n");
        let (output, run) = run(dir.path(), &set.uri(), &text, || true, || {});
        let members = &run["integrity"]["members"];
        assert_eq!(output.status.code(), Some(code), "{members}: {}", stderr(&output));
        assert_eq!(members["compared"].as_array().unwrap().len(), compared, "{members}");
        let open = members["open"].to_string().contains(&set.addresses()[2].to_string());
        assert_eq!(open, compared == 1, "{members}");
    }
}

#[test]
fn a_run_on_a_cluster_is_told_which_transactions_and_updates_a_shard_rolled_back() {
    let shard = replica_set::Options { lag: 5, ..replica_set::Options::default() };
    for operation in [
        "{transaction: {operations: [{insert: {batch: 4}}, {replace: {}}]}}",
        "{update: {update: {$inc: {visits: 1}}}}",
    ] {
        let options = sharded::Options { shard: shard.clone(), ..sharded::Options::default() };
        let cluster = Cluster::start(&options).unwrap();
        let (dir, set) = (tempfile::tempdir().unwrap(), cluster.shard(1));
        let text = changes("changed", operation) + "shard: {key: {_id: hashed}}\n";
        let fail_over = || {
            let (killed, _) = set.fail_over().unwrap();
            set.restart(killed).unwrap();
        };
        let (output, run) = run(dir.path(), &cluster.uri(), &text, || set.entries() >= 700, fail_over);
        let integrity = &run["integrity"];
        assert_eq!(output.status.code(), Some(4), "{operation}: {}\n{}", run["reasons"], stderr(&output));
        let rolled_back = [hex(set.rolled_back()), hex(set.rolled_back_updates())].concat();
        let lost: u64 = ["lost", "lost_increments"].iter().filter_map(|key| integrity[key].as_u64()).sum();
        assert!(lost > 0 && lost as usize <= rolled_back.len(), "{operation}: {rolled_back:?}: {integrity}");
        let named = integrity["examples"].as_array().unwrap().iter().filter_map(Value::as_str);
        let mut named = named.filter(|it| it.starts_with("lost"));
        assert!(
            named.all(|it| rolled_back.iter().any(|id| it.ends_with(id))),
            "{rolled_back:?}: {integrity}"
        );
    }
}
