//! Tests the program against servers of other products, next to the embedded server. The page `docs/reference/tested-servers.md`
//! states these results.

mod peer;

use std::path::Path;
use std::process::Output;

use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use crate::program::{inserts, json, plimsoll_with, scenario, stderr, stdout};
use peer::{Peer, WIRE_VERSION};

/// A server of the table.
struct Case {
    start: fn() -> Peer,
    /// The name and version of the product, as in every output.
    product: &'static str,
    /// The version that it reports to clients of MongoDB.
    version: &'static str,
    /// Part of its refusal of an aggregation with `$setWindowFields`; `None` if it supports this stage.
    refusal: Option<&'static str>,
    /// Part of its refusal of a change stream; `None` if it supports change streams.
    stream_refusal: Option<&'static str>,
    /// The topology that it reports.
    topology: &'static str,
    /// The documents that an inspection may read of a large collection.
    inventory: &'static [&'static str],
    transactions: Transactions,
}

/// The behaviour of a server in a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transactions {
    Supported,
    /// It refuses the first command.
    Refused,
    /// It stores each write at once, and refuses the end of the transaction.
    Ignored,
}

const RANDOM: &str = "1,000 documents chosen at random";
const FIRST_DOCUMENTS: &str = "the first 1,000 documents";

const CASES: [Case; 3] = [
    Case {
        start: peer::embedded,
        product: "SecantusDB 0.5.3-beta.196",
        version: "8.2.11",
        refusal: None,
        stream_refusal: None,
        topology: "replica set secantus",
        inventory: &[RANDOM],
        transactions: Transactions::Supported,
    },
    Case {
        start: peer::ferretdb,
        product: "FerretDB 1.24.2",
        version: "7.0.42",
        refusal: Some("is not implemented yet"),
        stream_refusal: Some("\"$changeStream\" is not implemented yet (NotImplemented, code 238)"),
        topology: "standalone",
        inventory: &[FIRST_DOCUMENTS],
        transactions: Transactions::Refused,
    },
    Case {
        start: || peer::mongo_java_server(WIRE_VERSION),
        product: "mongo-java-server as MongoDB 5.0.0",
        version: "5.0.0",
        refusal: Some("Unrecognized pipeline stage name"),
        stream_refusal: Some("the server says: Unknown error"),
        topology: "standalone",
        // The server sorts at random with an inconsistent comparison, which Java detects at times.
        inventory: &[RANDOM, FIRST_DOCUMENTS],
        transactions: Transactions::Ignored,
    },
];

/// A shipped scenario, shortened: its name, its settings, and the number of documents that it inserts.
type Short = (&'static str, &'static [&'static str], u64);

const SHORT: [Short; 3] = [
    ("bulk-baseline", &["phases.0.stop={documents: 3000}"], 3_000),
    ("single-insert", &["phases.0.stop={operations: 300}"], 300),
    (
        "ycsb-a",
        &[
            "phases.0.stop.documents=500",
            "phases.1.stop.operations=100",
            // FerretDB's SQLite lets writers wait for each other.
            "phases.1.load.ycsb.arrivals.closed.writers=2",
        ],
        500,
    ),
];

/// Runs a scenario on a server into `out`.
fn run(scenario: &str, server: &str, settings: &[&str], out: &Path) -> Output {
    let mut args = vec!["run", scenario, "--server", server, "--out", out.to_str().unwrap(), "--json"];
    args.extend(settings.iter().flat_map(|setting| ["--set", *setting]));
    // A busy machine must not fail a small load.
    args.extend(["--set", "timeout=60s", "--set", "unreachable_for=60s"]);
    plimsoll_with(&args)
}

#[test]
fn shipped_scenarios_hold_and_every_document_is_proven_on_each_server() {
    for case in CASES {
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        for (name, settings, documents) in SHORT {
            let output = run(name, &peer.uri, settings, &dir.path().join(name));
            let run = json(&output);
            let context = || format!("{} {name}: {} {}", case.product, run["reasons"], stderr(&output));
            assert_eq!((output.status.code(), &run["verdict"]), (Some(0), &json!("pass")), "{}", context());
            let integrity = &run["integrity"];
            let kept = ["acknowledged", "lost", "phantom", "duplicated", "corrupted"];
            assert_eq!(
                kept.map(|key| integrity[key].as_u64()),
                [documents, 0, 0, 0, 0].map(Some),
                "{}",
                context()
            );
            let whole = integrity["found"].as_u64().unwrap() + integrity["not_audited"].as_u64().unwrap();
            assert_eq!((&integrity["proof"], whole), (&json!("proven"), documents), "{}", context());
        }
        let inspected =
            plimsoll_with(&["inspect", "--server", &peer.uri, "--collection", "plimsoll.bulk_baseline"]);
        let text = stdout(&inspected);
        assert!(case.inventory.iter().any(|choice| text.contains(choice)), "{}: {text}", case.product);
    }
}

#[test]
fn each_product_is_named_in_run_json_in_the_summary_and_by_inspect() {
    for case in CASES {
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        let out = dir.path().join("run");
        let run = json(&run("single-insert", &peer.uri, &["phases.0.stop={operations: 20}"], &out));
        assert_eq!(
            (&run["server"]["product"], &run["server"]["version"]),
            (&case.product.into(), &case.version.into())
        );
        assert_eq!(run["server"]["topology"], case.topology, "{}", case.product);
        let summary = stdout(&plimsoll_with(&["show", out.to_str().unwrap()]));
        assert!(plain(&summary).contains(case.product), "{summary}");
        let is_silent = plain(&summary).contains("written by the server not reported");
        assert!(is_silent || case.transactions == Transactions::Supported, "{summary}");
        let inspected = plimsoll_with(&["inspect", "--server", &peer.uri]);
        assert_eq!(inspected.status.code(), Some(0), "{}", stderr(&inspected));
        let text = stdout(&inspected);
        assert!(
            text.lines()
                .any(|line| line.trim_start().starts_with("product ") && line.ends_with(case.product)),
            "{text}"
        );
        assert!(text.contains("plimsoll.single_insert") && text.contains("20, counted"), "{text}");
    }
}

/// A text without its line breaks.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_later_audit_finds_exactly_the_documents_that_were_tampered_with_on_each_server() {
    for case in CASES {
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        let out = dir.path().join("run");
        let settings = ["phases.0.stop={operations: 50}", "collection=tamper.with"];
        assert_eq!(run("single-insert", &peer.uri, &settings, &out).status.code(), Some(0));
        let audit = || {
            let output = plimsoll_with(&["audit", out.to_str().unwrap(), "--server", &peer.uri, "--json"]);
            (output.status.code(), json(&output))
        };
        let findings = |found: &Value| {
            ["found", "lost", "corrupted", "phantom", "duplicated"].map(|key| found[key].as_u64().unwrap())
        };
        let (code, intact) = audit();
        assert_eq!((code, findings(&intact)), (Some(0), [50, 0, 0, 0, 0]), "{}: {intact}", case.product);
        let [deleted, altered] = tamper(&peer);
        let (code, found) = audit();
        assert_eq!((code, findings(&found)), (Some(4), [49, 1, 1, 0, 0]), "{}: {found}", case.product);
        let examples = json!([format!("lost: {deleted}"), format!("corrupted: {altered}")]);
        assert_eq!(found["examples"], examples, "{}", case.product);
    }
}

/// The embedded server is left out: it does not free a unique value that an update changes.
#[test]
fn a_copy_takes_the_order_of_changes_that_a_unique_index_needs() {
    let document = |(id, u): (i32, &str)| doc! {"_id": id, "u": u};
    for start in [peer::ferretdb, || peer::mongo_java_server(WIRE_VERSION)] {
        let (peer, dir) = (start(), tempfile::tempdir().unwrap());
        peer.ask("order", &doc! {"insert": "copy", "documents": [document((2, "x"))]});
        let index = doc! {"key": {"u": 1}, "name": "u_1", "unique": true};
        peer.ask("order", &doc! {"createIndexes": "copy", "indexes": [index]});
        let changes = [(2, "y"), (3, "x"), (2, "z"), (4, "y")].map(document);
        let bytes: Vec<u8> = changes.iter().flat_map(|change| change.to_vec().unwrap()).collect();
        std::fs::write(dir.path().join("changes.bson"), bytes).unwrap();
        let text = format!(
            "guarantee: effectively-once\nsource: {{file: {{path: changes.bson, format: bson}}}}\n\
             sink: {{keyed: {{uri: '{}', collection: order.copy}}}}\npositions: {{file: positions.json}}\n",
            peer.uri
        );
        let path = dir.path().join("copy.yaml");
        std::fs::write(&path, text).unwrap();
        let out = dir.path().join("run");
        let output =
            plimsoll_with(&["pipeline", "run", path.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}: {}", peer.uri, stderr(&output));
        let reply = peer.ask("order", &doc! {"find": "copy", "sort": {"_id": 1}});
        let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        let expected = [(2, "z"), (3, "x"), (4, "y")].map(|one| Bson::from(document(one)));
        assert_eq!(found[..], expected, "{}", peer.uri);
    }
}

/// Deletes the first document and alters the last one. Returns their ids.
fn tamper(peer: &Peer) -> [String; 2] {
    let [first, last] = [1, -1].map(|order| {
        let reply = peer.ask("tamper", &doc! {"find": "with", "sort": {"_id": order}, "limit": 1});
        let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        batch[0].as_document().unwrap().get("_id").unwrap().clone()
    });
    let delete = doc! {"delete": "with", "deletes": [{"q": {"_id": first.clone()}, "limit": 1}]};
    let change = doc! {"$set": {"note": "altered"}};
    let update = doc! {"update": "with", "updates": [{"q": {"_id": last.clone()}, "u": change}]};
    for command in [delete, update] {
        let reply = peer.ask("tamper", &command);
        assert_eq!(number(&reply, "n"), 1, "{reply}");
    }
    [first, last].map(|id| id.as_object_id().unwrap().to_hex())
}

fn number(reply: &Document, key: &str) -> i64 {
    match reply.get(key) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        other => panic!("{key} is {other:?}"),
    }
}

#[test]
fn a_missing_collection_is_dropped_without_an_error_by_both_clients_on_each_server() {
    for case in CASES {
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        for client in ["lean", "driver"] {
            let (collection, client_setting) =
                (format!("collection=absent.{client}"), format!("client={client}"));
            let settings = ["phases.0.stop={operations: 20}", "existing=drop", &client_setting, &collection];
            let output = run("single-insert", &peer.uri, &settings, &dir.path().join(client));
            assert_eq!(output.status.code(), Some(0), "{} {client}: {}", case.product, stderr(&output));
            assert_eq!(json(&output)["integrity"]["found"], 20, "{} {client}", case.product);
        }
    }
}

#[test]
fn an_aggregation_that_a_server_lacks_fails_the_run_with_the_servers_own_words() {
    let fields = "{$setWindowFields: {sortBy: {n: 1}, output: {sum: {$sum: $n}}}}";
    let text = inserts("lacks", 10, "{documents: 20}")
        + &format!(
            "  - load:\n      window:\n        operation: {{aggregate: {{pipeline: [{fields}]}}}}\n        \
             arrivals: {{closed: {{writers: 1}}}}\n    stop: {{operations: 3}}\n"
        );
    for case in CASES {
        let Some(refusal) = case.refusal else { continue };
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        let out = dir.path().join("run");
        let file = scenario(dir.path(), &text);
        let output = plimsoll_with(&[
            "run",
            file.to_str().unwrap(),
            "--server",
            &peer.uri,
            "--out",
            out.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(99), "{}: {}", case.product, stderr(&output));
        let summary = plain(&stdout(&output));
        for part in ["FAIL", refusal, "$setWindowFields", "window: 3 operations failed"] {
            assert!(summary.contains(part), "{}: `{part}` is not in: {summary}", case.product);
        }
        assert!(summary.contains("20 20 0 0 0 0"), "the inserts are audited all the same: {summary}");
    }
}

#[test]
fn a_server_that_is_too_old_is_refused_before_any_load() {
    let (peer, dir) = (peer::mongo_java_server(8), tempfile::tempdir().unwrap());
    let out = dir.path().join("run");
    let output = run("single-insert", &peer.uri, &[], &out);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("speaks wire version 8 at most"), "{}", stderr(&output));
    assert!(!out.exists());
}

/// The operations, each with its name in the scenario.
const OPERATIONS: [(&str, &str); 11] = [
    ("find", "{find: {}}"),
    ("filter", "{find: {filter: {n: {$gte: 0}}, limit: 5, read_concern: local}}"),
    ("range", "{range: {limit: 10}}"),
    ("count", "{count: {filter: {n: {$gte: 0}}}}"),
    ("group", "{aggregate: {pipeline: [{$match: {n: {$gte: 0}}}, {$group: {_id: null, sum: {$sum: $n}}}]}}"),
    ("update", "{update: {update: {$set: {seen: {$number: {}}}}}}"),
    ("replace", "{replace: {}}"),
    ("again", "{read_modify_write: {change: {update: {$set: {again: 1}}}}}"),
    ("modify", "{find_and_modify: {change: {update: {$set: {modified: 1}}}}}"),
    ("remove", "{delete: {}}"),
    ("take", "{find_and_modify: {change: remove}}"),
];

/// A phase of five operations over two connections.
fn phase(name: &str, operation: &str) -> String {
    format!(
        "  - load:\n      {name}: {{operation: {operation}, arrivals: {{closed: {{writers: 2}}}}}}\n    stop: {{operations: 5}}\n"
    )
}

#[test]
fn every_operation_is_acknowledged_and_every_document_accounted_for_on_each_server() {
    let phases = OPERATIONS.map(|(name, operation)| phase(name, operation)).concat();
    let text = inserts("every", 50, "{documents: 200}") + &phases;
    for case in CASES {
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        let file = scenario(dir.path(), &text);
        let output = run(file.to_str().unwrap(), &peer.uri, &[], &dir.path().join("run"));
        let run = json(&output);
        assert_eq!(output.status.code(), Some(0), "{}: {} {}", case.product, run["reasons"], stderr(&output));
        for (name, _) in OPERATIONS {
            assert_eq!(run["operations"][name]["count"], 5, "{} {name}", case.product);
        }
        let accounted =
            ["found", "not_audited", "deleted"].map(|key| run["integrity"][key].as_u64().unwrap());
        assert_eq!(accounted.iter().sum::<u64>(), 200, "{}: {}", case.product, run["integrity"]);
    }
}

#[test]
fn writes_of_a_transaction_that_never_commits_are_found_where_a_server_stores_them() {
    let transaction = phase("both", "{transaction: {operations: [{insert: {}}, {find: {}}]}}");
    let text = inserts("unfinished", 50, "{documents: 50}") + &transaction;
    for case in CASES.into_iter().filter(|case| case.transactions != Transactions::Supported) {
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        let file = scenario(dir.path(), &text);
        let output = run(file.to_str().unwrap(), &peer.uri, &[], &dir.path().join("run"));
        let run = json(&output);
        let (code, phantoms) = if case.transactions == Transactions::Ignored { (4, 5) } else { (99, 0) };
        assert_eq!(output.status.code(), Some(code), "{}: {}", case.product, run["reasons"]);
        assert_eq!(run["integrity"]["phantom"], phantoms, "{}: {}", case.product, run["integrity"]);
        assert!(run["reasons"].to_string().contains("both: no operation succeeded"), "{}", run["reasons"]);
    }
}

#[test]
fn a_change_stream_that_a_server_lacks_is_refused_in_the_servers_own_words() {
    let text = "name: changes\nguarantee: at-least-once\nsource: {change_stream: {uri: 'mongodb://localhost', watch: shop.orders, \
                start: now}}\nsink: {noop: {}}\npositions: {file: positions}\n";
    for case in CASES {
        let Some(refusal) = case.stream_refusal else { continue };
        let (peer, dir) = ((case.start)(), tempfile::tempdir().unwrap());
        let file = scenario(dir.path(), text);
        let out = dir.path().join("run");
        let words =
            ["pipeline", "run", file.to_str().unwrap(), "--server", &peer.uri, "--for", "30s", "--out"];
        let output = plimsoll_with(&[&words[..], &[out.to_str().unwrap()]].concat());
        let said = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{}: {said}", case.product);
        assert!(plain(&said).contains(refusal), "{}: {said}", case.product);
        assert!(!said.contains("RawDocumentBuf") && !said.contains("labels:"), "{}: {said}", case.product);
    }
}

#[test]
fn a_user_logs_in_with_plain_where_the_server_has_no_scram() {
    let (peer, dir) = (peer::ferretdb(), tempfile::tempdir().unwrap());
    let uri = peer.uri.replace("mongodb://", "mongodb://ann:word@");
    let settings = ["phases.0.stop={operations: 20}"];
    let plain =
        run("single-insert", &format!("{uri}&authMechanism=PLAIN"), &settings, &dir.path().join("plain"));
    assert_eq!(plain.status.code(), Some(0), "{}", stderr(&plain));
    assert_eq!(json(&plain)["integrity"]["found"], 20);
    let scram = run("single-insert", &uri, &settings, &dir.path().join("scram"));
    assert_eq!(scram.status.code(), Some(3));
    assert!(stderr(&scram).contains("only for PLAIN: set authMechanism"), "{}", stderr(&scram));
}
