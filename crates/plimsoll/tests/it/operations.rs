//! Tests every operation with both clients: the stored documents, and the findings of an audit.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use plimsoll_document::{Identity, Program, Settings};
use plimsoll_ledger::Receipt;
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::{Value, json};

use crate::program::{inserts, json, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};

const CLIENTS: [&str; 2] = ["lean", "driver"];

/// A phase of `count` operations over two connections.
fn phase(name: &str, operation: &str, count: u32) -> String {
    format!(
        "  - load:\n      {name}: {{operation: {operation}, arrivals: {{closed: {{writers: 2}}}}}}\n    stop: {{operations: {count}}}\n"
    )
}

/// Runs a scenario on the shared server into `out`.
fn run_into(text: &str, out: &Path) -> Value {
    let file = scenario(out.parent().unwrap(), text);
    let args =
        ["run", file.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap(), "--json"];
    let output = plimsoll_with(&args);
    assert!(matches!(output.status.code(), Some(0 | 97 | 98 | 99)), "{}", stderr(&output));
    json(&output)
}

fn run(text: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    run_into(text, &dir.path().join("run"))
}

/// Runs a command on the shared server.
pub fn ask(command: &RawDocumentBuf) -> bson::Document {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        bson::Document::try_from(connection.command("plimsoll_test", command).await.unwrap().as_ref())
            .unwrap()
    })
}

/// The first document of a collection that matches the filter.
fn found(collection: &str, filter: RawDocumentBuf) -> Option<bson::Document> {
    let reply = ask(&rawdoc! {"find": collection, "filter": filter, "limit": 1});
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.first().map(|first| first.as_document().unwrap().clone())
}

/// Inserts 2000 documents, then runs 200 of each operation, given as name, operation and the documents that
/// it reads or writes; checks counts, verdict and integrity with each client.
fn check(name: &str, more: &str, operations: &[(&str, &str, u64)], integrity: &Value) {
    for client in CLIENTS {
        let mut text = inserts(&format!("op_{name}_{client}"), 50, "{documents: 2_000}");
        operations.iter().for_each(|(name, operation, _)| text.push_str(&phase(name, operation, 200)));
        let expect = operations.iter().map(|(name, ..)| format!("{name}.errors: ['count==0']"));
        let expect = expect.collect::<Vec<_>>().join(", ");
        let run = run(&format!("{text}client: {client}\nexpect: {{{expect}}}\n{more}"));
        for (name, _, documents) in operations {
            let done = &run["operations"][name];
            let counted = (&done["count"], &done["documents"]);
            assert_eq!(counted, (&json!(200), &json!(documents)), "{client} {name}: {done}");
        }
        assert_eq!(run["verdict"], "pass", "{client} {name}: {}", run["reasons"]);
        for (key, expected) in integrity.as_object().unwrap() {
            assert_eq!(&run["integrity"][key], expected, "{client} {name} {key}: {}", run["integrity"]);
        }
        assert_eq!(run["integrity"]["lost"], 0, "{client} {name}: {}", run["integrity"]);
    }
}

fn proven() -> Value {
    json!({"acknowledged": 2000, "found": 2000, "not_audited": 0, "deleted": 0, "phantom": 0, "corrupted": 0})
}

const GROUP: &str = "{aggregate: {pipeline: [{$match: {n: {$gte: {$int: {min: 0, max: 1}}}}}, \
                     {$group: {_id: null, sum: {$sum: '$n'}}}]}}";

#[test]
fn every_read_counts_what_it_reads() {
    let reads = [
        ("find", "{find: {}}", 200),
        ("zipf", "{find: {keys: {zipf: {exponent: 0.99}}}}", 200),
        ("latest", "{find: {keys: latest}}", 200),
        ("fields", "{find: {projection: {n: 1}}}", 200),
        ("one", "{range: {limit: 1}}", 200),
        ("part", "{range: {limit: {min: 1, max: 1}, projection: {_id: 0, n: 1}, keys: latest}}", 200),
        ("group", GROUP, 200),
        ("count", "{count: {filter: {n: {$lt: 100}}}}", 200),
        ("none", "{count: {filter: {n: -1}}}", 200),
        (
            "all",
            "{aggregate: {pipeline: [{$project: {n: 1}}, {$limit: 250}], allow_disk_use: false}}",
            50_000,
        ),
    ];
    check("reads", "", &reads, &proven());
}

#[test]
fn replacements_are_proven_version_by_version() {
    let replacements = [
        ("replace", "{replace: {}}", 200),
        ("favourite", "{replace: {keys: {zipf: {exponent: 1.2}}}}", 200),
        ("swap", "{find_and_modify: {change: replace, returns: new}}", 200),
        ("old", "{find_and_modify: {change: replace, keys: latest}}", 200),
        ("rewrite", "{read_modify_write: {change: replace, keys: {zipf: {}}}}", 200),
        ("find", "{find: {keys: {zipf: {exponent: 1.2}}}}", 200),
    ];
    check("replacements", "", &replacements, &proven());
    check("of_users", "id: user\n", &replacements, &proven());
}

#[test]
fn deletions_are_proven_and_a_document_is_deleted_once() {
    let deletions = [("delete", "{delete: {}}", 200), ("take", "{find_and_modify: {change: remove}}", 200)];
    let kept = json!({"acknowledged": 2000, "found": 1600, "deleted": 400, "not_audited": 0, "phantom": 0});
    check("deletions", "", &deletions, &kept);
}

#[test]
fn a_range_ends_with_its_limit_or_the_collection() {
    for client in CLIENTS {
        let mut text = inserts(&format!("range_{client}"), 50, "{documents: 2_000}");
        text.push_str(&phase("scan", "{range: {limit: {min: 1, max: 100}, keys: {zipf: {}}}}", 400));
        let run = run(&format!("{text}client: {client}\nid: user\n"));
        let done = &run["operations"]["scan"];
        let documents = done["documents"].as_u64().unwrap();
        assert_eq!((&done["count"], &run["verdict"]), (&json!(400), &json!("pass")), "{client}: {done}");
        // 50.5 on average, fewer for ranges that start in the last hundred.
        assert!((400 * 35..400 * 56).contains(&documents), "{client}: {documents}");
    }
}

#[test]
fn changes_by_operators_are_judged_or_named() {
    let operations = [
        ("update", "{update: {update: {$set: {seen: {$number: {}}}}}}"),
        ("one_of", "{update: {update: {one_of: [{$set: {a: {$number: {}}}}, {$unset: {text: 1}}]}}}"),
        ("pick", "{update: {update: {$set: {b: {$pick: {from: [x, y], weights: [9, 1]}}}}}}"),
        ("number", "{update: {update: {$addToSet: {l: 1}}}}"),
        ("modify", "{find_and_modify: {change: {update: {$inc: {n: 1}}}}}"),
        ("rewrite", "{read_modify_write: {change: {update: {$inc: {n: 1}}}}}"),
    ];
    for client in CLIENTS {
        let mut text = inserts(&format!("touch_{client}"), 50, "{documents: 2_000}");
        operations.iter().for_each(|(name, operation)| text.push_str(&phase(name, operation, 100)));
        let run = run(&format!("{text}client: {client}\n"));
        for (name, _) in operations {
            assert_eq!(run["operations"][name]["count"], 100, "{client}: {}", run["operations"][name]);
        }
        let kept = &run["integrity"];
        assert_eq!(run["verdict"], "pass", "{client}: {}", run["reasons"]);
        assert_eq!((&kept["found"], &kept["not_audited"]), (&json!(2000), &json!(0)), "{client}: {kept}");
        let named = [("a", "$set"), ("b", "$set"), ("l", "$addToSet"), ("seen", "$set")];
        let sentences = named.map(|(field, operator)| {
            format!("The field {field} is not judged: its values do not follow from the number of updates ({operator}).")
        });
        assert_eq!(kept["not_judged"], json!(sentences), "{client}");
        let intact = run["conclusions"].to_string().contains("found intact as far as they were judged");
        assert!(intact, "{client}: {}", run["conclusions"]);
    }
}

/// Updates of seven kinds, whose effects on every document follow from the number of each kind.
const SEVERAL_KINDS: [(&str, &str, u64); 3] = [
    (
        "visit",
        "{update: {update: {one_of: [{$inc: {n: 2}}, {$inc: {n: -5}, $set: {state: seen}}, {$push: {tags: x}}]}, keys: {zipf: {}}}}",
        200,
    ),
    (
        "raise",
        "{find_and_modify: {change: {update: {$max: {top: 7}, $addToSet: {labels: y}}}, keys: {zipf: {}}}}",
        200,
    ),
    (
        "rewrite",
        "{read_modify_write: {change: {update: {one_of: [{$max: {top: 9}}, {$set: {state: old}}]}}}}",
        200,
    ),
];

#[test]
fn updates_of_several_kinds_are_judged_by_the_number_of_each() {
    check("kinds", "", &SEVERAL_KINDS, &proven());
    check("kinds_of_users", "id: user\n", &SEVERAL_KINDS, &proven());
}

#[test]
fn a_stored_document_without_one_of_its_updates_breaks_the_promise() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut text = inserts("forgotten_update", 50, "{documents: 2_000}");
    SEVERAL_KINDS.iter().for_each(|(name, operation, _)| text.push_str(&phase(name, operation, 200)));
    let kept = run_into(&text, &out);
    assert_eq!(kept["integrity"]["lost_increments"], Value::Null, "{}", kept["integrity"]);
    let change = |filter: RawDocumentBuf, update: RawDocumentBuf| {
        let updates = rawdoc! {"q": filter, "u": update};
        ask(&rawdoc! {"update": "forgotten_update", "updates": [updates]})
    };
    change(rawdoc! {"tags": "x"}, rawdoc! {"$pop": {"tags": 1}});
    change(rawdoc! {"top": 9, "tags": {"$exists": false}}, rawdoc! {"$set": {"top": 10}});
    change(rawdoc! {"top": {"$exists": false}, "tags": {"$exists": false}}, rawdoc! {"$inc": {"n": 7}});
    let audit = plimsoll_with(&["audit", out.to_str().unwrap(), "--server", &shared(), "--json"]);
    assert_eq!(audit.status.code(), Some(4), "{}", stderr(&audit));
    let found = json(&audit);
    let counts = ["lost_increments", "corrupted"].map(|key| found[key].clone());
    assert_eq!((&counts[0], &counts[1]), (&json!(1), &json!(1)), "{found}");
    assert!(found["extra_increments"].as_u64().unwrap() >= 2, "an amount of 7 is two increments: {found}");
}

#[test]
fn a_find_and_modify_by_filter_may_change_any_document() {
    let by_filter =
        "{find_and_modify: {filter: {n: {$gte: 0}}, change: {update: {$inc: {n: 1}}}, returns: new}}";
    check("filter", "", &[("filter", by_filter, 200)], &json!({"not_audited": 2000}));
}

const TRANSFER: &str =
    "{transaction: {operations: [{insert: {batch: 3}}, {replace: {}}, {find: {}}, {delete: {}}]}}";

#[test]
fn a_transaction_is_acknowledged_as_a_whole() {
    // Each transaction has three new documents, one replaced, one found and one deleted document.
    let kept = json!({
        "acknowledged": 2000 + 600, "found": 2000 + 600 - 200, "deleted": 200, "not_audited": 0, "phantom": 0,
    });
    check("transfer", "", &[("transfer", TRANSFER, 1200)], &kept);
}

/// Inserts 200 documents one by one, of which a unique index admits three.
fn with_duplicates(collection: &str, expect: &str) -> (Option<i32>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let text =
        inserts(collection, 1, "{documents: 200}").replace("{$number: {}}", "{$long: {min: 1, max: 3}}");
    ask(
        &rawdoc! {"createIndexes": collection, "indexes": [{"key": {"n": 1}, "name": "n_1", "unique": true}]},
    );
    let file = scenario(dir.path(), &format!("{text}{expect}"));
    let out = dir.path().join("run");
    let fixed =
        ["run", file.to_str().unwrap(), "--server", &shared(), "--json", "--out", out.to_str().unwrap()];
    let output = plimsoll_with(&fixed);
    (output.status.code(), json(&output))
}

#[test]
fn errors_fail_a_run_unless_an_expectation_allows_them() {
    let (code, run) = with_duplicates("duplicates_none", "");
    assert_eq!((code, &run["verdict"]), (Some(99), &json!("fail")), "{run}");
    let failed = &run["expectations"][0];
    assert_eq!(failed["metric"], "insert.errors{class:duplicate_key}", "{failed}");
    assert_eq!((&failed["value"], &failed["held"]), (&json!(197.0), &json!(false)), "{failed}");
    for (name, expect, code) in [
        ("other", "{'insert.errors{class:timeout}': ['count<10']}", 99),
        ("class", "{'insert.errors{class:duplicate_key}': ['rate<0.99']}", 0),
        ("all", "{errors: ['count==197']}", 0),
    ] {
        let ended = with_duplicates(&format!("duplicates_{name}"), &format!("expect: {expect}\n"));
        assert_eq!(ended.0, Some(code), "{name}: {}", ended.1["reasons"]);
    }
}

#[test]
fn the_first_error_of_a_class_is_kept_with_its_command() {
    ask(&rawdoc! {"create": "first_error", "validator": {"n": {"$exists": false}}});
    for client in CLIENTS {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("client: {client}\n{}", inserts("first_error", 1, "{documents: 20}"));
        let file = scenario(dir.path(), &text);
        let out = dir.path().join("run");
        let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
        let output = plimsoll_with(&["run", file, "--server", &shared(), "--out", out]);
        assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
        let run: Value =
            serde_json::from_str(&std::fs::read_to_string(dir.path().join("run/run.json")).unwrap()).unwrap();
        let error = &run["operations"]["insert"]["first_errors"]["validation"];
        assert_eq!(error["code"], 121, "{client}: {run}");
        let (message, command) = (error["message"].as_str().unwrap(), error["command"].as_str().unwrap());
        assert!(message.contains("validation"), "{client}: {error}");
        assert!(
            command.starts_with("{insert: \"first_error\", documents: [{_id: objectId, "),
            "{client}: {error}"
        );
        let page = std::fs::read_to_string(dir.path().join("run/report.html")).unwrap();
        for shown in [stdout(&output), page] {
            let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains("the first validation error was 121"), "{client}: {shown}");
        }
        assert!(stderr(&output).contains("insert, validation: 121"), "{client}: {}", stderr(&output));
    }
}

#[test]
fn the_first_error_of_an_insert_in_a_transaction_has_the_servers_code_and_words() {
    for client in CLIENTS {
        let name = format!("first_in_transaction_{client}");
        let key = rawdoc! {"key": {"n": 1}, "name": "n_1", "unique": true};
        ask(&rawdoc! {"createIndexes": name.as_str(), "indexes": [key]});
        let text = inserts(&name, 1, "{documents: 3}").replace("{$number: {}}", "{$long: {min: 1, max: 1}}");
        let twice = phase("twice", "{transaction: {operations: [{insert: {}}]}}", 5);
        let run = run(&format!("{text}{twice}client: {client}\nexpect: {{errors: ['count<99']}}\n"));
        let error = &run["operations"]["twice"]["first_errors"]["duplicate_key"];
        // A server gives no name with an error of one document.
        assert_eq!(error["code"], 11000, "{client}: {run}");
        assert!(
            error["message"].as_str().is_some_and(|words| words.contains("duplicate key")),
            "{client}: {error}"
        );
    }
}

#[test]
fn an_operation_that_never_succeeds_fails_the_run() {
    let broken = "{update: {update: {$inc: {text: 1}}}}";
    let mut text = inserts("fruitless", 10, "{documents: 100}");
    text.push_str(&phase("broken", broken, 20));
    text.push_str("expect: {broken.errors: ['rate<=1']}\n");
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &text);
    let out = dir.path().join("run");
    let fixed =
        ["run", file.to_str().unwrap(), "--server", &shared(), "--json", "--out", out.to_str().unwrap()];
    let output = plimsoll_with(&fixed);
    let run = json(&output);
    assert_eq!((output.status.code(), &run["verdict"]), (Some(99), &json!("fail")), "{run}");
    assert_eq!(run["reasons"], json!(["broken: no operation succeeded"]));
}

#[test]
fn an_aborted_transaction_leaves_no_change() {
    // A text cannot be increased, so the last operation is always refused.
    let broken = "{transaction: {operations: [{insert: {batch: 2}}, {replace: {}}, {update: {update: {$inc: {text: 1}}}}]}}";
    for client in CLIENTS {
        let mut text = inserts(&format!("aborted_{client}"), 10, "{documents: 1_000}");
        text.push_str(&phase("broken", broken, 20));
        text.push_str(&format!("client: {client}\n"));
        let run = run(&text);
        let (done, kept) = (&run["operations"]["broken"], &run["integrity"]);
        assert_eq!(
            (&done["count"], &done["errors"]["bad_command"]),
            (&json!(0), &json!(20)),
            "{client}: {done}"
        );
        assert_eq!(
            (&kept["rejected"], &kept["phantom"], &kept["lost"]),
            (&json!(40), &json!(0), &json!(0)),
            "{client}: {kept}"
        );
        assert_eq!(
            kept["found"].as_u64().unwrap() + kept["not_audited"].as_u64().unwrap(),
            1000,
            "{client}: {kept}"
        );
    }
}

/// Runs a scenario that replaces documents, into `out`, and checks that its audit finds all documents.
fn replaced(collection: &str, client: &str, out: &Path) -> Value {
    let mut text = inserts(collection, 50, "{documents: 500}");
    text.push_str(&phase("replace", "{replace: {}}", 10_000));
    text.push_str(&format!("client: {client}\n"));
    let run = run_into(&text, out);
    assert_eq!(
        (&run["verdict"], &run["integrity"]["found"]),
        (&json!("pass"), &json!(500)),
        "{}",
        run["integrity"]
    );
    run
}

fn audited(out: &Path) -> Value {
    json(&plimsoll_with(&["audit", out.to_str().unwrap(), "--server", &shared(), "--json"]))
}

#[test]
fn a_later_audit_finds_a_document_with_an_old_version() {
    for client in CLIENTS {
        let dir = tempfile::tempdir().unwrap();
        let (out, collection) = (dir.path().join("run"), format!("set_back_{client}"));
        replaced(&collection, client, &out);
        assert_eq!(audited(&out)["found"], 500);
        let victim = found(&collection, rawdoc! {"n": 7_i64}).unwrap();
        let id = victim.get_object_id("_id").unwrap();
        let before = older(&victim);
        let update = rawdoc! {"q": {"_id": id}, "u": before};
        ask(&rawdoc! {"update": collection.as_str(), "updates": [update]});
        let kept = audited(&out);
        assert_eq!(
            (&kept["lost"], &kept["found"], &kept["corrupted"]),
            (&json!(1), &json!(499), &json!(0)),
            "{kept}"
        );
        let example = format!("lost: {}", id.to_hex());
        assert_eq!(kept["examples"], json!([example]));
    }
}

/// The version in a document's stamp.
fn version(document: &bson::Document) -> u32 {
    let id = document.get_object_id("_id").unwrap().bytes();
    Receipt::from_object_id(&id).version_of(document.get_i64("_p").unwrap()).unwrap()
}

/// The previous version of a document of [`inserts`] with seed 0.
fn older(document: &bson::Document) -> RawDocumentBuf {
    let id = document.get_object_id("_id").unwrap().bytes();
    let (receipt, version) = (Receipt::from_object_id(&id), version(document));
    assert!(version > 0, "after this many replacements no document has version 0");
    let template = json!({"n": {"$number": {}}, "text": {"$text": {"bytes": 40}}});
    let template = serde_json::from_value(template).unwrap();
    let program = Program::compile(&template, &Settings::default()).unwrap();
    let encode = |version| {
        let mut out = Vec::new();
        let identity = Identity { id, stamp: receipt.stamp_of(version) };
        program.encode_version(version, receipt.number(), &identity, &mut out);
        RawDocumentBuf::from_bytes(out).unwrap()
    };
    let now = bson::Document::try_from(encode(version).as_ref()).unwrap();
    assert_eq!(&now, document, "the version in the stamp matches the content");
    encode(version - 1)
}

#[test]
fn a_read_of_an_undone_update_is_stale_and_the_audit_finds_it_lost() {
    for client in CLIENTS {
        let dir = tempfile::tempdir().unwrap();
        let collection = format!("stale_{client}");
        let mut text = inserts(&collection, 10, "{documents: 20}").replace("title", "workers: 1\ntitle");
        text.push_str(&phase("replace", "{replace: {}}", 200));
        let finds = phase("find", "{find: {}}", 1).replace("operations: 1", "duration: 5s");
        text.push_str(&finds.replace("closed: {writers: 2}", "constant: {rate: 200}"));
        text.push_str(&format!("client: {client}\n"));
        let file = scenario(dir.path(), &text);
        let out = dir.path().join("run");
        let mut command = plimsoll();
        command.args(["run", file.to_str().unwrap(), "--server", &shared(), "--json", "--out"]).arg(&out);
        let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let victim = settled(&collection, 7);
        let update = rawdoc! {"q": {"_id": victim.get_object_id("_id").unwrap()}, "u": older(&victim)};
        ask(&rawdoc! {"update": collection.as_str(), "updates": [update]});
        let run = json(&running.wait_with_output().unwrap());
        let (done, kept) = (&run["operations"]["find"], &run["integrity"]);
        assert!(done["errors"]["stale_read"].as_u64().is_some_and(|stale| stale > 0), "{client}: {done}");
        assert_eq!((&kept["lost"], &kept["found"]), (&json!(1), &json!(19)), "{client}: {kept}");
        assert_eq!(
            (&run["verdict"], &kept["wrong_reads"]),
            (&"fail".into(), &done["errors"]["stale_read"]),
            "{client}"
        );
    }
}

#[test]
fn a_stale_read_violates_the_integrity_whatever_errors_are_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = inserts("stale_allowed", 10, "{documents: 20}").replace("title", "workers: 1\ntitle");
    let finds = phase("find", "{find: {}}", 1).replace("operations: 1", "duration: 5s");
    text.push_str(&finds.replace("closed: {writers: 2}", "constant: {rate: 200}"));
    text.push_str("expect: {find.errors: ['rate<1']}\n");
    let file = scenario(dir.path(), &text);
    let out = dir.path().join("run");
    let mut command = plimsoll();
    command.args(["run", file.to_str().unwrap(), "--server", &shared(), "--json", "--out"]).arg(&out);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stored = || found("stale_allowed", rawdoc! {"n": 7});
    let victim = (0..600).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        stored()
    });
    let victim = victim.unwrap();
    let id = victim.get_object_id("_id").unwrap();
    ask(&rawdoc! {"delete": "stale_allowed", "deletes": [{"q": {"_id": id}, "limit": 1}]});
    crate::faults::wait_for(&out, "stale_read", 1);
    ask(&rawdoc! {"insert": "stale_allowed", "documents": [RawDocumentBuf::try_from(&victim).unwrap()]});
    let output = running.wait_with_output().unwrap();
    let run = json(&output);
    assert_eq!(output.status.code(), Some(4), "{run}");
    let kept = &run["integrity"];
    assert_eq!((&kept["found"], &kept["lost"]), (&json!(20), &json!(0)), "{kept}");
    assert!(kept["wrong_reads"].as_u64() > Some(0), "{kept}");
    assert!(
        run["conclusions"].to_string().contains("contradict what was acknowledged or read before"),
        "{run}"
    );
}

/// The document of a collection whose field `n` has this value, after it was replaced and has not changed for
/// half a second.
fn settled(collection: &str, n: i64) -> bson::Document {
    let mut last = None;
    for _ in 0..600 {
        std::thread::sleep(Duration::from_millis(500));
        let now = found(collection, rawdoc! {"n": n});
        let replaced = |document: &bson::Document| version(document) > 0;
        if now.as_ref().is_some_and(replaced) && now == last {
            return now.unwrap();
        }
        last = now;
    }
    panic!("document {n} was never replaced");
}

/// Runs a small form of a shipped scenario in its own collection.
pub fn shipped(name: &str, more: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let (out, server) = (dir.path().join("run"), shared());
    let collection = format!("collection=plimsoll_test.{}", name.replace('-', "_"));
    let mut args = vec!["run", name, "--server", &server, "--out", out.to_str().unwrap(), "--json"];
    for set in ["phases.0.stop.documents=2000", &collection].iter().chain(more) {
        args.extend(["--set", set]);
    }
    let output = plimsoll_with(&args);
    assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    json(&output)
}

/// Whether every expectation held. A busy machine may miss a rate, which is no fault of the operations.
pub fn all_held(run: &Value) -> bool {
    run["expectations"].as_array().unwrap().iter().all(|expectation| expectation["held"] == true)
}

#[test]
fn the_workloads_of_ycsb_have_their_proportions() {
    for (letter, often, seldom, share) in [
        ("a", "read", Some("update"), 0.5),
        ("b", "read", Some("update"), 0.95),
        ("c", "read", None, 1.0),
        ("d", "read", Some("insert"), 0.95),
        ("e", "scan", Some("insert"), 0.95),
        ("f", "read", Some("read_modify_write"), 0.5),
    ] {
        let run = shipped(&format!("ycsb-{letter}"), &["phases.1.stop.operations=2000"]);
        let count = |name: &str| run["operations"][name]["count"].as_u64().unwrap();
        let (often, seldom) = (count(often), seldom.map_or(0, count));
        assert_eq!(often + seldom, 2000, "{letter}: {}", run["operations"]);
        assert!((often as f64 / 2000.0 - share).abs() < 0.05, "{letter}: {often}");
        let kept = &run["integrity"];
        let inserted = if matches!(letter, "d" | "e") { 2000 + seldom } else { 2000 };
        assert_eq!((&kept["acknowledged"], &kept["lost"]), (&json!(inserted), &json!(0)), "{letter}: {kept}");
        assert_eq!(run["verdict"], "pass", "{letter}: {}", run["reasons"]);
    }
}

#[test]
fn a_ycsb_workload_of_replacements_is_proven_completely() {
    let replace = "phases.1.load.ycsb.mix.update.operation={replace: {keys: {zipf: {exponent: 0.99}}}}";
    let more = ["phases.1.stop.operations=4000", "collection=plimsoll_test.ycsb_replaced", replace];
    let run = shipped("ycsb-a", &more);
    let kept = &run["integrity"];
    assert_eq!((&kept["found"], &kept["not_audited"]), (&json!(2000), &json!(0)), "{kept}");
}

#[test]
fn a_mix_by_time_keeps_the_shares_of_time() {
    let run = shipped("time-share", &["phases.1.stop.duration=5s", "workers=1"]);
    let spent = |name: &str| {
        let done = &run["operations"][name];
        done["count"].as_f64().unwrap() * done["service_ns"]["mean"].as_f64().unwrap()
    };
    let names = [("find", 0.4), ("range", 0.3), ("replace", 0.2), ("insert", 0.1)];
    let total: f64 = names.iter().map(|(name, _)| spent(name)).sum();
    for (name, share) in names {
        let got = spent(name) / total;
        // One slow operation on a busy machine moves a share; the bound excludes the share of another
        // operation.
        assert!((got - share).abs() < 0.05, "{name}: {got:.3} of the time, not {share}");
    }
}

#[test]
fn each_operation_has_its_own_concerns() {
    let operations = [
        ("replace", "{replace: {write_concern: {w: majority}}}"),
        ("delete", "{delete: {write_concern: {w: 1, j: true}}}"),
        ("find", "{find: {read_concern: majority, read_preference: secondaryPreferred}}"),
        ("count", "{count: {filter: {n: -1}, read_concern: local}}"),
    ];
    for client in CLIENTS {
        let mut text = inserts(&format!("concerns_{client}"), 50, "{documents: 2_000}");
        operations.iter().for_each(|(name, operation)| text.push_str(&phase(name, operation, 100)));
        let run = run(&format!("{text}client: {client}\n"));
        assert_eq!(run["verdict"], "pass", "{client}: {}", run["reasons"]);
        let declared = r#"{"w": 1, "j": true} for insert, delete; {"w": "majority"} for replace"#;
        assert_eq!(run["integrity"]["write_concern"], declared, "{client}");
        assert_eq!(run["integrity"]["proof"], "proven", "{client}");
    }
}

#[test]
fn the_uri_sets_the_concerns_of_operations_without_their_own() {
    for client in CLIENTS {
        let dir = tempfile::tempdir().unwrap();
        let text = inserts(&format!("uri_concerns_{client}"), 50, "{documents: 200}")
            .replace("write_concern: {w: 1, j: true}\n", "");
        let text = format!("client: {client}\n{text}{}", phase("find", "{find: {}}", 100));
        let file = scenario(dir.path(), &text);
        let server = format!("{}&w=majority&readConcernLevel=majority&readPreference=nearest", shared());
        let out = dir.path().join("run");
        let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
        let output = plimsoll_with(&["run", file, "--server", &server, "--out", out]);
        let run = std::fs::read_to_string(dir.path().join("run/run.json")).unwrap();
        let run: Value = serde_json::from_str(&run).unwrap();
        let done = (output.status.code(), &run["operations"]["find"]["count"]);
        assert_eq!(done, (Some(0), &json!(100)), "{client}: {run}");
        assert_eq!(run["integrity"]["write_concern"], r#"{"w": "majority"}"#, "{client}");
        let said = stderr(&output);
        assert!(said.contains("read_preference nearest: the address names one server"), "{client}: {said}");
    }
}

#[test]
fn every_read_concern_of_the_shipped_scenario_reads_the_acknowledged_versions() {
    for level in ["local", "available", "majority"] {
        let level = format!("phases.1.load.find.operation.find.read_concern={level}");
        let more = ["matrix=null", "existing=drop", "phases.1.stop.duration=1s", &level];
        let run = shipped("read-concern-cost", &more);
        assert!(all_held(&run), "{level}: {}", run["expectations"]);
        let declared = r#"{"w": "majority"} for fill; {"w": 1} for update"#;
        assert_eq!(run["integrity"]["write_concern"], declared);
    }
}
