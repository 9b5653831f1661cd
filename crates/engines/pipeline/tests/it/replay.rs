//! Tests the replay of dead letters from a file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use plimsoll_pipeline::position::FilePositions;
use plimsoll_pipeline::replay::DeadLetterFile;
use plimsoll_pipeline::sink::{FileSink, FileSinkSettings, Form};
use plimsoll_pipeline::source::{File, FileSettings, Format};
use plimsoll_pipeline::transform::{Decode, Encode, Filter, FilterSettings};
use plimsoll_pipeline::{
    Batch, Limits, Partition, Parts, Pipeline, Record, Settings, Source, TransformFactory,
};
use serde_json::{Value, json};

/// Bytes of an event at most.
const EVENT_BYTES_MAX: usize = 1000;

/// A transform that fails for every tenth number.
fn strict() -> Box<dyn TransformFactory> {
    let condition = "if .n % 10 == 3 then error else true end".to_owned();
    Box::new(Filter::build(FilterSettings { condition, ..FilterSettings::default() }).unwrap())
}

/// Runs a pipeline from a source. A strict pipeline fails for every tenth number.
fn run(dir: &Path, source: Box<dyn Source>, positions: &str, is_strict: bool) {
    let transforms = if is_strict { vec![strict()] } else { Vec::new() };
    run_through(dir, source, positions, transforms);
}

fn run_through(
    dir: &Path,
    source: Box<dyn Source>,
    positions: &str,
    transforms: Vec<Box<dyn TransformFactory>>,
) {
    pipeline(dir, source, positions, transforms).run().unwrap();
}

fn pipeline(
    dir: &Path,
    source: Box<dyn Source>,
    positions: &str,
    transforms: Vec<Box<dyn TransformFactory>>,
) -> Pipeline {
    let sink = |name: &str| FileSink::new(FileSinkSettings { path: dir.join(name), form: Form::Whole });
    let parts = Parts {
        sources: vec![source],
        transforms,
        sink: Box::new(sink("out")),
        dead_letters: Some(Box::new(sink("dead"))),
        positions: Some(Arc::new(FilePositions::open(dir.join(positions)).unwrap())),
    };
    let limits =
        Limits { batch_events_max: 7, events_max: 21, event_bytes_max: EVENT_BYTES_MAX, ..Limits::default() };
    Pipeline::build(parts, Settings { limits, ..Settings::default() }, Arc::default()).unwrap()
}

fn read(dir: &Path, strict: bool) {
    let settings = FileSettings { path: dir.join("in"), format: Format::Ndjson };
    run(dir, Box::new(File::new(settings)), "positions", strict);
}

fn replay(dir: &Path, strict: bool, limit: u64) {
    run(dir, Box::new(DeadLetterFile::new(dir.join("dead"), limit)), "replayed", strict);
}

fn lines(dir: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_letter_is_replayed_as_its_event_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text: String = (0..100).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    fs::write(dir.join("in"), &text).unwrap();
    read(dir, true);
    let count = |name| lines(dir, name).len();
    assert_eq!((count("out"), count("dead")), (90, 10));
    // The pipeline is not repaired: three events become letters again, after the others.
    replay(dir, true, 3);
    assert_eq!((count("out"), count("dead")), (90, 13));
    replay(dir, false, u64::MAX);
    replay(dir, false, u64::MAX);
    assert_eq!((count("out"), count("dead")), (100, 13));
    let out = lines(dir, "out");
    let mut places: Vec<_> = out
        .iter()
        .map(|line| {
            assert_eq!((&line["headers"], &line["partition"]), (&json!({}), &out[0]["partition"]));
            let (at, payload) = (line["offset"].as_u64().unwrap(), line["payload"].as_str().unwrap());
            assert!(text[at as usize..].starts_with(payload), "{line}");
            at
        })
        .collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 100, "each event keeps its offset in the file");
}

#[test]
fn letters_before_an_invalid_line_are_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text: String = (0..40).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    fs::write(dir.join("in"), text).unwrap();
    read(dir, true);
    let whole = fs::read_to_string(dir.join("dead")).unwrap();
    fs::write(dir.join("dead"), format!("{whole}no letter\n")).unwrap();
    let letters = Box::new(DeadLetterFile::new(dir.join("dead"), u64::MAX));
    let words = pipeline(dir, letters, "replayed", Vec::new()).run().unwrap_err().to_string();
    assert!(words.contains(&format!("at byte {}", whole.len())), "{words}");
    assert_eq!(lines(dir, "out").len(), 40);
}

/// The append time of the events in envelopes, in milliseconds since 1970 UTC.
const APPENDED_MS: u64 = 1;

/// An event with a key and a header, in an envelope that fits a line: it contains no line break.
fn envelope(payload: &str) -> Vec<u8> {
    let mut batch = Batch::new(Partition::new("t", 0));
    let record =
        Record { offset: 0, appended_ms: APPENDED_MS, key: Some(b"k"), payload: Some(payload.as_bytes()) };
    batch.push_with(record, [("theirs", Some(&b"1"[..]))]);
    TransformFactory::build(&Encode, 0).unwrap().apply(&mut batch).unwrap();
    batch.payload(&batch.events()[0]).unwrap().to_vec()
}

#[test]
fn a_letter_of_a_decoded_event_holds_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let payloads = (0..).map(|pad: usize| format!("{{\"n\":3}}{}", " ".repeat(pad)));
    let (payload, line) = payloads
        .map(|payload| (payload.clone(), envelope(&payload)))
        .find(|(_, line)| !line.contains(&b'\n'))
        .unwrap();
    fs::write(dir.join("in"), [line.as_slice(), b"\n"].concat()).unwrap();
    let settings = FileSettings { path: dir.join("in"), format: Format::Ndjson };
    run_through(dir, Box::new(File::new(settings)), "positions", vec![Box::new(Decode), strict()]);
    let dead = lines(dir, "dead");
    assert_eq!((dead.len(), &dead[0]["key"]), (1, &Value::Null), "the original had no key: {}", dead[0]);
    assert_eq!(dead[0]["headers"].get("theirs"), None, "{}", dead[0]);
    assert_ne!(dead[0]["appended_ms"], APPENDED_MS, "the letter has the file's time, not the envelope's");
    assert_eq!(dead[0]["headers"]["plimsoll-stage"], "filter");
    // The pipeline is repaired, and decodes the same envelope.
    run_through(
        dir,
        Box::new(DeadLetterFile::new(dir.join("dead"), u64::MAX)),
        "replayed",
        vec![Box::new(Decode)],
    );
    let out = lines(dir, "out");
    assert_eq!((out.len(), lines(dir, "dead").len()), (1, 1));
    assert_eq!((&out[0]["payload"], &out[0]["key"]), (&json!(payload), &json!("k")));
    assert_eq!((&out[0]["headers"], &out[0]["appended_ms"]), (&json!({"theirs": "1"}), &json!(APPENDED_MS)));
}

#[test]
fn an_incomplete_letter_is_rejected_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("in"), format!("{}\n", "x".repeat(5000))).unwrap();
    read(dir, false);
    replay(dir, false, u64::MAX);
    let dead = lines(dir, "dead");
    assert_eq!((dead.len(), lines(dir, "out").len()), (2, 0));
    assert_eq!((&dead[1]["payload"], &dead[1]["offset"]), (&dead[0]["payload"], &dead[0]["offset"]));
    let message = dead[1]["headers"]["plimsoll-message"].as_str().unwrap();
    assert!(message.contains("read it again from its source"), "{message}");
    replay(dir, false, u64::MAX);
    assert_eq!(lines(dir, "dead")[2]["headers"]["plimsoll-cause"], "oversize");
}

#[test]
fn an_invalid_file_is_reported_with_the_offset() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("dead"), "{\"appended_ms\":1,\"headers\":{\"a\":\"1\"}}\n").unwrap();
    let parts = Parts {
        sources: vec![Box::new(DeadLetterFile::new(dir.path().join("dead"), 1))],
        transforms: Vec::new(),
        sink: Box::new(plimsoll_pipeline::sink::Noop),
        dead_letters: None,
        positions: Some(Arc::new(FilePositions::open(dir.path().join("replayed")).unwrap())),
    };
    let settings =
        Settings { guarantee: plimsoll_pipeline::guarantee::Guarantee::AtMostOnce, ..Settings::default() };
    let words = Pipeline::build(parts, settings, Arc::default()).unwrap().run().unwrap_err().to_string();
    assert!(words.contains("at byte 0") && words.contains("not a dead letter"), "{words}");
}
