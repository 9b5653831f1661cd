//! Tests the keyed sink.

use bson::{Bson, Document, doc};
use plimsoll_host::Server;
use plimsoll_pipeline::{Batch, FailureClass, Identity, Partition, Record, SinkError, SinkFactory, Verdict};
use plimsoll_stores::scenario;
use plimsoll_stores::sink::keyed::{Keyed, PayloadId};

use crate::bench::{documents, refused, shared, sink, start, unique, uri, write};

fn keyed(server: &Server, db: &str) -> Keyed {
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.c"}}"#, uri(server));
    serde_json::from_str::<scenario::Keyed>(&typed).unwrap().build(PayloadId::OfKey).unwrap()
}

/// A batch of documents to write (`Ok`) and `_id`s to delete (`Err`).
fn changes(events: &[Result<Document, Bson>]) -> Batch {
    let mut batch = Batch::new(Partition::new("t", 0));
    for (offset, event) in (0..).zip(events) {
        let (id, payload) = match event {
            Ok(document) => (document.get("_id").cloned().unwrap_or(Bson::Null), document.to_vec().ok()),
            Err(id) => (id.clone(), None),
        };
        let key = doc! {"_id": id}.to_vec().unwrap();
        batch.push(Record { offset, appended_ms: 0, key: Some(&key), payload: payload.as_deref() });
    }
    batch
}

#[test]
fn the_last_change_of_a_document_decides() {
    let (server, db) = (shared(), "ke_last");
    let factory = keyed(&server, db);
    assert_eq!(factory.promise().identity, Identity::Named);
    let mut sink = sink(&factory);
    let one = |n: i32| doc! {"_id": 1, "n": n};
    let first =
        [Ok(one(1)), Ok(doc! {"_id": 2, "n": 2}), Ok(one(3)), Ok(doc! {"_id": "x", "deep": {"a": [1]}})];
    assert_eq!(write(&mut *sink, changes(&first)), Verdict::WRITTEN);
    assert_eq!(
        documents(&server, db, "c"),
        [one(3), doc! {"_id": 2, "n": 2}, doc! {"_id": "x", "deep": {"a": [1]}}]
    );
    let second =
        [Ok(one(4)), Err(Bson::Int32(1)), Err(Bson::Int32(2)), Ok(doc! {"_id": 2, "n": 5}), Err("x".into())];
    // A replay after a crash ends in the same state.
    for _ in 0..2 {
        assert_eq!(write(&mut *sink, changes(&second)), Verdict::WRITTEN);
        assert_eq!(documents(&server, db, "c"), [doc! {"_id": 2, "n": 5}]);
    }
}

#[test]
fn ids_of_different_types_are_different_documents() {
    let (server, db) = (shared(), "ke_types");
    let date = bson::DateTime::from_millis(7);
    let events = [Ok(doc! {"_id": date, "n": 1}), Ok(doc! {"_id": 7_i64, "n": 2})];
    assert_eq!(write(&mut *sink(&keyed(&server, db)), changes(&events)), Verdict::WRITTEN);
    assert_eq!(documents(&server, db, "c").len(), 2);
}

/// The server takes these `_id`s for one: `1` and `1.0`, also inside of a document.
#[test]
fn equal_numbers_are_one_document() {
    let server = shared();
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    let rows = [
        (Bson::Int64(1), Bson::Int32(1)),
        (Bson::Int32(1), Bson::Double(1.0)),
        (decimal("1.00"), Bson::Int64(1)),
        (Bson::Double(0.5), decimal("0.50")),
        (Bson::Document(doc! {"a": 1, "b": [2]}), Bson::Document(doc! {"a": 1_i64, "b": [2.0]})),
    ];
    for (index, (first, second)) in rows.into_iter().enumerate() {
        let db = format!("ke_numbers_{index}");
        let mut sink = sink(&keyed(&server, &db));
        let document = |id: &Bson, n: i32| doc! {"_id": id.clone(), "n": n};
        assert_eq!(write(&mut *sink, changes(&[Ok(document(&first, 1))])), Verdict::WRITTEN);
        let again = [Err(first.clone()), Ok(document(&second, 2))];
        assert_eq!(write(&mut *sink, changes(&again)), Verdict::WRITTEN, "{first} {second}");
        assert_eq!(documents(&server, &db, "c"), [document(&second, 2)]);
        let gone = [Ok(document(&second, 3)), Err(first.clone())];
        assert_eq!(write(&mut *sink, changes(&gone)), Verdict::WRITTEN);
        assert_eq!(documents(&server, &db, "c"), [] as [Document; 0], "{first} {second}");
    }
}

#[test]
fn a_unique_value_may_move_to_another_document_within_a_batch() {
    let (server, db) = (shared(), "ke_unique");
    let mut sink = sink(&keyed(&server, db));
    unique(&server, db, "c", "u");
    let document = |id: i32, u: &str| doc! {"_id": id, "u": u};
    assert_eq!(write(&mut *sink, changes(&[Ok(document(1, "x"))])), Verdict::WRITTEN);
    let moved = [Err(Bson::Int32(1)), Ok(document(2, "x"))];
    assert_eq!(write(&mut *sink, changes(&moved)), Verdict::WRITTEN);
    assert_eq!(documents(&server, db, "c"), [document(2, "x")]);
}

#[test]
fn a_refused_last_change_hides_no_earlier_change_of_its_document() {
    let (server, db) = (shared(), "ke_hidden");
    let mut sink = sink(&keyed(&server, db));
    let large = "x".repeat(17 << 20);
    let changes_of_1 = [Ok(doc! {"_id": 1, "n": 1}), Ok(doc! {"_id": 1, "text": large.as_str()})];
    let Verdict::Failed(failure) = write(&mut *sink, changes(&changes_of_1)) else {
        panic!("it must be split")
    };
    assert_eq!(failure.class, FailureClass::RefusedEvent, "{failure:?}");
    assert_eq!(write(&mut *sink, changes(&changes_of_1[..1])), Verdict::WRITTEN);
    assert_eq!(refused(&write(&mut *sink, changes(&changes_of_1[1..]))), [0]);
    assert_eq!(documents(&server, db, "c"), [doc! {"_id": 1, "n": 1}]);
}

#[test]
fn a_payload_with_another_id_than_its_key_is_refused_if_the_source_has_deletes() {
    let server = shared();
    for (db, rule, expected) in [("ke_of_key", PayloadId::OfKey, vec![1]), ("ke_any", PayloadId::Any, vec![])]
    {
        let typed = format!(r#"{{"uri": "{}", "collection": "{db}.c"}}"#, uri(&server));
        let factory = serde_json::from_str::<scenario::Keyed>(&typed).unwrap().build(rule).unwrap();
        let mut batch = Batch::new(Partition::new("t", 0));
        let payload = |id: Bson| doc! {"_id": id}.to_vec().unwrap();
        for (offset, (key, id)) in (0..).zip([
            (Some(payload(Bson::Int32(1))), Bson::Double(1.0)),
            (Some(payload(Bson::Int32(2))), Bson::from("mapped")),
            (Some(b"plain".to_vec()), Bson::Int32(3)),
            (None, Bson::Int32(4)),
        ]) {
            batch.push(Record { offset, appended_ms: 0, key: key.as_deref(), payload: Some(&payload(id)) });
        }
        assert_eq!(refused(&write(&mut *sink(&factory), batch)), expected, "{db}");
        assert_eq!(documents(&server, db, "c").len(), 4 - expected.len());
    }
}

/// The key of an event may come from anyone who writes to a topic.
#[test]
fn an_id_is_never_read_as_an_operator() {
    let (server, db) = (shared(), "ke_operator");
    let mut sink = sink(&keyed(&server, db));
    let rest = [doc! {"_id": 1}, doc! {"_id": "a"}];
    assert_eq!(write(&mut *sink, changes(&rest.clone().map(Ok))), Verdict::WRITTEN);
    let regex = bson::Regex { pattern: bson::cstr!("a").into(), options: bson::cstr!("").into() };
    let any =
        [doc! {"$exists": true}.into(), doc! {"$gte": Bson::MinKey}.into(), Bson::RegularExpression(regex)];
    for id in any {
        assert_eq!(write(&mut *sink, changes(&[Err(id)])), Verdict::WRITTEN);
        assert_eq!(documents(&server, db, "c"), rest);
    }
}

#[test]
fn an_event_without_an_id_and_a_refused_document_are_refused_alone() {
    let (server, db) = (shared(), "ke_refused");
    let mut sink = sink(&keyed(&server, db));
    unique(&server, db, "c", "u");
    let mut batch = changes(&[Ok(doc! {"_id": 1, "u": 1}), Ok(doc! {"_id": 2, "u": 1}), Err(Bson::Int32(9))]);
    batch.push(Record { offset: 3, appended_ms: 0, key: Some(b"text"), payload: None });
    batch.push(Record { offset: 4, appended_ms: 0, key: None, payload: Some(b"{}") });
    let verdict = write(&mut *sink, batch);
    let mut alone = refused(&verdict);
    alone.sort_unstable();
    assert_eq!(alone, [1, 3, 4]);
    assert_eq!(documents(&server, db, "c"), [doc! {"_id": 1, "u": 1}]);
}

#[test]
fn a_lost_server_fails_the_batch_and_the_next_try_writes_it() {
    let mut server = start();
    let factory = keyed(&server, "ke_lost");
    let mut sink = sink(&factory);
    let events = || changes(&[Ok(doc! {"_id": 1}), Err(Bson::Int32(2))]);
    server.kill().unwrap();
    let Verdict::Failed(failure) = write(&mut *sink, events()) else { panic!("no server runs") };
    assert_eq!(failure.class, FailureClass::Transient, "{failure:?}");
    assert!(matches!(factory.build(1).map(drop), Err(SinkError::Unreachable(_))));
    server.restart().unwrap();
    assert_eq!(write(&mut *sink, events()), Verdict::WRITTEN);
    assert_eq!(documents(&server, "ke_lost", "c"), [doc! {"_id": 1}]);
}
