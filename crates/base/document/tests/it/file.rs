//! Tests files of documents: valid files are replayed, invalid ones are refused with record and offset.

use std::io::Write;
use std::path::Path;

use bson::{Document, doc};
use plimsoll_document::file::Error;
use plimsoll_document::{Encoded, FileSource, IdForm, PastEnd, Reading, Settings, Source};
use tempfile::NamedTempFile;

use crate::{IDENTITY, parsed, settings};

pub fn file(suffix: &str, bytes: &[u8]) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn dump(documents: &[Document]) -> Vec<u8> {
    documents.iter().flat_map(|document| document.to_vec().unwrap()).collect()
}

pub fn open(path: &Path, settings: &Settings, past_end: PastEnd) -> Result<FileSource, Error> {
    FileSource::open(path, settings, Reading { past_end, ..Reading::default() })
}

pub fn document(source: &FileSource, number: u64) -> Document {
    let mut out = Vec::new();
    assert_eq!(source.encode(number, &IDENTITY, &mut out), Encoded::Document);
    let (min, max) = source.len_bounds();
    assert!((min..=max).contains(&out.len()));
    parsed(&out)
}

/// The message without the file's name.
pub fn refused(suffix: &str, bytes: &[u8], settings: &Settings) -> String {
    let file = file(suffix, bytes);
    let message = open(file.path(), settings, PastEnd::Stop).unwrap_err().to_string();
    message.strip_prefix(&format!("{}: ", file.path().display())).unwrap().to_owned()
}

#[test]
fn a_dump_is_replayed_with_receipts_and_stamps() {
    let file =
        file(".bson", &dump(&[doc! {"_id": 1, "a": "x"}, doc! {"a": [1, 2], "_id": {"b": 2}, "c": null}]));
    let source = open(file.path(), &settings(), PastEnd::Stop).unwrap();
    let id = bson::oid::ObjectId::from_bytes(IDENTITY.id);
    assert_eq!(document(&source, 0), doc! {"_id": id, "a": "x", "_p": -7_i64});
    assert_eq!(document(&source, 1), doc! {"_id": id, "a": [1, 2], "c": null, "_p": -7_i64});
    assert_eq!((source.records(), source.documents_max()), (2, Some(2)));
}

#[test]
fn lines_and_a_dump_have_the_same_documents() {
    let lines = b"{\"_id\": 1, \"a\": {\"$date\": \"2026-01-31T00:00:00Z\"}}\r\n\n  {\"b\": {\"$numberLong\": \"5\"}}";
    let date = bson::DateTime::from_millis(1_769_817_600_000);
    let bytes = dump(&[doc! {"_id": 1, "a": date}, doc! {"b": 5_i64}]);
    let (lines, dump) = (file(".jsonl", lines), file(".bson", &bytes));
    let lines = open(lines.path(), &settings(), PastEnd::Stop).unwrap();
    let dump = open(dump.path(), &settings(), PastEnd::Stop).unwrap();
    for number in 0..2 {
        assert_eq!(document(&lines, number), document(&dump, number));
    }
    assert_ne!(lines.hash(), dump.hash());
}

#[test]
fn ids_may_be_strings_or_come_from_the_file_and_the_stamp_may_be_off() {
    let file = file(".bson", &dump(&[doc! {"a": 1, "_id": 9}]));
    let with = |id| {
        document(&open(file.path(), &Settings { id, stamp: None, ..settings() }, PastEnd::Stop).unwrap(), 0)
    };
    assert_eq!(with(IdForm::String), doc! {"_id": "65a100000102030405060708", "a": 1});
    assert_eq!(with(IdForm::Own), doc! {"a": 1, "_id": 9});
}

#[test]
fn a_file_ends_or_repeats_as_configured() {
    let file = file(".bson", &dump(&[doc! {"a": 1}, doc! {"a": 2}]));
    let stop = open(file.path(), &settings(), PastEnd::Stop).unwrap();
    let mut out = Vec::new();
    assert_eq!(stop.encode(2, &IDENTITY, &mut out), Encoded::PastEnd);
    assert!(out.is_empty());
    let repeat = open(file.path(), &settings(), PastEnd::Repeat).unwrap();
    assert_eq!(document(&repeat, 5), document(&stop, 1));
    assert_eq!((repeat.records(), repeat.documents_max()), (2, None));
    let source = Source::from(repeat);
    assert_eq!((source.records(), source.documents_max()), (Some(2), None));
    assert_eq!(source.encode(u64::MAX, &IDENTITY, &mut out), Encoded::Document);
}

#[test]
fn the_hash_is_that_of_the_files_bytes() {
    use sha2::{Digest, Sha256};
    for (suffix, bytes) in
        [(".bson", dump(&[doc! {"a": 1}])), (".ndjson", b"{\"a\": 1}\n\n{\"a\": 2}\n".to_vec())]
    {
        let file = file(suffix, &bytes);
        let source = open(file.path(), &settings(), PastEnd::Stop).unwrap();
        assert_eq!(source.hash().as_slice(), Sha256::digest(&bytes).as_slice());
    }
}

#[test]
fn a_dump_cut_anywhere_is_refused_at_its_record() {
    let bytes = dump(&[doc! {"a": 1}, doc! {"b": {"c": "text"}}]);
    let first = 12;
    for end in first + 1..bytes.len() {
        let message = refused(".bson", &bytes[..end], &settings());
        assert_eq!(message, "record 1 at byte 12: the file ends within this document; copy the file again");
    }
}

#[test]
fn impossible_lengths_are_refused() {
    for (length, at) in [(0_i32, 0), (4, 0), (-1, 0), (16_777_217, 0), (i32::MAX, 12)] {
        let mut bytes = if at == 0 { Vec::new() } else { dump(&[doc! {"a": 1}]) };
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 100]);
        let want = format!(
            "record {} at byte {at}: invalid document length {length}, not 5 to 16777216 bytes; is this a BSON file?",
            usize::from(at > 0)
        );
        assert_eq!(refused(".bson", &bytes, &settings()), want);
    }
}

#[test]
fn damage_within_a_document_is_located() {
    let mut bytes = dump(&[doc! {"a": 1}, doc! {"b": {"c": "text"}}]);
    let last = bytes.len() - 1;
    bytes[last] = 1;
    let message = refused(".bson", &bytes, &settings());
    assert_eq!(
        message,
        "record 1 at byte 12: damaged at byte 0 of the document: a final zero is missing; make the dump again"
    );
    bytes[last] = 0;
    bytes[16] = 0x20;
    let message = refused(".bson", &bytes, &settings());
    assert_eq!(
        message,
        "record 1 at byte 12: damaged at byte 4 of the document: a type that BSON does not have; make the dump again"
    );
}

#[test]
fn no_input_bytes_cause_a_panic() {
    let good = dump(&[doc! {"_id": 1, "a": "text", "b": [1, {"c": bson::DateTime::from_millis(5)}]}]);
    for at in 0..good.len() {
        for value in [0, 1, 3, 15, 127, 128, 255] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let file = file(".bson", &bytes);
            if let Ok(source) = open(file.path(), &settings(), PastEnd::Stop) {
                let mut out = Vec::new();
                assert_eq!(source.encode(0, &IDENTITY, &mut out), Encoded::Document);
            }
        }
    }
}

#[test]
fn lines_that_are_not_documents_are_refused() {
    let check = |bytes: &[u8], want: &str| {
        let message = refused(".json", bytes, &settings());
        assert!(message.starts_with(want), "{message}");
    };
    check(
        b"[{\"a\": 1}]",
        "record 0 at byte 0: the file is a JSON array; write one document a line (mongoexport without",
    );
    check(
        b"{\n  \"a\": 1\n}",
        "record 0 at byte 0: not a JSON document on one line (it ends within the document); write",
    );
    check(
        b"{\"a\": 1}\n\n5\n",
        "record 1 at byte 10: not a JSON document on one line (it is no object such as {\"a\": 1});",
    );
    check(
        b"{\"a\": 1}\n{\"n\": 9223372036854775808}\n",
        "record 1 at byte 9: a whole number of more than 64 bits at byte 7 of the line; write",
    );
    let extended = |line: &[u8], reason: &str| {
        check(line, &format!("record 0 at byte 0: not valid Extended JSON ({reason}); write"));
    };
    extended(b"{\"a\": {\"$oid\": \"x\"}}", "\"a\": the value of $oid is invalid");
    extended(b"{\"a\": [1, {\"b\": {\"$date\": true}}]}", "\"a.1.b\": the value of $date is invalid");
    extended(b"{\"a\\u0000b\": 1}", "a name of a field has a zero byte");
    check(b"{\"a\": \"\xff\"}", "record 0 at byte 0: not a JSON document on one line (its byte ");
    check(b"{\"a\" 1}", "record 0 at byte 0: not a JSON document on one line (its byte 6 is wrong)");
}

#[test]
fn conflicts_with_the_identity_are_refused() {
    let stamped = dump(&[doc! {"a": 1}, doc! {"_p": 1}]);
    let want = "record 1 at byte 12: already has a field \"_p\", which is the stamp's name; rename the stamp or turn it off";
    assert_eq!(refused(".bson", &stamped, &settings()), want);
    let want = "record 0 at byte 0: has no _id, which `id: own` requires; leave `id` out to send receipts";
    assert_eq!(refused(".bson", &stamped, &Settings { id: IdForm::Own, ..settings() }), want);
}

#[test]
fn a_document_too_large_with_its_identity_is_refused() {
    let large = dump(&[doc! {"a": "x".repeat(16_777_216 - 13)}]);
    assert_eq!(large.len(), 16_777_216);
    let want = "record 0 at byte 0: 16777245 bytes, over MongoDB's limit of 16777216; leave the document out";
    assert_eq!(refused(".bson", &large, &settings()), want);
}

#[test]
fn invalid_files_are_refused_with_the_reason() {
    assert_eq!(refused(".bson", b"", &settings()), "holds no documents; name another file");
    assert_eq!(refused(".ndjson", b"\n \n", &settings()), "holds no documents; name another file");
    assert!(refused(".gz", b"", &settings()).contains("decompress .gz first"));
    let error = open(Path::new("/nowhere/x.bson"), &settings(), PastEnd::Stop).unwrap_err().to_string();
    assert_eq!(error, "/nowhere/x.bson: cannot be opened; check the path and the permissions");
}

#[test]
fn memory_is_bounded() {
    let file = file(".bson", &dump(&vec![doc! {"a": 1}; 100]));
    let reading = Reading { memory_bytes_max: 800, ..Reading::default() };
    let message = FileSource::open(file.path(), &settings(), reading).unwrap_err().to_string();
    assert!(
        message.ends_with("need more than 800 bytes of memory; split the file or raise the limit"),
        "{message}"
    );
}
