//! Tests the transform of a pipeline: from a field of a payload to the event's vector.

use bson::{doc, serialize_to_vec};
use plimsoll_onnx::transform::{Payload, Section};
use plimsoll_onnx::{Limits, Precision, cosine};
use plimsoll_pipeline::{Batch, CauseClass, Partition, Record, TransformFactory};

use crate::installed::{cache, embed, embedder};

const TEXT: &str = "The load line is the rate that holds.";

fn batch(payloads: &[Option<&[u8]>]) -> Batch {
    let mut batch = Batch::new(Partition::new("events", 0));
    for (offset, payload) in payloads.iter().enumerate() {
        batch.push(Record { offset: offset as u64, appended_ms: 1, key: None, payload: *payload });
    }
    batch
}

/// Applies a transform to payloads; only the last payload is valid, and all others are rejected.
fn check(section: Section, payloads: &[&[u8]]) {
    let mut batch = batch(&payloads.iter().map(|payload| Some(*payload)).collect::<Vec<_>>());
    let factory = section.build("embed", &cache()).unwrap();
    TransformFactory::build(&factory, 0).unwrap().apply(&mut batch).unwrap();
    let [event] = batch.events() else { panic!("{:?}", batch.rejected()) };
    assert_eq!(event.offset as usize, payloads.len() - 1);
    let expected = embed(&mut embedder(section.precision, Limits::default()), &[TEXT]);
    assert!(1.0 - cosine(batch.vector(event).unwrap(), &expected) < 1e-6);
    assert_eq!(batch.payload(event), payloads.last().copied(), "the payload stays");
    assert_eq!(batch.rejected().len(), payloads.len() - 1);
    for rejected in batch.rejected() {
        assert_eq!((&*rejected.cause.stage, rejected.cause.class), ("embed", CauseClass::Invalid));
    }
    assert_eq!(factory.counts().texts, 1);
}

fn section(payload: Payload, field: Option<&str>) -> Section {
    Section { payload, field: field.map(str::to_owned), ..Section::default() }
}

#[test]
fn a_payload_that_is_text_gets_its_vector() {
    check(section(Payload::Text, None), &[b"\xff\xfe", TEXT.as_bytes()]);
}

#[test]
fn a_field_of_a_json_payload_gets_its_vector() {
    let good = format!(r#"{{"a": {{"b": "{TEXT}"}}, "c": 1}}"#);
    let payloads: [&[u8]; 6] =
        [b"", b"{", br#"{"a": 1}"#, br#"{"a": {"b": 7}}"#, br#"["a"]"#, good.as_bytes()];
    check(section(Payload::Json, Some("a.b")), &payloads);
}

#[test]
fn a_field_of_a_bson_payload_gets_its_vector() {
    let good = serialize_to_vec(&doc! { "x": 1, "a": { "b": TEXT } }).unwrap();
    let other = serialize_to_vec(&doc! { "a": { "b": 7 } }).unwrap();
    let without = serialize_to_vec(&doc! { "a": "b" }).unwrap();
    let cut = &good[..good.len() - 3];
    let section = Section { precision: Precision::Int8, ..section(Payload::Bson, Some("a.b")) };
    check(section, &[b"", cut, &other, &without, &good]);
}

#[test]
fn a_tombstone_passes_without_a_vector() {
    let mut batch = batch(&[None, Some(b"text")]);
    let factory = section(Payload::Text, None).build("embed", &cache()).unwrap();
    TransformFactory::build(&factory, 0).unwrap().apply(&mut batch).unwrap();
    let vectors: Vec<bool> = batch.events().iter().map(|event| batch.vector(event).is_some()).collect();
    assert_eq!(vectors, [false, true]);
}

#[test]
fn an_invalid_section_is_refused() {
    let refused = |section: Section, expected: &str| {
        let error = section.build("embed", &cache()).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(section(Payload::Json, None), "payloads need `field`");
    refused(section(Payload::Text, Some("a")), "payloads need `field`");
    let path = || Some("a".into());
    refused(Section { model: path(), ..Section::default() }, "belong together");
    refused(Section { tokenizer: path(), ..Section::default() }, "belong together");
    refused(Section { model: path(), precision: Precision::Int8, ..Section::default() }, "omit it");
    refused(Section { tokens_max: Some(1), ..Section::default() }, "at least 8");
    let unknown = serde_json::from_str::<Section>(r#"{"feild": "a"}"#).unwrap_err().to_string();
    assert!(unknown.contains("unknown field"), "{unknown}");
}
