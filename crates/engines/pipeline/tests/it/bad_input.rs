//! Tests that invalid input is reported and loses no event.

use std::fs;
use std::sync::Arc;

use plimsoll_pipeline::engine::{DeadLetterLimit, Retry};
use plimsoll_pipeline::position::FilePositions;
use plimsoll_pipeline::sink::{FileSink, FileSinkSettings, Form};
use plimsoll_pipeline::source::{File, FileSettings, Format};
use plimsoll_pipeline::transform::{Decode, Encode};
use plimsoll_pipeline::{
    Batch, Ended, Limits, Partition, Parts, Pipeline, Record, Settings, TransformFactory,
};

use crate::outcome::{RETRY, run, settings};
use crate::scripted::{Counting, Scripted};

#[test]
fn a_full_disk_stops_the_pipeline_when_retries_are_exhausted() {
    let sink = FileSink::new(FileSinkSettings { path: "/dev/full".into(), form: Form::Lines });
    // One batch of the bytes 0 to 9: the next byte is a line break, which no line may contain.
    let source = Counting::new(10, 10);
    let committed = Arc::clone(&source.committed);
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms: Vec::new(),
        sink: Box::new(sink),
        dead_letters: None,
        positions: None,
    };
    let settings = Settings { retry: Retry { attempts_max: Some(2), ..RETRY }, ..settings() };
    let error = Pipeline::build(parts, settings, Arc::default()).unwrap().run().unwrap_err().to_string();
    assert!(error.contains("3 attempts") && error.contains("/dev/full: No space left"), "{error}");
    assert!(committed.lock().unwrap().is_empty(), "nothing was written");
}

/// The messages of the dead letters of payloads that should be envelopes.
fn decoded(payloads: &[Vec<u8>]) -> (usize, Vec<String>) {
    let mut batch = Batch::new(Partition::new("t", 0));
    for (offset, payload) in (0_u64..).zip(payloads) {
        batch.push(Record { offset, payload: Some(payload), ..Record::default() });
    }
    TransformFactory::build(&Decode, 0).unwrap().apply(&mut batch).unwrap();
    let causes = batch.rejected().iter().map(|one| one.cause.to_string()).collect();
    (batch.events().len(), causes)
}

#[test]
fn an_invalid_envelope_is_a_dead_letter_with_the_reason() {
    let mut batch = Batch::new(Partition::new("t", 0));
    batch.push(Record { payload: Some(b"payload"), ..Record::default() });
    TransformFactory::build(&Encode, 0).unwrap().apply(&mut batch).unwrap();
    let good = batch.payload(&batch.events()[0]).unwrap().to_vec();
    let (mut newer, mut corrupt) = (good.clone(), good.clone());
    newer[2] += 1;
    *corrupt.last_mut().unwrap() ^= 1;
    let (kept, causes) = decoded(&[newer, good, corrupt, b"{}".to_vec()]);
    assert_eq!(kept, 1);
    let expected = [
        "invalid at decode: the envelope has version 2, and this program reads version 1",
        "invalid at decode: the envelope's checksum is",
        "invalid at decode: this is not an envelope",
    ];
    assert_eq!(causes.len(), expected.len());
    for (cause, expected) in causes.iter().zip(expected) {
        assert!(cause.starts_with(expected), "{cause}");
    }
}

#[test]
fn an_oversize_event_is_rejected_in_every_source() {
    let limits = Limits { event_bytes_max: 4, ..Limits::default() };
    let dir = tempfile::tempdir().unwrap();
    let documents = [&[5, 0, 0, 0, 0][..], &[5, 0, 0, 0, 0]].concat();
    fs::write(dir.path().join("in"), documents).unwrap();
    let file = File::new(FileSettings { path: dir.path().join("in"), format: Format::Bson });
    let letters = FileSink::new(FileSinkSettings { path: dir.path().join("dead"), form: Form::Whole });
    let sink = Scripted::writing();
    let parts = Parts {
        sources: vec![Box::new(file)],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: Some(Box::new(letters)),
        positions: Some(Arc::new(FilePositions::open(dir.path().join("positions")).unwrap())),
    };
    let pipeline = Pipeline::build(parts, Settings { limits, ..settings() }, Arc::default()).unwrap();
    assert_eq!(pipeline.run().unwrap(), Ended::Exhausted);
    assert!(sink.written().is_empty());
    let dead = fs::read_to_string(dir.path().join("dead")).unwrap();
    assert_eq!(dead.matches("\"plimsoll-cause\":\"oversize\"").count(), 2, "{dead}");
    // The source does not check sizes: the engine does.
    let limits = Limits { event_bytes_max: 63, ..Limits::default() };
    let source = generator(64);
    let parts = Parts {
        sources: vec![source],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: Some(Arc::new(FilePositions::open(dir.path().join("positions")).unwrap())),
    };
    let pipeline = Pipeline::build(parts, Settings { limits, ..settings() }, Arc::default()).unwrap();
    let error = pipeline.run().unwrap_err().to_string();
    assert!(error.contains("64 bytes are more than 63: raise `in_flight.event`"), "{error}");
    assert!(sink.written().is_empty());
}

fn generator(payload_bytes: usize) -> Box<dyn plimsoll_pipeline::Source> {
    use plimsoll_pipeline::source::{Generator, GeneratorSettings, Stop};
    Box::new(Generator::new(GeneratorSettings {
        partition: Partition::new("generated", 0),
        payload_bytes,
        key: None,
        rate_per_s: None,
        stop: Stop::Events(10),
        resumes: true,
        seed: 1,
    }))
}

#[test]
fn invalid_limits_and_pauses_are_refused() {
    let check = |settings: Settings, expected: &str| {
        let error = run_refused(settings);
        assert!(error.contains(expected), "{error}");
    };
    check(Settings { retry: Retry { pause_ns_min: 0, ..RETRY }, ..settings() }, "`pause` must be above zero");
    check(
        Settings { retry: Retry { pause_ns_max: 1, ..RETRY }, ..settings() },
        "`pause_max` at least as long as `pause`",
    );
    let limit = Some(DeadLetterLimit { most: 5, of: 5 });
    check(Settings { dead_letter_limit: limit, ..settings() }, "`most` must be below `of`");
    let limits = Limits { event_bytes_max: 0, ..Limits::default() };
    check(Settings { limits, ..settings() }, "at least one");
    assert_eq!(run(&Scripted::writing(), None, settings()).ended.unwrap(), Ended::Exhausted);
}

fn run_refused(settings: Settings) -> String {
    let parts = Parts {
        sources: vec![Box::new(Counting::new(1, 1))],
        transforms: Vec::new(),
        sink: Box::new(Scripted::writing()),
        dead_letters: None,
        positions: None,
    };
    Pipeline::build(parts, settings, Arc::default()).err().unwrap().to_string()
}

#[test]
fn a_file_is_recognised_under_every_path() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/in"), "a\nb\n").unwrap();
    std::os::unix::fs::symlink(dir.path().join("data"), dir.path().join("link")).unwrap();
    let read = |path: &str| {
        let sink = Scripted::writing();
        let file = File::new(FileSettings { path: dir.path().join(path), format: Format::Ndjson });
        let parts = Parts {
            sources: vec![Box::new(file)],
            transforms: Vec::new(),
            sink: Box::new(sink.clone()),
            dead_letters: None,
            positions: Some(Arc::new(FilePositions::open(dir.path().join("positions")).unwrap())),
        };
        Pipeline::build(parts, settings(), Arc::default()).unwrap().run().unwrap();
        sink.written()
    };
    assert_eq!(read("data/in"), [0, 2]);
    for again in ["data/in", "link/in", "data/../data/in"] {
        assert_eq!(read(again), [] as [u64; 0], "{again} is the file that was read to its end");
    }
}
