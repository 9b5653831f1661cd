//! Tests the content of one transaction, and events that already exist because a pipeline under another name starts over or lost
//! its positions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bson::{Bson, Document, doc};
use plimsoll_host::scripted::Server;
use plimsoll_pipeline::{Claim, Control, Ended, Partition, Position, PositionError, PositionStore};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::document::identity::Identity;
use plimsoll_stores::scenario::Transactional;

use crate::bench::{ask, count, shared, unique, uri};
use crate::numbers::{self, Numbers};

fn typed(uri: String, collection: &str) -> Transactional {
    let mut typed = Transactional { form: Form::Bson, ..Transactional::new(uri, collection) };
    typed.gather_wait = "50ms".parse().unwrap();
    typed
}

#[test]
fn existing_events_and_letters_without_a_position_are_not_duplicated() {
    let server = shared();
    unique(&server, "tx_there", "c", "n");
    let taken: Vec<_> = [3_i64, 170].iter().map(|n| doc! {"_id": format!("other {n}"), "n": *n}).collect();
    ask(&server, "tx_there", doc! {"insert": "c", "documents": taken});
    let typed = typed(uri(&server), "tx_there.c");
    let run = |pipeline: &str, end: u64| {
        let (sink, positions) = (typed.build(pipeline).unwrap(), typed.positions(pipeline).unwrap());
        numbers::run(Numbers::new(1, end, 50), sink, positions, &Arc::new(Control::default())).unwrap()
    };
    for (pipeline, end) in [("first", 200), ("second", 230)] {
        assert_eq!(run(pipeline, end), Ended::Exhausted);
        assert_eq!(count(&server, "tx_there", "c"), end, "the pipeline wrote all documents except two");
        assert_eq!(count(&server, "tx_there", "c_dead_letters"), 2);
    }
}

/// A position store that stores nothing.
struct Held;

impl PositionStore for Held {
    fn claim(&self, _: &Partition) -> Result<Claim, PositionError> {
        Ok(Claim { position: None, epoch: 1 })
    }

    fn keep(&self, _: &[(Partition, Position)]) -> Result<(), PositionError> {
        Ok(())
    }
}

/// A primary's documents by offset, until another primary replaces it.
#[derive(Default)]
struct Primary {
    held: Mutex<BTreeSet<u64>>,
    /// Offsets of documents that another unique index refuses.
    refused: BTreeSet<u64>,
    /// The number of commits that are lost with the primary and its documents.
    lost: Mutex<u32>,
}

impl Primary {
    fn answer(&self, command: &Document) -> Option<Document> {
        let on = |name: &str, collection: &str| command.get_str(name).is_ok_and(|its| its == collection);
        if on("insert", "c") {
            Some(self.insert(command.get_array("documents").unwrap()))
        } else if on("find", "c") {
            let wanted = command.get_document("filter").unwrap().get_document("_id").unwrap();
            Some(self.find(wanted.get_array("$in").unwrap()))
        } else if on("find", "plimsoll_topics") {
            Some(found(Vec::new()))
        } else if on("findAndModify", "plimsoll_topics") {
            Some(doc! {"ok": 1.0, "value": {"topic": "t"}})
        } else if on("findAndModify", "plimsoll_positions") {
            Some(doc! {"ok": 1.0, "value": {"epoch": 1_i64}})
        } else if command.contains_key("commitTransaction") {
            Some(self.commit())
        } else {
            let known =
                ["create", "abortTransaction", "insert"].iter().any(|name| command.contains_key(name));
            known.then(|| doc! {"ok": 1.0, "n": 1})
        }
    }

    fn find(&self, ids: &[Bson]) -> Document {
        let held = self.held.lock().unwrap();
        let documents = ids.iter().map(|id| doc! {"_id": id.clone()});
        found(documents.filter(|document| held.contains(&offset(document))).collect())
    }

    fn insert(&self, documents: &[Bson]) -> Document {
        let held = self.held.lock().unwrap();
        let taken = |document: &Bson| {
            let offset = offset(document.as_document().unwrap());
            let field = held.contains(&offset).then_some("_id");
            field.or_else(|| self.refused.contains(&offset).then_some("n"))
        };
        let first =
            documents.iter().enumerate().find_map(|(index, document)| Some((index, taken(document)?)));
        let Some((index, field)) = first else { return doc! {"ok": 1.0, "n": documents.len() as i32} };
        let error = doc! {"index": index as i32, "code": 11000, "keyPattern": {field: 1}, "errmsg": "no"};
        doc! {"ok": 1.0, "n": 0, "writeErrors": [error]}
    }

    fn commit(&self) -> Document {
        let mut lost = self.lost.lock().unwrap();
        if *lost == 0 {
            return doc! {"ok": 1.0};
        }
        *lost -= 1;
        self.held.lock().unwrap().clear();
        doc! {"ok": 0.0, "code": 251, "errmsg": "no such transaction"}
    }
}

fn offset(document: &Document) -> u64 {
    Identity::from_bytes(document.get_binary_generic("_id").unwrap()).unwrap().offset
}

/// The commands that such a primary receives from a pipeline with this number of events.
fn commands(primary: Primary, events: u64) -> Vec<Document> {
    let server = Server::start(move |command: &Document| primary.answer(command)).unwrap();
    let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", server.address().port());
    let sink = typed(uri, "d.c").build("p").unwrap();
    let control = Arc::new(Control::default());
    let ended = numbers::run(Numbers::new(1, events, events), sink, Held, &control);
    assert_eq!(ended.unwrap(), Ended::Exhausted);
    server.commands()
}

fn found(documents: Vec<Document>) -> Document {
    doc! {"ok": 1.0, "cursor": {"id": 0_i64, "ns": "d.c", "firstBatch": documents}}
}

#[test]
fn existing_events_are_queried_once_per_primary() {
    let primary = Primary { held: Mutex::new((0..50).collect()), lost: Mutex::new(1), ..Primary::default() };
    let heard = commands(primary, 100);
    let inserted = heard.iter().filter_map(|command| command.get_array("documents").ok()).map(Vec::len);
    // The numbers of inserted events: all, then those missing on the primary, then all on the next primary.
    assert_eq!(inserted.collect::<Vec<_>>(), [100, 50, 100]);
}

#[test]
fn position_events_and_dead_letters_are_one_transaction() {
    let heard = commands(Primary { refused: [3].into(), ..Primary::default() }, 10);
    let commit = heard.iter().find(|command| command.contains_key("commitTransaction")).unwrap();
    let same =
        |command: &&Document| ["lsid", "txnNumber"].iter().all(|key| command.get(key) == commit.get(key));
    let within: Vec<_> = heard.iter().filter(same).collect();
    let [position, events, letters, last] = within.as_slice() else { panic!("{within:?}") };
    assert_eq!(position.get_str("findAndModify").unwrap(), "plimsoll_positions");
    let moved = position.get_document("update").unwrap().get_document("$set").unwrap();
    assert_eq!(moved.get_i64("next").unwrap(), 10);
    let inserted = |command: &Document| -> Vec<u64> {
        let documents = command.get_array("documents").unwrap();
        documents.iter().map(|document| offset(document.as_document().unwrap())).collect()
    };
    assert_eq!(inserted(events), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!((letters.get_str("insert").unwrap(), inserted(letters)), ("c_dead_letters", vec![3]));
    let starts: Vec<_> = within.iter().map(|command| command.contains_key("startTransaction")).collect();
    assert_eq!(starts, [true, false, false, false]);
    let concern = last.get_document("writeConcern").unwrap();
    assert_eq!((concern.get_str("w").unwrap(), concern.get_bool("j").unwrap()), ("majority", true));
}
