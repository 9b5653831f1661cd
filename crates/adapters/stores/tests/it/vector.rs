//! Tests the vector sink.

use bson::{Bson, Document, doc};
use plimsoll_host::Server;
use plimsoll_pipeline::{Batch, FailureClass, Identity, Partition, Record, SinkFactory, Verdict};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario::Vector;
use plimsoll_stores::sink::vector::{By, Stored, Vectors};

use crate::bench::{count, documents, payload, refused, shared, sink, start, uri, write};
use crate::contract;

fn vectors(server: &Server, db: &str, with: impl FnOnce(&mut Vector)) -> Vectors {
    let mut typed = Vector { form: Form::Bson, ..Vector::new(uri(server), format!("{db}.c")) };
    with(&mut typed);
    typed.build().unwrap()
}

/// Events with a key and an offset. Payload and vector derive from the offset.
fn keyed(partition: u32, events: &[(&str, u64)]) -> Batch {
    let mut batch = Batch::new(Partition::new("t", partition));
    for (index, (key, offset)) in events.iter().enumerate() {
        let record = Record {
            offset: *offset,
            appended_ms: 0,
            key: Some(key.as_bytes()),
            payload: Some(&payload(*offset)),
        };
        batch.push(record);
        batch.set_vector(index, &[*offset as f32, 0.5]);
    }
    batch
}

fn numbers(server: &Server, db: &str) -> Vec<(String, i64)> {
    let found = documents(server, db, "c");
    found
        .iter()
        .map(|found| (found.get_str("_id").unwrap().to_owned(), found.get_i64("n").unwrap()))
        .collect()
}

#[test]
fn the_newest_event_of_a_key_wins() {
    let server = shared();
    let mut sink = sink(&vectors(&server, "ve_key", |_| ()));
    assert_eq!(write(&mut *sink, keyed(0, &[("a", 1), ("b", 2), ("a", 3)])), Verdict::WRITTEN);
    assert_eq!(numbers(&server, "ve_key"), [("a".into(), 3), ("b".into(), 2)]);
    assert_eq!(write(&mut *sink, keyed(0, &[("a", 5), ("c", 6)])), Verdict::WRITTEN);
    // The first batch is repeated, as after a crash: no document returns to an older event.
    let replay = write(&mut *sink, keyed(0, &[("a", 1), ("b", 2), ("a", 3)]));
    assert_eq!(replay, Verdict::Written { replayed: 2, refused: vec![] });
    assert_eq!(numbers(&server, "ve_key"), [("a".into(), 5), ("b".into(), 2), ("c".into(), 6)]);
    // For a key that moved to another partition, the last write counts.
    assert_eq!(write(&mut *sink, keyed(1, &[("a", 0)])), Verdict::WRITTEN);
    assert_eq!(numbers(&server, "ve_key")[0], ("a".into(), 0));
}

/// Events from an offset on, whose payloads may have an `_id`.
fn named(first: u64, documents: &[(Option<&str>, i64)]) -> Batch {
    let mut batch = Batch::new(Partition::new("t", 0));
    for (index, (id, number)) in documents.iter().enumerate() {
        let payload = match id {
            Some(id) => doc! {"_id": *id, "n": *number},
            None => doc! {"n": *number},
        };
        let payload = payload.to_vec().unwrap();
        batch.push(Record {
            offset: first + index as u64,
            appended_ms: 0,
            key: None,
            payload: Some(&payload),
        });
        batch.set_vector(index, &[*number as f32]);
    }
    batch
}

#[test]
fn documents_with_own_ids_hold_the_event_read_last() {
    let server = shared();
    let factory = vectors(&server, "ve_payload", |typed| typed.by = By::Payload);
    assert_eq!(factory.promise().identity, Identity::Named);
    let mut sink = sink(&factory);
    let verdict = write(&mut *sink, named(10, &[(Some("a"), 1), (Some("b"), 2), (None, 5), (Some("a"), 3)]));
    assert_eq!(refused(&verdict), [2]);
    assert_eq!(numbers(&server, "ve_payload"), [("a".into(), 3), ("b".into(), 2)]);
    // A source that renumbers its events may read a changed document with an offset that is not higher.
    assert_eq!(write(&mut *sink, named(0, &[(Some("a"), 4)])), Verdict::WRITTEN);
    assert_eq!(numbers(&server, "ve_payload"), [("a".into(), 4), ("b".into(), 2)]);
}

#[test]
fn a_vector_is_stored_in_either_form() {
    let server = shared();
    for (db, stored) in [("ve_array", Stored::Array), ("ve_float", Stored::Float32)] {
        let factory = vectors(&server, db, |typed| typed.stored = stored);
        assert_eq!(write(&mut *sink(&factory), keyed(0, &[("a", 3)])), Verdict::WRITTEN);
        let found = documents(&server, db, "c").remove(0);
        match found.get("vector").unwrap() {
            Bson::Array(values) => assert_eq!(values, &vec![Bson::Double(3.0), Bson::Double(0.5)]),
            Bson::Binary(binary) => {
                let vector = bson::binary::Vector::try_from(binary).unwrap();
                assert_eq!(vector, bson::binary::Vector::Float32(vec![3.0, 0.5]));
            }
            other => panic!("{other}"),
        }
        assert_eq!(found.get_document("source").unwrap().get_i64("offset").unwrap(), 3);
    }
}

#[test]
fn an_event_without_vector_or_key_is_refused() {
    let server = shared();
    let mut batch = keyed(0, &[("a", 1)]);
    batch.push(Record { offset: 2, appended_ms: 0, key: Some(b"b"), payload: Some(&payload(2)) });
    batch.push(Record { offset: 3, appended_ms: 0, key: None, payload: Some(&payload(3)) });
    batch.set_vector(2, &[1.0]);
    let verdict = write(&mut *sink(&vectors(&server, "ve_refuse", |_| ())), batch);
    assert_eq!(refused(&verdict), [1, 2]);
    assert_eq!(count(&server, "ve_refuse", "c"), 1);
}

/// Events with a key. If the flag is false, the payload is not a document.
fn some_broken(events: &[(&str, u64, bool)]) -> Batch {
    let mut batch = Batch::new(Partition::new("t", 0));
    for (index, (key, offset, whole)) in events.iter().enumerate() {
        let payload = if *whole { payload(*offset) } else { b"no document".to_vec() };
        let record =
            Record { offset: *offset, appended_ms: 0, key: Some(key.as_bytes()), payload: Some(&payload) };
        batch.push(record);
        batch.set_vector(index, &[1.0]);
    }
    batch
}

#[test]
fn a_refused_event_hides_no_earlier_event_of_its_key() {
    let server = shared();
    let mut sink_by_key = sink(&vectors(&server, "ve_last", |_| ()));
    // The last event of the key a replaces the earlier one and is refused: the batch returns to be split.
    let verdict = write(&mut *sink_by_key, some_broken(&[("a", 1, true), ("b", 2, true), ("a", 3, false)]));
    let Verdict::Failed(failure) = verdict else { panic!("{verdict:?}") };
    assert_eq!(failure.class, FailureClass::RefusedEvent);
    assert!(failure.reason.contains("had replaced an earlier event"), "{}", failure.reason);
    assert_eq!(write(&mut *sink_by_key, some_broken(&[("a", 1, true)])), Verdict::WRITTEN);
    let verdict = write(&mut *sink_by_key, some_broken(&[("b", 2, true), ("a", 3, false)]));
    assert_eq!(refused(&verdict), [1]);
    assert_eq!(numbers(&server, "ve_last"), [("a".into(), 1), ("b".into(), 2)]);
    // An event that replaced no other is refused alone.
    let verdict = write(&mut *sink_by_key, some_broken(&[("c", 4, true), ("d", 5, false)]));
    assert_eq!(refused(&verdict), [1]);
    // If no event replaces another, no other event is affected.
    let mut sink_by_source = sink(&vectors(&server, "ve_last_s", |typed| typed.by = By::Source));
    let verdict = write(&mut *sink_by_source, some_broken(&[("a", 1, true), ("a", 3, false)]));
    assert_eq!((refused(&verdict), count(&server, "ve_last_s", "c")), (vec![1], 1));
}

/// Events of one key with these payloads, numbered from an offset on.
fn of_one_key(first: u64, payloads: &[Document]) -> Batch {
    let mut batch = Batch::new(Partition::new("t", 0));
    for (index, payload) in payloads.iter().enumerate() {
        let (offset, payload) = (first + index as u64, payload.to_vec().unwrap());
        batch.push(Record { offset, appended_ms: 0, key: Some(b"k"), payload: Some(&payload) });
        batch.set_vector(index, &[offset as f32]);
    }
    batch
}

/// A second `source` in a document would hide the field that identifies the newer event.
#[test]
fn a_payload_with_the_field_name_of_the_sink_is_refused_unless_the_sink_uses_another_name() {
    let server = shared();
    let named = |n: i64| [doc! {"n": n, "source": "web"}];
    let verdict = write(&mut *sink(&vectors(&server, "ve_own", |_| ())), of_one_key(5, &named(5)));
    let Verdict::Written { refused, .. } = &verdict else { panic!("{verdict:?}") };
    assert!(refused[0].reason.contains("a field `source`, which the sink writes"), "{refused:?}");
    let mut renamed = sink(&vectors(&server, "ve_own", |typed| typed.source_field = "read_at".into()));
    assert_eq!(write(&mut *renamed, of_one_key(7, &named(7))), Verdict::WRITTEN);
    let older = write(&mut *renamed, of_one_key(6, &named(6)));
    assert_eq!(older, Verdict::Written { replayed: 1, refused: vec![] });
    let found = documents(&server, "ve_own", "c").remove(0);
    assert_eq!((found.get_i64("n").unwrap(), found.get_str("source").unwrap()), (7, "web"));
    assert_eq!(found.get_document("read_at").unwrap().get_i64("offset").unwrap(), 7);
}

#[test]
fn an_embedded_document_gets_a_new_vector_and_keeps_its_source() {
    let server = shared();
    let mut sink = sink(&vectors(&server, "ve_anew", |_| ()));
    assert_eq!(write(&mut *sink, of_one_key(1, &[doc! {"n": 1}])), Verdict::WRITTEN);
    let embedded = documents(&server, "ve_anew", "c");
    assert_eq!(write(&mut *sink, of_one_key(2, &embedded)), Verdict::WRITTEN);
    let again = write(&mut *sink, of_one_key(2, &embedded));
    assert_eq!(
        again,
        Verdict::Written { replayed: 1, refused: vec![] },
        "the newer source is the one that is read"
    );
    let found = documents(&server, "ve_anew", "c").remove(0);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["_id", "_payload_id", "n", "vector", "source"]);
    assert_eq!(found.get_array("vector").unwrap(), &vec![Bson::Double(2.0)]);
}

#[test]
fn many_keys_over_all_connections_are_each_written_once() {
    let server = shared();
    let factory = vectors(&server, "ve_many", |typed| typed.by = By::Source);
    let names: Vec<_> = (0..500).map(|offset| (format!("k{}", offset % 100), offset)).collect();
    let events: Vec<_> = names.iter().map(|(key, offset)| (key.as_str(), *offset)).collect();
    assert_eq!(write(&mut *sink(&factory), keyed(0, &events)), Verdict::WRITTEN);
    assert_eq!(count(&server, "ve_many", "c"), 500);
    let replay = write(&mut *sink(&factory), keyed(0, &events));
    assert_eq!(replay, Verdict::Written { replayed: 500, refused: vec![] });
    let factory = vectors(&server, "ve_many_keys", |_| ());
    assert_eq!(write(&mut *sink(&factory), keyed(0, &events)), Verdict::WRITTEN);
    let found = numbers(&server, "ve_many_keys");
    assert!(found.len() == 100 && found.iter().all(|(_, number)| *number >= 400), "the last of each key");
}

/// A factory whose batches get vectors first, for the contract tests.
struct WithVectors(Vectors);

impl SinkFactory for WithVectors {
    fn promise(&self) -> plimsoll_pipeline::Promise {
        self.0.promise()
    }

    fn build(&self, worker: usize) -> Result<Box<dyn plimsoll_pipeline::Sink>, plimsoll_pipeline::SinkError> {
        Ok(Box::new(Adding(self.0.build(worker)?)))
    }
}

struct Adding(Box<dyn plimsoll_pipeline::Sink>);

impl plimsoll_pipeline::Sink for Adding {
    fn capacity(&self) -> usize {
        self.0.capacity()
    }

    fn submit(&mut self, mut batch: Batch) {
        (0..batch.events().len()).for_each(|index| batch.set_vector(index, &[index as f32]));
        self.0.submit(batch);
    }

    fn settle(&mut self, wait: std::time::Duration) -> Option<plimsoll_pipeline::Settled> {
        self.0.settle(wait)
    }
}

#[test]
fn the_sink_satisfies_the_contract() {
    let server = shared();
    for (db, by) in [("ve_contract", By::Key), ("ve_contract_s", By::Source)] {
        let factory = WithVectors(vectors(&server, db, |typed| typed.by = by));
        contract::check(&factory, || count(&server, db, "c"));
    }
    let mut server = start();
    let factory = WithVectors(vectors(&server, "d", |_| ()));
    contract::check_absence(&mut server, &factory);
}
