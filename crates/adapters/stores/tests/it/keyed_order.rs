//! Tests the keyed sink at a collection with a unique index.
//!
//! The scripted server holds the collection, and frees a unique value as soon as a statement changes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bson::{Document, doc};
use plimsoll_host::scripted::Server;
use plimsoll_pipeline::source::{File, FileSettings, Format};
use plimsoll_pipeline::{Batch, Control, FailureClass, Partition, Record, Verdict};
use plimsoll_stores::scenario;
use plimsoll_stores::sink::keyed::{Keyed, PayloadId};

use crate::bench::{positions, refused, shared, sink, write};
use crate::collect::run;

/// The value of `u` by `_id`.
type Values = BTreeMap<i32, String>;

/// A server with one collection whose field `u` has a unique index.
struct IndexedCopy {
    server: Server,
    values: Arc<Mutex<Values>>,
}

impl IndexedCopy {
    fn start(index: Index, before: &[(i32, &str)]) -> Self {
        let values = Arc::new(Mutex::new(values(before)));
        let held = Arc::clone(&values);
        let script = move |command: &Document| match command.keys().next()?.as_str() {
            "listIndexes" => Some(indexes(index)),
            "update" => Some(update(&mut held.lock().unwrap(), command.get_array("updates").ok()?)),
            _ => None,
        };
        Self { server: Server::start(script).unwrap(), values }
    }

    fn sink(&self) -> Keyed {
        let port = self.server.address().port();
        let typed =
            format!(r#"{{"uri": "mongodb://127.0.0.1:{port}/?directConnection=true", "collection": "d.c"}}"#);
        serde_json::from_str::<scenario::Keyed>(&typed).unwrap().build(PayloadId::OfKey).unwrap()
    }

    fn updates(&self) -> usize {
        self.server.commands().iter().filter(|command| command.contains_key("update")).count()
    }

    fn values(&self) -> Values {
        self.values.lock().unwrap().clone()
    }
}

/// The index of `u` in the list of indexes. It is unique in any case.
#[derive(Clone, Copy)]
enum Index {
    Listed,
    Missing,
    /// The user may not list indexes.
    Unauthorized,
}

fn indexes(index: Index) -> Document {
    let of_id = doc! {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": true};
    let of_u = doc! {"v": 2, "key": {"u": 1}, "name": "u_1", "unique": true};
    let listed = match index {
        Index::Listed => vec![of_id, of_u],
        Index::Missing => vec![of_id],
        Index::Unauthorized => {
            return doc! {"ok": 0.0, "code": 13, "codeName": "Unauthorized", "errmsg": "no"};
        }
    };
    doc! {"ok": 1.0, "cursor": {"id": 0_i64, "ns": "d.c", "firstBatch": listed}}
}

fn values(documents: &[(i32, &str)]) -> Values {
    documents.iter().map(|(id, u)| (*id, (*u).to_owned())).collect()
}

/// Replaces documents in the order of the statements. A document whose value belongs to another is refused, and so is one whose
/// value begins with "bad".
fn update(values: &mut Values, statements: &[bson::Bson]) -> Document {
    let mut errors = Vec::new();
    for (index, statement) in (0_i32..).zip(statements) {
        let document = statement.as_document().unwrap().get_document("u").unwrap();
        let (id, u) = (document.get_i32("_id").unwrap(), document.get_str("u").unwrap());
        if u.starts_with("bad") {
            errors.push(
                doc! {"index": index, "code": 121, "errInfo": {}, "errmsg": "Document failed validation"},
            );
        } else if values.iter().any(|(other, value)| *other != id && value == u) {
            errors.push(doc! {"index": index, "code": 11000, "keyPattern": {"u": 1}, "keyValue": {"u": u}, "errmsg": "duplicate"});
        } else {
            values.insert(id, u.to_owned());
        }
    }
    let n = statements.len() as i32 - errors.len() as i32;
    if errors.is_empty() {
        doc! {"ok": 1.0, "n": n}
    } else {
        doc! {"ok": 1.0, "n": n, "writeErrors": errors}
    }
}

fn document((id, u): (i32, &str)) -> Document {
    doc! {"_id": id, "u": u}
}

fn changes(documents: &[(i32, &str)]) -> Batch {
    let mut batch = Batch::new(Partition::new("t", 0));
    for (offset, one) in (0..).zip(documents) {
        let payload = document(*one).to_vec().unwrap();
        batch.push(Record { offset, appended_ms: 0, key: None, payload: Some(&payload) });
    }
    batch
}

/// Copies the documents in this order through a pipeline without dead letters, which a refused event would end.
fn copy_through_pipeline(copy: &IndexedCopy, name: &str, events: &[(i32, &str)]) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.bson"));
    let bytes: Vec<u8> = events.iter().flat_map(|one| document(*one).to_vec().unwrap()).collect();
    fs::write(&path, bytes).unwrap();
    let source = File::new(FileSettings { path, format: Format::Bson });
    run(source, &copy.sink(), positions(&shared(), name), &Arc::new(Control::default())).unwrap();
}

#[test]
fn a_copy_takes_every_order_of_changes_that_its_unique_index_allows() {
    for (row, (before, events, after)) in [
        // At the server, the last changes of 2 and 4 precede the change of 3, which needs the first value of 2.
        (vec![(2, "x")], vec![(2, "y"), (3, "x"), (2, "z"), (4, "y")], vec![(2, "z"), (3, "x"), (4, "y")]),
        // Each change needs the value that a later one gives up.
        (
            vec![(2, "x"), (3, "y"), (4, "z")],
            vec![(4, "w"), (3, "z"), (2, "y"), (3, "z"), (4, "w")],
            vec![(2, "y"), (3, "z"), (4, "w")],
        ),
        // The documents exchange two values, and a third one takes the value in between.
        (
            vec![(2, "x"), (3, "y")],
            vec![(2, "t"), (3, "x"), (2, "y"), (4, "t")],
            vec![(2, "y"), (3, "x"), (4, "t")],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        for (listed, index) in [("listed", Index::Listed), ("unauthorized", Index::Unauthorized)] {
            let copy = IndexedCopy::start(index, &before);
            copy_through_pipeline(&copy, &format!("ke_order_{row}_{listed}"), &events);
            assert_eq!(copy.values(), values(&after), "{row} {listed}");
        }
    }
}

#[test]
fn a_command_ends_before_an_event_whose_document_it_has() {
    let events = [(2, "a"), (3, "b"), (2, "c"), (2, "d"), (3, "e")];
    for (index, updates) in [(Index::Listed, 3), (Index::Unauthorized, 3), (Index::Missing, 1)] {
        let copy = IndexedCopy::start(index, &[]);
        let mut sink = sink(&copy.sink());
        assert_eq!(write(&mut *sink, changes(&events)), Verdict::WRITTEN);
        assert_eq!((copy.values(), copy.updates()), (values(&[(2, "d"), (3, "e")]), updates));
    }
}

#[test]
fn the_repetition_of_a_batch_ends_in_the_same_state_and_refuses_no_event() {
    for (before, events, after) in [
        // 3 has the first value of 1.
        (vec![(1, "x")], vec![(1, "y"), (2, "x"), (1, "z"), (3, "y")], vec![(1, "z"), (2, "x"), (3, "y")]),
        // 3 has the second value of 2, so 2 keeps its first one, which is the last of 1, until its own last version is written.
        (
            vec![(1, "w"), (2, "q")],
            vec![(1, "a"), (2, "w"), (2, "g"), (1, "w"), (2, "k"), (3, "g")],
            vec![(1, "w"), (2, "k"), (3, "g")],
        ),
    ] {
        let copy = IndexedCopy::start(Index::Listed, &before);
        let mut sink = sink(&copy.sink());
        for attempt in ["first", "repeated"] {
            assert_eq!(write(&mut *sink, changes(&events)), Verdict::WRITTEN, "{attempt}: {events:?}");
            assert_eq!(copy.values(), values(&after), "{attempt}: {events:?}");
        }
    }
}

#[test]
fn a_refused_last_version_hides_no_earlier_refusal_of_its_document() {
    let copy = IndexedCopy::start(Index::Listed, &[(2, "x"), (3, "y")]);
    let mut sink = sink(&copy.sink());
    assert_eq!(refused(&write(&mut *sink, changes(&[(4, "x"), (4, "y"), (5, "v")]))), [0, 1]);
    assert_eq!(copy.values(), values(&[(2, "x"), (3, "y"), (5, "v")]));
}

#[test]
fn refusals_of_different_classes_are_reported_for_each_event() {
    let copy = IndexedCopy::start(Index::Listed, &[(2, "x")]);
    let mut sink = sink(&copy.sink());
    let events = [(5, "x"), (6, "bad1"), (7, "v"), (8, "bad2")];
    assert_eq!(refused(&write(&mut *sink, changes(&events))), [0, 1, 3]);
    assert_eq!(copy.values(), values(&[(2, "x"), (7, "v")]));
}

#[test]
fn a_value_of_another_document_is_refused_alone() {
    let copy = IndexedCopy::start(Index::Listed, &[(2, "x")]);
    let mut sink = sink(&copy.sink());
    assert_eq!(refused(&write(&mut *sink, changes(&[(5, "x"), (6, "v"), (6, "w")]))), [0]);
    assert_eq!(copy.values(), values(&[(2, "x"), (6, "w")]));
    // The index was created after the sink had listed the indexes.
    let copy = IndexedCopy::start(Index::Missing, &[(2, "x")]);
    let mut sink = self::sink(&copy.sink());
    let Verdict::Failed(failure) = write(&mut *sink, changes(&[(2, "y"), (3, "x"), (2, "z")])) else {
        panic!("it must be split")
    };
    assert_eq!(failure.class, FailureClass::RefusedEvent, "{failure:?}");
}
