//! Tests the exit codes of an audit for each kind of mismatch.

use std::path::Path;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, RawDocumentBuf, doc};
use plimsoll_host::{Profile, Server};

use super::replay::command;
use super::{audit, broker, file, fill, sum};
use crate::program::{plimsoll_with, server, stderr, uri};

const EVENTS: u64 = 600;

fn ask(server: &Server, asked: Document) -> Document {
    let reply = command(server, RawDocumentBuf::try_from(asked).unwrap());
    Document::try_from(&*reply).unwrap()
}

/// A document of the destination.
fn some(server: &Server) -> Document {
    let reply = ask(server, doc! {"find": "held", "limit": 1, "singleBatch": true});
    let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    found[0].as_document().unwrap().clone()
}

fn number(reply: &Document, key: &str) -> i64 {
    reply.get_i64(key).or_else(|_| reply.get_i32(key).map(i64::from)).unwrap()
}

fn insert(server: &Server, collection: &str, document: &Document) {
    let reply = ask(server, doc! {"insert": collection, "documents": [document.clone()]});
    assert_eq!(number(&reply, "n"), 1, "{reply}");
}

fn remove(server: &Server, collection: &str, document: &Document) {
    let one = doc! {"q": {"_id": document.get("_id").unwrap().clone()}, "limit": 1};
    let reply = ask(server, doc! {"delete": collection, "deletes": [one]});
    assert_eq!(number(&reply, "n"), 1, "{reply}");
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

/// A copy of a document with an offset outside of the topic.
fn beyond(document: &Document) -> Document {
    let mut id = document.get_binary_generic("_id").unwrap().clone();
    id[8..].copy_from_slice(&1_000_000_u64.to_be_bytes());
    let mut stranger = document.clone();
    stranger.insert("_id", binary(id));
    stranger
}

fn alter(server: &Server, document: &Document) {
    let change = doc! {"$set": {"payload": binary(b"altered".to_vec())}};
    let one = doc! {"q": {"_id": document.get("_id").unwrap().clone()}, "u": change};
    let reply = ask(server, doc! {"update": "held", "updates": [one]});
    assert_eq!(number(&reply, "nModified"), 1, "{reply}");
}

/// Checks the exit code of an audit and its numbers of missing, duplicated and unexpected events and of
/// altered partitions.
fn check(what: &str, path: &Path, code: i32, expected: [u64; 4]) {
    let (ended, report) = audit(path);
    let altered = |one: &&serde_json::Value| {
        one["missing"] == 0 && one["checksum"]["expected"] != one["checksum"]["found"]
    };
    let altered = report["partitions"].as_array().unwrap().iter().filter(altered).count() as u64;
    let [missing, doubled, strange] = ["missing", "duplicates", "strangers"].map(|key| sum(&report, key));
    assert_eq!([missing, doubled, strange, altered], expected, "{what}: {report}");
    assert_eq!(ended, Some(code), "{what}: {report}");
}

#[test]
fn an_audit_ends_with_4_for_each_mismatch_and_with_0_after_its_repair() {
    let (dir, broker, server) = (tempfile::tempdir().unwrap(), broker(), server(Profile::Journaled, &[]));
    let brokers = broker.bootstrap();
    fill(dir.path(), &brokers, "held", EVENTS);
    let text = format!(
        "guarantee: effectively-once\nsource: {{kafka: {{brokers: '{brokers}', topic: held, group: g, start: earliest}}}}\n\
         sink: {{insert: {{uri: '{0}', collection: test.held, form: full}}}}\n\
         dead_letters: {{insert: {{uri: '{0}', collection: test.dead, form: full}}}}\n",
        uri(&server)
    );
    let (path, out) = (file(dir.path(), "pipeline.yaml", &text), dir.path().join("run"));
    let (path_words, out, events) = (path.to_str().unwrap(), out.to_str().unwrap(), EVENTS.to_string());
    let ran = plimsoll_with(&["pipeline", "run", path_words, "--events", &events, "-q", "--out", out]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    check("as it was written", &path, 0, [0, 0, 0, 0]);

    let document = some(&server);
    insert(&server, "held", &beyond(&document));
    check("a document of no event", &path, 4, [0, 0, 1, 0]);
    remove(&server, "held", &beyond(&document));

    insert(&server, "dead", &document);
    check("an event that is a dead letter too", &path, 4, [0, 1, 0, 0]);
    remove(&server, "dead", &document);

    alter(&server, &document);
    check("another payload", &path, 4, [0, 0, 0, 1]);
    remove(&server, "held", &document);
    check("a missing event", &path, 4, [1, 0, 0, 0]);
    insert(&server, "held", &document);
    check("put right", &path, 0, [0, 0, 0, 0]);
}
