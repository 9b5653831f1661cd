//! Tests pipelines from a file to a file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use plimsoll_pipeline::position::FilePositions;
use plimsoll_pipeline::sink::{FileSink, FileSinkSettings, Form};
use plimsoll_pipeline::source::{File, FileSettings, Format};
use plimsoll_pipeline::{Ended, Limits, Parts, Pipeline, Settings};

fn run(dir: &Path, format: Format, form: Form, limits: Limits) -> Result<Ended, plimsoll_pipeline::Error> {
    let file = |name: &str| dir.join(name);
    let sink = |name: &str, form| FileSink::new(FileSinkSettings { path: file(name), form });
    let parts = Parts {
        sources: vec![Box::new(File::new(FileSettings { path: file("in"), format }))],
        transforms: Vec::new(),
        sink: Box::new(sink("out", form)),
        dead_letters: Some(Box::new(sink("dead", Form::Whole))),
        positions: Some(Arc::new(FilePositions::open(file("positions")).unwrap())),
    };
    Pipeline::build(parts, Settings { limits, ..Settings::default() }, Arc::default())?.run()
}

#[test]
fn a_file_is_read_from_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in"), dir.path().join("out"));
    let lines =
        |from: u32, to: u32| (from..to).map(|number| format!("{{\"n\":{number}}}\n")).collect::<String>();
    fs::write(&input, lines(0, 1000)).unwrap();
    let limits = Limits { batch_events_max: 7, events_max: 21, ..Limits::default() };
    assert_eq!(run(dir.path(), Format::Ndjson, Form::Lines, limits).unwrap(), Ended::Exhausted);
    fs::write(&input, lines(0, 1500)).unwrap();
    run(dir.path(), Format::Ndjson, Form::Lines, limits).unwrap();
    let text = fs::read_to_string(&output).unwrap();
    let mut written: Vec<_> = text.lines().collect();
    written.sort_unstable();
    let expected = lines(0, 1500);
    let mut expected: Vec<_> = expected.lines().collect();
    expected.sort_unstable();
    assert_eq!(written, expected);
    fs::write(&input, "short").unwrap();
    let words = run(dir.path(), Format::Ndjson, Form::Lines, limits).unwrap_err().to_string();
    assert!(words.contains("another file"), "{words}");
}

#[test]
fn events_of_a_replaced_file_have_other_identities() {
    let dir = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        fs::write(dir.path().join("in"), text).unwrap();
        run(dir.path(), Format::Ndjson, Form::Whole, Limits::default())
    };
    read("a\n").unwrap();
    let words = read("b\nc\n").unwrap_err().to_string();
    assert!(words.contains("has another beginning now") && words.contains("remove its position"), "{words}");
    fs::remove_file(dir.path().join("positions")).unwrap();
    read("b\nc\n").unwrap();
    let out = fs::read_to_string(dir.path().join("out")).unwrap();
    let places: Vec<_> = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| (line["partition"].clone(), line["offset"].as_u64().unwrap()))
        .collect();
    assert_eq!([places[0].1, places[1].1, places[2].1], [0, 0, 2], "offsets are bytes");
    assert!(places[0].0 != places[1].0 && places[1].0 == places[2].0, "{places:?}");
}

#[test]
fn an_oversize_line_is_a_dead_letter_and_later_lines_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("one\n{}\n\nthree", "x".repeat(5000));
    fs::write(dir.path().join("in"), text).unwrap();
    let limits = Limits { event_bytes_max: 1000, ..Limits::default() };
    run(dir.path(), Format::Ndjson, Form::Lines, limits).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("out")).unwrap(), "one\nthree\n");
    let dead = fs::read_to_string(dir.path().join("dead")).unwrap();
    assert_eq!(dead.lines().count(), 1);
    assert!(
        dead.contains("\"plimsoll-cause\":\"oversize\"") && dead.contains("\"offset\":4"),
        "{}",
        &dead[..300]
    );
}

#[test]
fn bson_documents_pass_unchanged_and_a_truncated_one_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let document = |number: u8| [&[12, 0, 0, 0, 16, b'n', 0, number, 0, 0, 0, 0][..]].concat();
    let whole: Vec<u8> = (0..50).flat_map(document).collect();
    fs::write(dir.path().join("in"), &whole).unwrap();
    run(dir.path(), Format::Bson, Form::Raw, Limits::default()).unwrap();
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), whole);
    fs::write(dir.path().join("in"), [&whole[..], &[12, 0, 0]].concat()).unwrap();
    let words = run(dir.path(), Format::Bson, Form::Raw, Limits::default()).unwrap_err().to_string();
    assert!(words.contains("ends within a document") && words.contains("byte 600"), "{words}");
    // The documents before the damage arrive nevertheless when the file is read for the first time.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in"), [&whole[..], &[12, 0, 0]].concat()).unwrap();
    let words = run(dir.path(), Format::Bson, Form::Raw, Limits::default()).unwrap_err().to_string();
    assert!(words.contains("ends within a document"), "{words}");
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), whole);
}

#[test]
fn two_sinks_do_not_write_to_one_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in"), "a\n").unwrap();
    let sink =
        || Box::new(FileSink::new(FileSinkSettings { path: dir.path().join("out"), form: Form::Lines }));
    let parts = Parts {
        sources: vec![Box::new(File::new(FileSettings {
            path: dir.path().join("in"),
            format: Format::Ndjson,
        }))],
        transforms: Vec::new(),
        sink: sink(),
        dead_letters: Some(sink()),
        positions: Some(Arc::new(FilePositions::open(dir.path().join("positions")).unwrap())),
    };
    let words =
        Pipeline::build(parts, Settings::default(), Arc::default()).unwrap().run().unwrap_err().to_string();
    assert!(words.contains("its own file"), "{words}");
}
