//! Tests the conversion of events to documents, byte by byte.

use bson::{Bson, Document, doc};
use plimsoll_pipeline::{Batch, Partition, Record, Verdict};
use plimsoll_stores::document::form::{Draft, Form, Id};
use plimsoll_stores::document::identity::Identity;
use plimsoll_stores::scenario::Insert;

use crate::bench::{documents, refused, shared, sink, uri, write};

const IDENTITY: Identity = Identity { topic: 1, partition: 2, offset: 3 };

fn batch(payload: &[u8]) -> Batch {
    let mut batch = Batch::new(Partition::new("t", 2));
    batch.push(Record { offset: 3, appended_ms: 9, key: Some(b"sk"), payload: Some(payload) });
    batch
}

#[test]
fn a_bson_payload_keeps_its_bytes_for_every_type() {
    let payload = doc! {
        "long": 1_i64, "int": 1, "double": 1.0, "decimal": "1.50".parse::<bson::Decimal128>().unwrap(),
        "date": bson::DateTime::from_millis(5), "time": bson::Timestamp { time: 1, increment: 2 },
        "regex": bson::Regex { pattern: bson::cstr!("a").into(), options: bson::cstr!("i").into() },
        "vector": bson::Binary { subtype: bson::spec::BinarySubtype::Vector, bytes: vec![0x27, 0, 0, 0, 0, 0] },
        "min": Bson::MinKey, "deep": {"_id": [Bson::Null, {"$oid": "no"}]},
    };
    let (payload, mut scratch, mut out) = (payload.to_vec().unwrap(), Vec::new(), Vec::new());
    let batch = batch(&payload);
    let event = batch.events()[0];
    let draft = Draft::of(Form::Bson, Id::Source(IDENTITY), &batch, &event, &mut scratch).unwrap();
    draft.write(&mut out, |_| ());
    assert!(out.ends_with(&payload[4..]), "the payload follows the name");
}

#[test]
fn an_existing_source_field_is_replaced_only_if_a_sink_wrote_it() {
    let payload = doc! {"vector": [1], "a": 1, "_id": 7, "tail": 2, "b": {"tail": 3}}.to_vec().unwrap();
    let batch = batch(&payload);
    let (event, mut scratch, mut out) = (batch.events()[0], Vec::new(), Vec::new());
    let mut draft = Draft::of(Form::Bson, Id::Payload, &batch, &event, &mut scratch).unwrap();
    let own = draft.leave_out("tail", |value| value.as_str().is_some()).unwrap_err();
    assert!(own.to_string().contains("a field `tail`, which the sink writes"), "{own}");
    draft.leave_out("tail", |value| value.as_i32() == Some(2)).unwrap();
    draft.leave_out("vector", |_| true).unwrap();
    draft.leave_out("absent", |_| false).unwrap();
    draft.write(&mut out, |out| out.extend_from_slice(b"\x10tail\0\x01\0\0\0"));
    let written = Document::from_reader(out.as_slice()).unwrap();
    assert_eq!(written, doc! {"_id": 7, "a": 1, "b": {"tail": 3}, "tail": 1});
    assert_eq!(out, written.to_vec().unwrap(), "no name occurs twice");
}

#[test]
fn an_earlier_payload_id_is_not_hidden() {
    let both = doc! {"_id": 2, "_payload_id": 1}.to_vec().unwrap();
    let one = doc! {"_payload_id": 1}.to_vec().unwrap();
    let refusal = |payload: &[u8], id: Id<'_>| {
        let (batch, mut scratch) = (batch(payload), Vec::new());
        let event = batch.events()[0];
        let draft = Draft::of(Form::Bson, id, &batch, &event, &mut scratch);
        draft.err().map(|unfit| unfit.to_string())
    };
    let words = refusal(&both, Id::Source(IDENTITY)).unwrap();
    assert!(words.contains("a field `_payload_id`, which the sink writes"), "{words}");
    assert_eq!((refusal(&both, Id::Payload), refusal(&one, Id::Source(IDENTITY))), (None, None));
}

#[test]
fn the_metadata_document_of_a_two_byte_key_has_71_bytes() {
    let mut batch = Batch::new(Partition::new("t", 0));
    batch.push(Record {
        offset: 0,
        appended_ms: 1_774_193_836_641,
        key: Some(b"sk"),
        payload: Some(&[0; 512]),
    });
    let (mut scratch, mut out, event) = (Vec::new(), Vec::new(), batch.events()[0]);
    let draft = Draft::of(Form::Metadata, Id::ObjectId([7; 12]), &batch, &event, &mut scratch).unwrap();
    draft.write(&mut out, |_| ());
    assert_eq!(out.len(), 71);
    let id = bson::oid::ObjectId::from_bytes([7; 12]);
    let expected = doc! {"_id": id, "key": "sk", "bytes": 512, "headers": {}, "ts": 1_774_193_836_641_i64};
    assert_eq!(Document::from_reader(out.as_slice()).unwrap(), expected);
}

/// Imitates a scan that copies a collection with a source field into another collection.
#[test]
fn a_copied_document_gets_its_own_source_and_other_values_are_refused() {
    let server = shared();
    let typed = Insert { form: Form::Bson, ..Insert::new(uri(&server), "in_room.c") };
    let typed = Insert { source_field: Some("src".into()), ..typed };
    let mut sink = sink(&typed.build().unwrap());
    assert_eq!(write(&mut *sink, batch(&doc! {"n": 1}.to_vec().unwrap())), Verdict::WRITTEN);
    let stored = documents(&server, "in_room", "c").remove(0).to_vec().unwrap();
    let mut copies = Batch::new(Partition::new("t", 2));
    for (offset, payload) in [(7, stored), (8, doc! {"src": "mine"}.to_vec().unwrap())] {
        copies.push(Record { offset, appended_ms: 9, key: None, payload: Some(&payload) });
    }
    assert_eq!(refused(&write(&mut *sink, copies)), [1]);
    let found = documents(&server, "in_room", "c");
    let source = |found: &Document| Identity::from_bytes(found.get_binary_generic("src").unwrap()).unwrap();
    assert_eq!(found.iter().map(|found| source(found).offset).collect::<Vec<_>>(), [3, 7]);
    assert_eq!(found[1].keys().collect::<Vec<_>>(), ["_id", "_payload_id", "n", "src"]);
}
