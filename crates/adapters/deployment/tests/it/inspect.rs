//! Inspects scripted servers that no single machine provides, or that refuse commands.

use bson::{Bson, Document, doc, oid::ObjectId};
use plimsoll_deployment::{
    Namespace,
    inspect::{Error, Sampled, Wanted, brief, inspect, sample},
};
use plimsoll_host::scripted::Server;
use plimsoll_measure::inspection::{
    Choice, Collection, Counting, Inspection, Kind, Presence, SamplePosition, Source, difference,
};
use plimsoll_wire::{Address, ConnectOptions, Connection};

/// The answers of a server by the command's name; `None` refuses the command.
type Answers = fn(&str, &Document) -> Option<Document>;

fn start(answers: Answers) -> Server {
    let script = move |command: &Document| answers(command.keys().next()?, command);
    Server::start(script).unwrap()
}

fn cursor(documents: Vec<Document>) -> Document {
    doc! {"cursor": {"firstBatch": documents, "id": 0_i64, "ns": "d.c"}, "ok": 1.0}
}

fn refused(code: i32, message: &str) -> Document {
    doc! {"ok": 0.0, "code": code, "codeName": "Refused", "errmsg": message}
}

fn unauthorized() -> Option<Document> {
    Some(refused(13, "not authorized on d to execute command"))
}

fn id(second: u32) -> ObjectId {
    ObjectId::from_parts(second, [0; 5], [0; 3])
}

/// A server with one large, compressed, capped collection.
fn large(name: &str, command: &Document) -> Option<Document> {
    let sorted = command.get_document("sort").ok().and_then(|sort| sort.values().next()?.as_i32());
    Some(match name {
        "listDatabases" => doc! {"databases": [{"name": "admin"}, {"name": "d"}], "ok": 1.0},
        "dbStats" => doc! {
            "collections": 1, "objects": 95_487_000_i64, "dataSize": 6_779_577_000.0,
            "storageSize": 1_051_639_808.0, "indexSize": 900.0, "ok": 1.0,
        },
        "listCollections" => cursor(vec![
            doc! {"name": "c", "type": "collection", "options": {"capped": true, "size": 1_i64 << 40}},
            doc! {"name": "system.views", "type": "collection", "options": {}},
        ]),
        "collStats" => doc! {
            "count": 95_487_000, "size": 6_779_577_000_i64, "storageSize": 1_051_639_808, "freeStorageSize": 4096,
            "totalIndexSize": 900, "indexSizes": {"_id_": 600, "at_1": 300}, "ok": 1.0,
        },
        "listIndexes" => cursor(vec![
            doc! {"v": 2, "key": {"_id": 1}, "name": "_id_"},
            doc! {"v": 2, "key": {"at": 1}, "name": "at_1"},
        ]),
        "find" if command.contains_key("filter") => cursor(vec![end(command, sorted?)]),
        "find" => cursor(vec![doc! {"_id": id(if sorted == Some(1) { 100 } else { 700 }), "key": "sk"}]),
        "aggregate" => return aggregated(command),
        "killCursors" => doc! {"ok": 1.0},
        _ => return None,
    })
}

/// The first or the last document in the order of a field.
fn end(command: &Document, order: i32) -> Document {
    let second = if order == 1 { 100 } else { 700 };
    match command.get_document("sort").unwrap().keys().next().unwrap().as_str() {
        "_id" => doc! {"_id": id(second)},
        path => doc! {path: bson::DateTime::from_millis(i64::from(second) * 1000)},
    }
}

/// Answers a random sample, and lets every scan exceed its time limit.
fn aggregated(command: &Document) -> Option<Document> {
    let stage = command.get_array("pipeline").ok()?.first()?.as_document()?.clone();
    if !stage.contains_key("$sample") {
        return Some(refused(50, "operation exceeded time limit"));
    }
    let one = |second: u32| {
        let at = bson::DateTime::from_millis(i64::from(second) * 1000);
        doc! {"_id": id(second), "key": "sk", "at": at, "seen": at, "headers": {}}
    };
    Some(cursor((200..260).map(one).collect()))
}

fn with<T>(server: &Server, ask: impl AsyncFnOnce(&mut Connection) -> T) -> T {
    let address = Address { host: "127.0.0.1".into(), port: server.address().port() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        ask(&mut connection).await
    })
}

fn look(server: &Server, wanted: &Wanted) -> Result<Inspection, Error> {
    with(server, async |connection| inspect(connection, wanted).await)
}

fn forbidding(fields: &[&str]) -> Wanted {
    let forbidden = fields.iter().map(|field| field.parse().unwrap()).collect();
    Wanted { samples: 3, forbidden, ..Wanted::default() }
}

fn namespace(collection: &str) -> Namespace {
    Namespace { db: "d".into(), collection: collection.into() }
}

#[test]
fn a_compressed_capped_collection_is_reported_with_its_ratio() {
    let inspection = look(&start(large), &forbidding(&[])).unwrap();
    let [collection] = inspection.collections.as_slice() else { panic!("{:?}", inspection.collections) };
    assert_eq!(collection.namespace, "d.c");
    assert_eq!(collection.options.capped.unwrap().bytes_max, Some(1 << 40));
    let size = &collection.size;
    assert_eq!((size.data_bytes, size.storage_bytes), (Some(6_779_577_000), Some(1_051_639_808)));
    assert!((size.compression.unwrap() - 6.4467).abs() < 0.001, "{size:?}");
    assert_eq!((size.document_bytes, size.free_bytes, size.index_bytes), (Some(71.0), Some(4096), Some(900)));
    let sizes: Vec<_> = collection.indexes.iter().flatten().map(|index| index.bytes).collect();
    assert_eq!(sizes, [Some(600), Some(300)]);
    assert_eq!(inspection.databases[1].storage_bytes, Some(1_051_639_808));
    assert!(inspection.round_trip_ns > 0);
}

#[test]
fn a_scan_above_its_time_limit_is_replaced_by_an_estimate_with_a_note() {
    let inspection = look(&start(large), &forbidding(&["note", "headers"])).unwrap();
    let collection = &inspection.collections[0];
    assert_eq!((collection.documents, collection.counting), (Some(95_487_000), Counting::Estimated));
    let notes = collection.notes.join("\n");
    for part in [
        "documents were not counted: it takes longer",
        "dates without an index",
        "with note were not counted",
    ] {
        assert!(notes.contains(part), "`{part}` is not in: {notes}");
    }
    let inventory = collection.inventory.as_ref().unwrap();
    assert_eq!((inventory.choice, inventory.documents), (Choice::Random, 60));
    let times: Vec<_> =
        collection.times.iter().map(|time| (time.path.as_str(), time.source, time.span_s)).collect();
    assert_eq!(
        times,
        [("_id", Source::Index, 600.0), ("at", Source::Index, 600.0), ("seen", Source::Inventory, 59.0)]
    );
    let [note, headers] = collection.forbidden.as_slice() else { panic!("{:?}", collection.forbidden) };
    assert_eq!((note.presence, note.documents), (Presence::AbsentInInventory, None));
    assert_eq!((headers.presence, headers.sampled, headers.documents), (Presence::Found, 60, None));
    assert!(!inspection.holds());
}

#[test]
fn every_question_has_a_time_limit_and_changes_nothing() {
    let server = start(large);
    look(&server, &forbidding(&["note"])).unwrap();
    let free = ["hello", "ping", "killCursors", "getMore"];
    for command in server.commands() {
        let name = command.keys().next().unwrap().clone();
        let limit = command.get_i32("maxTimeMS");
        assert!(free.contains(&name.as_str()) || limit.is_ok_and(|ms| ms > 0 && ms <= 10_000), "{command}");
        let reads =
            ["aggregate", "collStats", "dbStats", "find", "listCollections", "listDatabases", "listIndexes"];
        assert!(free.contains(&name.as_str()) || reads.contains(&name.as_str()), "{command}");
    }
}

/// A user who may only read documents.
fn reader(name: &str, command: &Document) -> Option<Document> {
    match name {
        "listDatabases" | "dbStats" | "collStats" | "listIndexes" => unauthorized(),
        "listCollections" if !command.contains_key("nameOnly") => unauthorized(),
        "listCollections" => Some(cursor(vec![doc! {"name": "c", "type": "collection"}])),
        "count" => Some(doc! {"n": 1, "ok": 1.0}),
        "find" => Some(cursor(vec![doc! {"_id": 1}])),
        "aggregate" => Some(cursor(vec![doc! {"_id": 1, "n": 1}])),
        _ => None,
    }
}

#[test]
fn a_refused_question_is_left_out_without_a_failure() {
    let wanted = Wanted { databases: vec!["d".into()], samples: 3, ..Wanted::default() };
    let inspection = look(&start(reader), &wanted).unwrap();
    assert!(inspection.notes[0].contains("does not list its databases"), "{:?}", inspection.notes);
    let collection = &inspection.collections[0];
    assert_eq!((collection.documents, collection.counting), (Some(1), Counting::Counted));
    assert_eq!((collection.size.data_bytes, collection.size.compression), (None, None));
    assert_eq!((&collection.indexes, collection.samples.len()), (&None, 1));
    let notes = collection.notes.join("\n");
    assert!(notes.contains("size is not reported: not authorized"), "{notes}");
    assert!(notes.contains("indexes are not reported: not authorized"), "{notes}");
}

#[test]
fn a_field_that_could_not_be_searched_is_not_reported_as_absent() {
    let nothing: Answers = |name, command| match name {
        "find" | "aggregate" | "count" => unauthorized(),
        name => large(name, command),
    };
    let inspection = look(&start(nothing), &forbidding(&["note"])).unwrap();
    let collection = &inspection.collections[0];
    assert_eq!(collection.forbidden[0].presence, Presence::NotChecked);
    assert_eq!((&collection.inventory, collection.samples.len()), (&None, 0));
    assert!(!inspection.holds());
}

#[test]
fn a_server_without_random_samples_returns_its_first_documents() {
    let ordered: Answers = |name, command| match name {
        "aggregate" => Some(refused(40324, "Unrecognized pipeline stage name: '$sample'")),
        "find" if !command.contains_key("sort") => {
            assert_eq!(command.get_i64("limit").unwrap(), 1001);
            Some(cursor((0..1001).map(|number| doc! {"_id": number}).collect()))
        }
        name => large(name, command),
    };
    let collection = look(&start(ordered), &forbidding(&[])).unwrap().collections.remove(0);
    let inventory = collection.inventory.unwrap();
    assert_eq!((inventory.choice, inventory.documents), (Choice::First, 1000));
    assert!(
        collection.notes.iter().any(|note| note.contains("could not be chosen at random")),
        "{:?}",
        collection.notes
    );
    let places: Vec<_> = collection.samples.iter().map(|sample| sample.place).collect();
    assert_eq!(places, [SamplePosition::First, SamplePosition::Between, SamplePosition::Last]);
}

#[test]
fn the_batches_of_a_cursor_are_read_one_after_the_other() {
    let paged: Answers = |name, command| {
        let page = |key: &str, from: i32, to: i32, id: i64| {
            let documents: Vec<_> = (from..to).map(|number| doc! {"name": format!("c{number:03}")}).collect();
            Some(doc! {"cursor": {key: documents, "id": id, "ns": "d.$cmd.listCollections"}, "ok": 1.0})
        };
        match name {
            "listCollections" => page("firstBatch", 0, 101, 7),
            "getMore" => {
                assert_eq!(command.get_str("collection").unwrap(), "$cmd.listCollections");
                assert!(command.get_i32("batchSize").unwrap() > 0, "some products need the size: {command}");
                page("nextBatch", 101, 230, 0)
            }
            "find" => Some(cursor(Vec::new())),
            name => large(name, command),
        }
    };
    let inspection =
        look(&start(paged), &Wanted { databases: vec!["d".into()], ..Wanted::default() }).unwrap();
    assert_eq!(inspection.collections.len(), 200);
    assert!(inspection.notes[0].contains("30 more collections"), "{:?}", inspection.notes);
}

/// A cursor whose next batch the server refuses.
fn torn(command: &Document, documents: Vec<Document>) -> Document {
    let name = command.values().next().and_then(Bson::as_str).unwrap_or("$cmd.listCollections");
    doc! {"cursor": {"firstBatch": documents, "id": 7_i64, "ns": format!("d.{name}")}, "ok": 1.0}
}

/// A server that returns the first batch of each list and each sample, and refuses the next batch.
fn refusing_more(name: &str, command: &Document) -> Option<Document> {
    let samples = |command: &Document| {
        command.get_array("pipeline").is_ok_and(|stages| {
            stages.iter().filter_map(Bson::as_document).any(|stage| stage.contains_key("$sample"))
        })
    };
    Some(match name {
        "listCollections" => torn(command, vec![doc! {"name": "c"}, doc! {"name": "e"}]),
        "listIndexes" => torn(command, vec![doc! {"v": 2, "key": {"_id": 1}, "name": "_id_"}]),
        "aggregate" if samples(command) => torn(command, (0..60).map(|n| doc! {"_id": id(n)}).collect()),
        "getMore" => refused(43, "cursor id 7 not found"),
        name => return large(name, command),
    })
}

#[test]
fn a_refused_batch_makes_a_list_or_a_sample_incomplete_and_a_note_says_why() {
    let refused = |of: &str, count: usize| {
        format!(
            "{of} is incomplete: the server returned {count}, and then refused more: cursor id 7 not found"
        )
    };
    let inspection = look(&start(refusing_more), &forbidding(&[])).unwrap();
    assert_eq!(inspection.notes, [refused("the list of the collections of d", 2)]);
    let notes = &inspection.collections[0].notes;
    for note in [refused("the list of its indexes", 1), refused("the sample of its documents", 60)] {
        assert!(notes.contains(&note), "{note}: {notes:?}");
    }
    let (random, seen) = sampled(refusing_more, 500);
    assert_eq!((random.choice, seen), (Some(Choice::Random), 60));
    assert!(random.collection.notes.contains(&refused("the sample of its documents", 60)));
}

#[test]
fn a_collection_that_an_incomplete_list_lacks_may_exist() {
    let wanted = Wanted { collections: vec![namespace("z")], ..Wanted::default() };
    let inspection = look(&start(refusing_more), &wanted).unwrap();
    assert_eq!(inspection.collections[0].namespace, "d.z");
}

#[test]
fn first_documents_that_a_refusal_ends_are_not_all() {
    let first: Answers = |name, command| match name {
        "aggregate" => Some(refused(40324, "Unrecognized pipeline stage name: '$sample'")),
        "find" if !command.contains_key("sort") => {
            Some(torn(command, (0..60).map(|n| doc! {"_id": id(n)}).collect()))
        }
        "getMore" => Some(refused(43, "cursor id 7 not found")),
        name => large(name, command),
    };
    let (first, seen) = sampled(first, 500);
    assert_eq!((first.choice, seen), (Some(Choice::First), 60));
    let notes = first.collection.notes.join("\n");
    assert!(notes.contains("the sample of its documents is incomplete: the server returned 60"), "{notes}");
}

#[test]
fn a_missing_name_is_reported_with_the_existing_ones() {
    let server = start(large);
    let wanted = Wanted { collections: vec![namespace("cc")], ..Wanted::default() };
    let error = look(&server, &wanted).unwrap_err();
    assert!(error.to_string().contains("collection d.cc does not exist"), "{error}");
    assert!(matches!(error, Error::UnknownCollection { known, .. } if known.contains(&"d.c".to_owned())));
    let wanted = Wanted { databases: vec!["e".into()], ..Wanted::default() };
    let error = look(&server, &wanted).unwrap_err();
    assert!(matches!(&error, Error::UnknownDatabase { known, .. } if known == &["admin", "d"]), "{error}");
}

fn briefly(server: &Server, collection: &str) -> Collection {
    with(server, async |connection| brief(connection, &namespace(collection)).await).unwrap()
}

#[test]
fn a_brief_inspection_scans_nothing() {
    let server = start(large);
    let collection = briefly(&server, "c");
    assert_eq!((collection.documents, collection.counting), (Some(95_487_000), Counting::Estimated));
    assert_eq!(
        (collection.kind, collection.samples.len(), &collection.inventory),
        (Kind::Collection, 1, &None)
    );
    assert!(collection.size.compression.is_some() && collection.indexes.is_some());
    assert!(!server.commands().iter().any(|command| command.contains_key("aggregate")));
}

#[test]
fn two_brief_inspections_differ_by_the_documents_in_between() {
    let server = start(large);
    let (before, after) = (briefly(&server, "new"), briefly(&server, "c"));
    assert_eq!((before.exists, before.documents), (false, Some(0)));
    let changes = difference(&before, &after);
    assert_eq!(
        (changes.documents.growth(), changes.data_bytes.growth()),
        (Some(95_487_000), Some(6_779_577_000))
    );
    assert_eq!(changes.indexes_added, [r#"_id_ {"_id":1}"#, r#"at_1 {"at":1}"#]);
    assert!(changes.fields_added.is_empty(), "no fields were looked at");
}

#[test]
fn an_implausible_answer_is_ignored() {
    let nonsense: Answers = |name, command| match name {
        "collStats" => {
            Some(doc! {"count": -1, "size": "large", "storageSize": f64::NAN, "indexSizes": 5, "ok": 1.0})
        }
        "count" => Some(doc! {"n": Bson::Null, "ok": 1.0}),
        "listIndexes" => Some(doc! {"cursor": {"firstBatch": [1, {"key": 5}], "id": "x"}, "ok": 1.0}),
        "find" | "aggregate" => Some(doc! {"cursor": 5, "ok": 1.0}),
        name => large(name, command),
    };
    let collection = look(&start(nonsense), &forbidding(&["note"])).unwrap().collections.remove(0);
    assert_eq!((collection.size, collection.indexes), (Default::default(), None));
    assert_eq!((collection.documents, collection.counting), (None, Counting::None));
    assert_eq!((collection.samples.len(), collection.inventory), (0, None));
    assert_eq!(collection.forbidden[0].presence, Presence::NotChecked);
    assert!(
        collection.notes.iter().any(|note| note.contains("answer is malformed")),
        "{:?}",
        collection.notes
    );
}

/// The sample of `d.c`, and the number of documents that were handed over.
fn sampled(answers: Answers, most: u32) -> (Sampled, u64) {
    let mut seen = 0;
    let sampled = with(&start(answers), async |connection| {
        sample(connection, &namespace("c"), most, &mut |_| seen += 1).await.unwrap()
    });
    (sampled, seen)
}

#[test]
fn a_sample_is_random_where_the_server_can_and_else_the_first_documents() {
    let (random, seen) = sampled(large, 50);
    assert_eq!((random.choice, seen), (Some(Choice::Random), 50), "no more than asked");
    assert_eq!(random.collection.indexes.map(|indexes| indexes.len()), Some(2));
    let without: Answers = |name, command| match name {
        "aggregate" => Some(refused(40324, "Unrecognized pipeline stage name: '$sample'")),
        "find" => Some(cursor((0..60).map(|second| doc! {"_id": id(second)}).collect())),
        name => large(name, command),
    };
    let (first, seen) = sampled(without, 50);
    assert_eq!((first.choice, seen), (Some(Choice::First), 50));
    let notes = first.collection.notes.join("\n");
    assert!(notes.contains("chosen at random: Unrecognized pipeline stage"), "{notes}");
    let (none, seen) = sampled(
        |name, command| {
            if matches!(name, "find" | "aggregate") { unauthorized() } else { large(name, command) }
        },
        50,
    );
    assert_eq!((none.choice, seen), (None, 0));
}
