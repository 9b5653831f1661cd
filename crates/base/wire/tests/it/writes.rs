//! Tests inserts, updates and deletes against a real server.

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use plimsoll_wire::{
    Cause, Class, Connection, Limits, Outcome, Span, W, WriteBatch, WriteConcern, WriteKind, WriteReply,
    WriteSpec,
};

use crate::client::{connect, run};
use crate::server::Server;

const DUPLICATE: Outcome = Outcome::Rejected(Class::DuplicateId);

fn spans(reply: &WriteReply) -> Vec<(u32, u32, Outcome)> {
    reply.spans().iter().map(|&Span { first, count, outcome }| (first, count, outcome)).collect()
}

async fn write(connection: &mut Connection, spec: &WriteSpec, documents: &[RawDocumentBuf]) -> WriteReply {
    let limits = connection.limits();
    write_within(connection, spec, &limits, documents).await
}

async fn write_within(
    connection: &mut Connection,
    spec: &WriteSpec,
    limits: &Limits,
    documents: &[RawDocumentBuf],
) -> WriteReply {
    let mut batch = WriteBatch::new(spec, limits).unwrap();
    for document in documents {
        batch.push(|out| out.extend_from_slice(document.as_bytes())).unwrap();
    }
    let mut reply = WriteReply::new();
    connection.write(&mut batch, &mut reply).await;
    assert_eq!(reply.bytes_sent as usize, batch.bytes());
    reply
}

async fn count(connection: &mut Connection, db: &str) -> i64 {
    let reply = connection.command(db, &rawdoc! {"count": "c", "query": {}}).await.unwrap();
    let reply = Document::try_from(reply).unwrap();
    reply.get_i64("n").or_else(|_| reply.get_i32("n").map(i64::from)).unwrap()
}

fn ids(ids: impl IntoIterator<Item = i32>) -> Vec<RawDocumentBuf> {
    ids.into_iter().map(|id| rawdoc! {"_id": id}).collect()
}

#[test]
fn documents_are_inserted_updated_and_deleted() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let reply =
            write(&mut connection, &WriteSpec::new(WriteKind::Insert, "w_round", "c"), &ids(0..10)).await;
        assert_eq!((spans(&reply), reply.n), (vec![(0, 10, Outcome::Acknowledged)], 10));
        assert!(reply.bytes_received > 0 && reply.commands == 1);
        let update = [
            rawdoc! {"q": {"_id": {"$lt": 4}}, "u": {"$set": {"x": 1}}, "multi": true},
            rawdoc! {"q": {"_id": 100}, "u": {"$set": {"x": 1}}, "upsert": true},
            rawdoc! {"q": {"_id": 0}, "u": {"$set": {"x": 1}}},
        ];
        let reply = write(&mut connection, &WriteSpec::new(WriteKind::Update, "w_round", "c"), &update).await;
        assert_eq!(spans(&reply), [(0, 3, Outcome::Acknowledged)]);
        assert_eq!((reply.n, reply.n_modified, reply.n_upserted), (6, 4, 1));
        let delete = [rawdoc! {"q": {"x": 1}, "limit": 0}];
        let reply = write(&mut connection, &WriteSpec::new(WriteKind::Delete, "w_round", "c"), &delete).await;
        assert_eq!((spans(&reply), reply.n), (vec![(0, 1, Outcome::Acknowledged)], 5));
        assert_eq!(count(&mut connection, "w_round").await, 6);
    });
}

#[test]
fn an_ordered_batch_stops_at_a_duplicate_key() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let spec = WriteSpec::new(WriteKind::Insert, "w_ordered", "c");
        write(&mut connection, &spec, &ids([3])).await;
        let reply = write(&mut connection, &spec, &ids(0..6)).await;
        let expected = [(0, 3, Outcome::Acknowledged), (3, 1, DUPLICATE), (4, 2, Outcome::NotSent)];
        assert_eq!((spans(&reply).as_slice(), reply.n), (expected.as_slice(), 3));
        assert_eq!(reply.first_error().unwrap().0, 11000);
        assert_eq!(count(&mut connection, "w_ordered").await, 4);
    });
}

#[test]
fn an_unordered_batch_continues_after_duplicate_keys() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let spec = WriteSpec { ordered: false, ..WriteSpec::new(WriteKind::Insert, "w_unordered", "c") };
        write(&mut connection, &spec, &ids([0, 3, 4])).await;
        let reply = write(&mut connection, &spec, &ids(0..6)).await;
        let acknowledged = Outcome::Acknowledged;
        assert_eq!(
            spans(&reply),
            [(0, 1, DUPLICATE), (1, 2, acknowledged), (3, 2, DUPLICATE), (5, 1, acknowledged)]
        );
        assert_eq!(count(&mut connection, "w_unordered").await, 6);
    });
}

#[test]
fn a_duplicate_key_of_a_unique_index_is_not_a_duplicate_id() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let index = rawdoc! {"key": {"user": 1}, "name": "user_1", "unique": true};
        let create = rawdoc! {"createIndexes": "c", "indexes": [index]};
        connection.command("w_unique", &create).await.unwrap();
        let spec = WriteSpec { ordered: false, ..WriteSpec::new(WriteKind::Insert, "w_unique", "c") };
        let documents = |ids: [i32; 2]| ids.map(|id| rawdoc! {"_id": id, "user": id % 10});
        assert!(write(&mut connection, &spec, &documents([1, 2])).await.is_acknowledged());
        let reply = write(&mut connection, &spec, &documents([1, 12])).await;
        let other = Outcome::Rejected(Class::DuplicateKey);
        assert_eq!(spans(&reply), [(0, 1, DUPLICATE), (1, 1, other)], "{:?}", reply.first_error());
    });
}

#[test]
fn a_split_batch_keeps_the_outcomes_of_earlier_frames_and_does_not_send_the_later_ones() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let limits = Limits { max_write_batch: 4, ..connection.limits() };
        let mut spec = WriteSpec::new(WriteKind::Insert, "w_split", "c");
        write(&mut connection, &spec, &ids([5])).await;
        let reply = write_some(&mut connection, &spec, &limits, 0..12).await;
        let expected = [(0, 5, Outcome::Acknowledged), (5, 1, DUPLICATE), (6, 6, Outcome::NotSent)];
        assert_eq!((spans(&reply).as_slice(), reply.commands), (expected.as_slice(), 2));
        spec.ordered = false;
        let reply = write_some(&mut connection, &spec, &limits, 0..12).await;
        assert_eq!(spans(&reply), [(0, 6, DUPLICATE), (6, 6, Outcome::Acknowledged)]);
        assert_eq!(reply.commands, 3);
        assert_eq!(count(&mut connection, "w_split").await, 12);
    });
}

async fn write_some(
    connection: &mut Connection,
    spec: &WriteSpec,
    limits: &Limits,
    range: std::ops::Range<i32>,
) -> WriteReply {
    let mut batch = WriteBatch::new(spec, limits).unwrap();
    for document in ids(range) {
        batch.push(|out| out.extend_from_slice(document.as_bytes())).unwrap();
    }
    let mut reply = WriteReply::new();
    connection.write(&mut batch, &mut reply).await;
    reply
}

#[test]
fn a_batch_above_48_mb_arrives_completely() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let text = "a".repeat(5_000_000);
        let documents: Vec<_> = (0..12).map(|id| rawdoc! {"_id": id, "text": text.as_str()}).collect();
        let reply =
            write(&mut connection, &WriteSpec::new(WriteKind::Insert, "w_large", "c"), &documents).await;
        assert_eq!((spans(&reply), reply.commands), (vec![(0, 12, Outcome::Acknowledged)], 2));
        assert_eq!(count(&mut connection, "w_large").await, 12);
    });
}

#[test]
fn a_validator_rejects_with_its_own_class() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let create = rawdoc! {"create": "c", "validator": {"x": {"$type": "int"}}};
        connection.command("w_valid", &create).await.unwrap();
        let mut spec = WriteSpec::new(WriteKind::Insert, "w_valid", "c");
        let documents = [rawdoc! {"x": 1}, rawdoc! {"x": "one"}];
        let reply = write(&mut connection, &spec, &documents).await;
        assert_eq!(
            spans(&reply),
            [(0, 1, Outcome::Acknowledged), (1, 1, Outcome::Rejected(Class::Validation))]
        );
        spec.bypass_document_validation = true;
        assert!(write(&mut connection, &spec, &documents).await.is_acknowledged());
    });
}

#[test]
fn a_wrong_command_is_rejected_and_leaves_the_connection_usable() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let spec =
            WriteSpec { extra: doc! {"noSuchField": 1}, ..WriteSpec::new(WriteKind::Insert, "w_wrong", "c") };
        let reply = write(&mut connection, &spec, &ids(0..2)).await;
        assert_eq!(
            spans(&reply),
            [(0, 2, Outcome::Rejected(Class::BadCommand))],
            "{:?}",
            reply.first_error()
        );
        assert!(!connection.is_broken());
        connection.ping().await.unwrap();
    });
}

#[test]
fn a_write_with_w_0_is_unknown_and_done_when_a_ping_returns() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let write_concern = Some(WriteConcern { w: W::Number(0), j: None, timeout_ms: None });
        let spec = WriteSpec { write_concern, ..WriteSpec::new(WriteKind::Insert, "w_zero", "c") };
        for first in [0, 100, 200] {
            let reply = write(&mut connection, &spec, &ids(first..first + 100)).await;
            assert_eq!(spans(&reply), [(0, 100, Outcome::Unknown(Cause::Unacknowledged))]);
            assert_eq!(reply.bytes_received, 0);
        }
        connection.ping().await.unwrap();
        assert_eq!(count(&mut connection, "w_zero").await, 300);
    });
}

#[test]
fn the_server_accepts_every_write_concern() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        for (id, w) in [W::Number(1), W::Majority].into_iter().enumerate() {
            let write_concern = Some(WriteConcern { w, j: Some(true), timeout_ms: Some(5000) });
            let spec = WriteSpec { write_concern, ..WriteSpec::new(WriteKind::Insert, "w_concern", "c") };
            let id = i32::try_from(id).unwrap();
            let reply = write(&mut connection, &spec, &ids([id])).await;
            assert!(reply.is_acknowledged(), "{:?}", reply.first_error());
        }
    });
}
