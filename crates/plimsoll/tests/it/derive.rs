//! Tests `plimsoll scenarios derive` against the embedded server: derives from a collection, and runs the result.

use std::process::Output;

use bson::{Bson, Document, RawDocumentBuf, doc};
use plimsoll_measure::inspection::{Collection, Inspection};
use plimsoll_wire::{ConnectOptions, Connection};

use crate::program::{json, plimsoll_with, scenario, shared, stderr, stdout};

const DB: &str = "plimsoll_derive";

/// Runs commands on the shared server, in order.
fn ask(commands: &[Document]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let uri = shared();
        let address = uri.trim_start_matches("mongodb://").split('/').next().unwrap();
        let mut connection =
            Connection::connect(&ConnectOptions::new(address.parse().unwrap())).await.unwrap();
        for command in commands {
            let reply = connection.command(DB, &RawDocumentBuf::try_from(command).unwrap()).await.unwrap();
            assert!(reply.get("writeErrors").unwrap().is_none(), "{reply:?}");
        }
    });
}

fn insert(collection: &str, documents: Vec<Document>) -> Document {
    doc! {"insert": collection, "documents": documents}
}

fn derive(collection: &str, args: &[&str]) -> Output {
    let (server, collection) = (shared(), format!("{DB}.{collection}"));
    let base = ["scenarios", "derive", "--server", &server, "--collection", &collection];
    plimsoll_with(&[&base[..], args].concat())
}

#[track_caller]
fn derived(collection: &str, args: &[&str]) -> String {
    let output = derive(collection, args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// Runs a derived scenario, and inspects the collection that it filled.
#[track_caller]
fn run(text: &str, collection: &str) -> Collection {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), text);
    let out = dir.path().join("run");
    let (server, namespace) = (shared(), format!("{DB}.{collection}"));
    let set = format!("collection={namespace}");
    let args = ["run", file.to_str().unwrap(), "--server", &server, "--set", &set, "--set", "timeout=60s"];
    let more = ["--set", "unreachable_for=60s", "--json", "--out", out.to_str().unwrap()];
    let output = plimsoll_with(&[&args[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{}\n{text}", stderr(&output));
    assert_eq!(json(&output)["integrity"]["lost"], 0);
    let seen = plimsoll_with(&["inspect", "--server", &server, "--collection", &namespace, "--json"]);
    let mut inspection: Inspection = serde_json::from_slice(&seen.stdout).unwrap();
    inspection.collections.remove(0)
}

/// Two thousand documents with known shares, types and sizes; their texts occur nowhere else.
fn orders() -> Vec<Document> {
    let order = |index: i32| {
        let mut order = doc! {
            "customer": format!("zanzibar-{index}-{}", "x".repeat((index % 21) as usize)),
            "status": if index % 10 < 7 { "Quagmire" } else { "Xylophone" }, "paid": index % 4 == 0,
            "total": f64::from(index) * 1.5,
            "lines": vec![doc! {"sku": format!("wombat{index}"), "n": index % 5}; (index % 4) as usize],
            "at": bson::DateTime::from_millis(1_700_000_000_000 + i64::from(index) * 60_000),
            "address": {"city": format!("kumquat-{index}"), "zip": 10_000 + index},
        };
        if index % 5 == 0 {
            order.insert("note", format!("platypus {index}"));
        }
        order
    };
    (0..2000).map(order).collect()
}

const VALUES: [&str; 6] = ["zanzibar", "Quagmire", "Xylophone", "wombat", "kumquat", "platypus"];

#[test]
fn a_derived_scenario_fills_a_collection_of_the_same_kind() {
    ask(&[
        insert("orders", orders()),
        doc! {"createIndexes": "orders", "indexes": [
            {"key": {"customer": 1, "at": -1}, "name": "customer_at", "unique": true},
            {"key": {"address.city": 1}, "name": "city"},
        ]},
    ]);
    for sample in ["500", "5000"] {
        let text = derived("orders", &["--sample", sample]);
        assert!(VALUES.iter().all(|value| !text.contains(value)), "no value is copied: {text}");
        let made = run(&text, &format!("orders_{sample}"));
        assert_eq!(made.documents, Some(2000));
        let mut indexes: Vec<_> = made.indexes.unwrap().into_iter().map(|index| index.keys).collect();
        indexes.sort();
        assert_eq!(indexes, [r#"{"_id":1}"#, r#"{"address.city":1}"#, r#"{"customer":1,"at":-1}"#]);
        let inventory = made.inventory.unwrap();
        let field = |path: &str| inventory.fields.iter().find(|field| field.path == path).unwrap();
        assert!((field("note").share - 0.2).abs() < 0.1, "{}", field("note").share);
        for (path, kind) in [
            ("customer", "string"),
            ("status", "string"),
            ("paid", "bool"),
            ("total", "double"),
            ("lines[].sku", "string"),
            ("lines[].n", "int"),
            ("at", "date"),
            ("address.zip", "int"),
        ] {
            assert_eq!(field(path).types.keys().collect::<Vec<_>>(), [kind], "{path}: {text}");
        }
        let mean =
            orders().iter().map(|it| it.get_str("customer").unwrap().len()).sum::<usize>() as f64 / 2000.0;
        // A string takes five more bytes for its length and its end.
        assert!(
            ((field("customer").bytes.mean - 5.0) / mean - 1.0).abs() < 0.1,
            "{:?}",
            field("customer").bytes
        );
    }
}

#[test]
fn values_are_copied_only_on_request_and_only_where_they_are_few() {
    ask(&[insert("copied", orders())]);
    let text = derived("copied", &["--copy-values"]);
    let copied: Vec<_> = VALUES.iter().filter(|value| text.contains(**value)).collect();
    assert_eq!(copied, [&"Quagmire", &"Xylophone"], "{text}");
    run(&text, "copied_again");
}

#[test]
fn no_extreme_value_of_a_field_is_in_the_scenario() {
    const FIRST_MS: i64 = 1_699_000_000_000;
    let reading = |index: i32| {
        let (far, few) = (i64::from(index), [17, 23, 42][index as usize % 3]);
        let mixed = if index % 2 == 0 { Bson::Int32(5_000 + index) } else { Bson::Null };
        doc! {
            "peculiar": 1_000_003 + 7_919 * index, "year": 1990 + index, "price": 19.99 + f64::from(index),
            "long": 20_000_000_000_i64 + 1_000_000_007 * far, "few": few, "mixed": mixed,
            "at": bson::DateTime::from_millis(FIRST_MS + far * 86_400_000),
        }
    };
    ask(&[insert("extremes", (0..40).map(reading).collect())]);
    let text = derived("extremes", &[]);
    let template = text.lines().map(|line| line.split('#').next().unwrap()).collect::<Vec<_>>().join("\n");
    let last = bson::DateTime::from_millis(FIRST_MS + 39 * 86_400_000).try_to_rfc3339_string().unwrap();
    let first = bson::DateTime::from_millis(FIRST_MS).try_to_rfc3339_string().unwrap();
    for value in [
        "1000003",
        "1308844",
        "1990",
        "2029",
        "20000000000",
        "59000000273",
        "19.99",
        "58.99",
        " 17,",
        " 23,",
        "42",
        "5000",
        "5038",
        &first,
        &last,
    ] {
        assert!(!template.contains(value), "{value}: {template}");
    }
    run(&text, "extremes_again");
}

#[test]
fn odd_names_mixed_types_and_ids_of_any_type_are_handled() {
    let odd = |index: i32| {
        let id = [Bson::Int32(index), Bson::String(format!("s{index}")), Bson::Document(doc! {"n": index})];
        let mixed = [Bson::Null, Bson::Int32(index), Bson::String(format!("m{index}")), Bson::Double(0.5)];
        doc! {
            "_id": id[index as usize % 3].clone(), "mixed": mixed[index as usize % 4].clone(), "a.b": index,
            "$price": 5, "no": true, "日本": {"x y": [[1, 2], [index]], "$gt": 1}, "": "empty",
        }
    };
    ask(&[insert("odd", (0..200).map(odd).collect())]);
    let text = derived("odd", &[]);
    assert!(text.contains("# Each _id was of the type int or string or object."), "{text}");
    let made = run(&text, "odd_again");
    let inventory = made.inventory.unwrap();
    let mixed = inventory.fields.iter().find(|field| field.path == "mixed").unwrap();
    assert_eq!(mixed.types.keys().collect::<Vec<_>>(), ["double", "int", "null", "string"], "{text}");
    assert!(inventory.fields.iter().any(|field| field.path == "_$price"), "{text}");
}

#[test]
fn an_empty_collection_gives_a_scenario_and_a_missing_one_an_error() {
    ask(&[doc! {"create": "empty"}]);
    let text = derived("empty", &[]);
    assert!(text.contains("document: {}"), "{text}");
    assert_eq!(run(&text, "empty_again").documents, Some(1000));
    let missing = derive("empti", &[]);
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
    assert!(stderr(&missing).contains("did you mean `plimsoll_derive.empty`?"), "{}", stderr(&missing));
    let invalid = plimsoll_with(&["scenarios", "derive", "--collection", "nodot"]);
    assert_eq!(invalid.status.code(), Some(2), "{}", stderr(&invalid));
}
