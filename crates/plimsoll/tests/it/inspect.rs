//! Tests `plimsoll inspect` against the embedded server.

use std::net::TcpListener;
use std::process::Output;

use bson::{Bson, Document, RawDocumentBuf, doc};
use plimsoll_deployment::Namespace;
use plimsoll_measure::inspection::{
    Choice, Collection, Counting, Inspection, Kind, Presence, SamplePosition, Source, difference,
};
use plimsoll_report::text::Screen;
use plimsoll_wire::{ConnectOptions, Connection};

use crate::program::{plimsoll_with, shared, stderr, stdout};

/// Runs commands on the shared server, in order.
fn ask(db: &str, commands: &[Document]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = connect().await;
        for command in commands {
            connection.command(db, &RawDocumentBuf::try_from(command).unwrap()).await.unwrap();
        }
    });
}

async fn connect() -> Connection {
    let uri = shared();
    let address = uri.trim_start_matches("mongodb://").split('/').next().unwrap();
    Connection::connect(&ConnectOptions::new(address.parse().unwrap())).await.unwrap()
}

fn insert(collection: &str, documents: Vec<Document>) -> Document {
    doc! {"insert": collection, "documents": documents}
}

/// Inspects the shared server.
fn inspect(args: &[&str]) -> Output {
    let server = shared();
    let mut all = vec!["inspect", "--server", &server];
    all.extend(args);
    plimsoll_with(&all)
}

/// The inspection as JSON, parsed by the type that wrote it.
#[track_caller]
fn inspected(args: &[&str], code: i32) -> Inspection {
    let output = inspect(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn one(args: &[&str], code: i32) -> Collection {
    let mut inspection = inspected(args, code);
    assert_eq!(inspection.collections.len(), 1);
    inspection.collections.remove(0)
}

fn at(second: i64) -> Bson {
    Bson::DateTime(bson::DateTime::from_millis(second * 1000))
}

/// A document with a value of every type that a server accepts.
fn every_type() -> Document {
    let scope = bson::JavaScriptCodeWithScope { code: "f()".into(), scope: doc! {"a": 1} };
    let regex = bson::Regex { pattern: "^a".try_into().unwrap(), options: "i".try_into().unwrap() };
    let binary = |subtype, len| bson::Binary { subtype, bytes: vec![1; len] };
    doc! {
        "double": 1.5, "string": "é", "object": {"deep": {"er": 1}}, "array": [1, "two", [3.0]],
        "binData": binary(bson::spec::BinarySubtype::Generic, 3),
        "uuid": binary(bson::spec::BinarySubtype::Uuid, 16), "objectId": bson::oid::ObjectId::new(), "bool": true,
        "date": at(0), "null": Bson::Null, "regex": regex,
        "javascript": Bson::JavaScriptCode("f()".into()), "javascriptWithScope": scope, "int": 1,
        "timestamp": bson::Timestamp { time: 5, increment: 1 }, "long": 1_i64,
        "decimal": "1.5".parse::<bson::Decimal128>().unwrap(), "minKey": Bson::MinKey, "maxKey": Bson::MaxKey,
        "symbol": Bson::Symbol("s".into()), "undefined": Bson::Undefined,
    }
}

#[test]
fn a_document_of_every_type_is_described_field_by_field() {
    ask("inspect_types", &[insert("all", vec![every_type()])]);
    let collection = one(&["--database", "inspect_types"], 0);
    let inventory = collection.inventory.unwrap();
    assert_eq!((inventory.choice, inventory.documents, inventory.cut), (Choice::All, 1, false));
    let named = |name: &str| inventory.fields.iter().find(|field| field.path == name).unwrap();
    for name in every_type().keys().filter(|name| *name != "uuid") {
        let types: Vec<_> = named(name).types.keys().collect();
        assert_eq!(types, [name]);
    }
    assert!(named("uuid").types.contains_key("binData (UUID)"));
    assert_eq!((named("array[]").values, named("array[][]").values), (3, 1));
    assert_eq!((named("object.deep.er").documents, named("object.deep.er").share), (1, 1.0));
    let sample = &collection.samples[0].document;
    assert_eq!((&sample["string"], &sample["date"]["$date"]), (&"é".into(), &"1970-01-01T00:00:00Z".into()));
    assert_eq!(collection.times.iter().map(|times| times.path.as_str()).collect::<Vec<_>>(), ["_id", "date"]);
}

#[test]
fn the_text_has_at_most_a_hundred_columns() {
    ask("inspect_text", &[insert("one", vec![every_type()]), insert("two", vec![doc! {"k".repeat(200): 1}])]);
    let output = inspect(&["--database", "inspect_text", "--forbidden", "note"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "NO FORBIDDEN FIELDS",
        "inspect_text.one",
        "Fields of inspect_text.one: the only document",
        "1, counted",
        "SecantusDB",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100 && !line.contains('\u{1b}')), "{text}");
    assert!(stderr(&output).is_empty());
}

#[test]
fn collections_are_listed_with_their_options_and_indexes() {
    let series = doc! {"timeField": "t", "metaField": "m"};
    let commands = [
        doc! {"create": "capped", "capped": true, "size": 8192, "max": 5},
        doc! {"create": "series", "timeseries": series},
        doc! {"create": "valid", "validator": {"a": {"$exists": true}}},
        insert("plain", (0..7).map(|number| doc! {"_id": number, "at": at(number), "a": number}).collect()),
        doc! {"create": "view", "viewOn": "plain", "pipeline": []},
        insert("capped", (0..9).map(|number| doc! {"n": number}).collect()),
        insert("series", vec![doc! {"t": at(60), "m": 1, "v": 1.5}, doc! {"t": at(0), "m": 2, "v": 2.5}]),
        doc! {"createIndexes": "plain", "indexes": [
            {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 1_000_000_000},
            {"key": {"a": -1}, "name": "a_-1", "unique": true, "partialFilterExpression": {"a": {"$gt": 2}}},
        ]},
    ];
    ask("inspect_kinds", &commands);
    let collections = inspected(&["--database", "inspect_kinds"], 0).collections;
    let names: Vec<_> = collections.iter().map(|each| (each.namespace.as_str(), each.documents)).collect();
    let expected = [("capped", 5), ("plain", 7), ("series", 2), ("valid", 0), ("view", 7)];
    let expected = expected.map(|(name, documents)| (format!("inspect_kinds.{name}"), Some(documents)));
    assert_eq!(names, expected.each_ref().map(|(name, documents)| (name.as_str(), *documents)));
    assert_eq!(collections[0].options.capped.unwrap().documents_max, Some(5));
    assert_eq!((collections[2].kind, collections[4].kind), (Kind::TimeSeries, Kind::View));
    assert!(collections[3].options.validator && !collections[1].options.validator);
    let indexes: Vec<_> = collections[1].indexes.iter().flatten().map(|index| index.in_words()).collect();
    assert!(indexes.contains(&r#"at_1 {"at":1}, expires after 1000000000 s"#.to_owned()), "{indexes:?}");
    assert!(indexes.contains(&r#"a_-1 {"a":-1}, unique, only {"a":{"$gt":2}}"#.to_owned()), "{indexes:?}");
    // The embedded server derives the sizes on disk from the sizes of the documents, so these sizes are
    // absent.
    assert!(
        collections.iter().all(|each| each.size.storage_bytes.is_none() && each.size.compression.is_none())
    );
    assert_eq!(collections[2].times[0].span_s, 60.0);
}

#[test]
fn a_large_collection_is_sampled_and_counted_whole() {
    let document = |number: i64| {
        let mut document =
            doc! {"_id": number, "at": at(number), "seen": at(number), "log": [{"at": at(number)}]};
        if number == 4321 {
            document.insert("note", "the only one");
        }
        document
    };
    let batches: Vec<_> = (0..5)
        .map(|batch| insert("many", (batch * 1000..(batch + 1) * 1000).map(document).collect()))
        .collect();
    ask("inspect_large", &batches);
    ask("inspect_large", &[doc! {"createIndexes": "many", "indexes": [{"key": {"at": 1}, "name": "at_1"}]}]);
    let many = one(
        &[
            "--collection",
            "inspect_large.many",
            "--forbidden",
            "note",
            "--forbidden",
            "*.at",
            "--forbidden",
            "x",
        ],
        99,
    );
    assert_eq!((many.documents, many.counting), (Some(5000), Counting::Counted));
    let inventory = many.inventory.unwrap();
    assert_eq!((inventory.choice, inventory.documents), (Choice::Random, 1000));
    let times: Vec<_> = many.times.iter().map(|times| (times.path.as_str(), times.source)).collect();
    assert_eq!(times, [("at", Source::Index), ("seen", Source::Scan), ("log[].at", Source::Inventory)]);
    assert_eq!((many.times[0].span_s, many.times[1].span_s), (4999.0, 4999.0));
    assert!(many.times[2].span_s <= 4999.0);
    let [note, at, x] = many.forbidden.as_slice() else { panic!("{:?}", many.forbidden) };
    assert_eq!(
        (note.presence, note.documents, note.examples.as_slice()),
        (Presence::Found, Some(1), &[4321.into()][..])
    );
    assert_eq!(
        (at.presence, at.sampled, at.paths.as_slice()),
        (Presence::Found, 1000, &["log[].at".to_owned()][..])
    );
    assert_eq!((x.presence, x.documents), (Presence::Absent, Some(0)));
    let places: Vec<_> = many.samples.iter().map(|sample| sample.place).collect();
    assert_eq!(places, [SamplePosition::First, SamplePosition::Between, SamplePosition::Last]);
    assert_eq!([0, 2].map(|index| &many.samples[index].document["_id"]), [&0, &4999]);
}

#[test]
fn limits_are_kept_and_reported() {
    let wide: Document = (0..600).map(|number| (format!("f{number}"), Bson::Int32(number))).collect();
    let heavy = doc! {"_id": 1, "vector": vec![1.5; 20_000], "small": 1};
    ask("inspect_limits", &[insert("wide", vec![wide]), insert("heavy", vec![heavy])]);
    let collections = inspected(&["--database", "inspect_limits", "--samples", "1"], 0).collections;
    let sample = &collections[0].samples[0];
    assert_eq!((sample.left_out, &sample.document), (1, &serde_json::json!({"_id": 1, "small": 1})));
    let inventory = collections[1].inventory.as_ref().unwrap();
    assert_eq!((inventory.fields.len(), inventory.cut), (500, true));
}

#[test]
fn a_forbidden_field_ends_with_99_and_a_clean_collection_with_0() {
    let user = |name: &str| doc! {"name": name, "login": {"password": "x"}};
    ask(
        "inspect_forbidden",
        &[insert("users", vec![user("ann"), user("bob")]), insert("clean", vec![doc! {"a": 1}])],
    );
    let users = ["--collection", "inspect_forbidden.users"];
    let output = inspect(&[&users[..], &["--forbidden", "*.password"]].concat());
    assert_eq!(output.status.code(), Some(99));
    let text = stdout(&output);
    assert!(text.contains("*.password in 2 documents of inspect_forbidden.users"), "{text}");
    assert!(text.contains("login.password in _id "), "{text}");
    assert!(stderr(&output).contains("a forbidden field"), "{}", stderr(&output));
    one(&[&users[..], &["--forbidden", "password"]].concat(), 0);
    one(&["--collection", "inspect_forbidden.clean", "--forbidden", "*.password"], 0);
    one(&[&users[..], &["--forbidden", "nothing", "--forbidden", "login.password"]].concat(), 99);
}

#[test]
fn a_missing_name_is_reported_with_the_nearest_existing_one() {
    ask("inspect_names", &[insert("orders", vec![doc! {"a": 1}])]);
    for (args, parts) in [
        (
            ["--collection", "inspect_names.odrers"],
            ["collection inspect_names.odrers does not exist", "did you mean `inspect_names.orders`?"],
        ),
        (
            ["--collection", "inspect_naems.orders"],
            ["database inspect_naems does not exist", "did you mean `inspect_names`?"],
        ),
        (
            ["--database", "inspect_naems"],
            ["database inspect_naems does not exist", "did you mean `inspect_names`?"],
        ),
        (
            ["--collection", "inspect_names.zzzzzz"],
            ["collection inspect_names.zzzzzz does not exist", "name an existing one"],
        ),
        (["--collection", "orders"], ["--collection orders", "such as plimsoll.vip"]),
        (["--forbidden", "a..b"], ["--forbidden", "such as *.password"]),
        (["--samples", "21"], ["21", "0..=20"]),
    ] {
        let output = inspect(&args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?} are not in: {message}");
        assert!(stdout(&output).is_empty());
    }
}

#[test]
fn an_unreachable_server_ends_with_3() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (uri, part) in [
        (format!("mongodb://127.0.0.1:{port}"), "refused the connection: start the server there"),
        ("mongodb://no-such-host.invalid:27017/?directConnection=true".to_owned(), "check the host name"),
        (format!("{}&tls=true&connectTimeoutMS=2000", shared()), "if the port is plain, remove `tls=true`"),
    ] {
        let output = plimsoll_with(&["inspect", "--server", &uri]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    let words = plimsoll_with(&["inspect", "--server", "localhosts"]);
    assert_eq!(words.status.code(), Some(2), "{}", stderr(&words));
}

#[test]
fn an_empty_server_is_reported_as_empty() {
    let output = plimsoll_with(&["inspect", "--server", "embedded:relaxed"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("No collection to inspect."), "{}", stdout(&output));
}

#[test]
fn two_inspections_show_the_changes_in_between() {
    let namespace = Namespace { db: "inspect_brief".into(), collection: "orders".into() };
    let brief = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            plimsoll_deployment::inspect::brief(&mut connect().await, &namespace).await.unwrap()
        })
    };
    let before = brief();
    assert!(!before.exists);
    ask("inspect_brief", &[insert("orders", (0..100).map(|number| doc! {"n": number}).collect())]);
    let after = brief();
    let changes = difference(&before, &after);
    assert_eq!((changes.documents.growth(), changes.exists.before), (Some(100), Some(false)));
    assert_eq!(changes.indexes_added, [r#"_id_ {"_id":1}"#]);
    assert_eq!((after.samples.len(), &after.inventory), (1, &None));
    let text = plimsoll_report::inspection::difference(&changes, Screen::PIPE);
    assert!(text.contains("+100") && text.contains("the collection is new"), "{text}");
    assert_eq!(difference(&after, &brief()).documents.growth(), Some(0));
}
