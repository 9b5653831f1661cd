//! Tests finds and cursors against a real server.

use bson::{Bson, RawDocumentBuf, doc, rawdoc};
use plimsoll_wire::{
    Connection, Cursor, Error, FindReply, FindRequest, FindSpec, Limits, WriteBatch, WriteKind, WriteReply,
    WriteSpec,
};

use crate::client::{connect, run};
use crate::server::Server;

async fn fill(connection: &mut Connection, db: &str, documents: impl Iterator<Item = RawDocumentBuf>) {
    let spec = WriteSpec::new(WriteKind::Insert, db, "c");
    let mut batch = WriteBatch::new(&spec, &connection.limits()).unwrap();
    for document in documents {
        batch.push(|out| out.extend_from_slice(document.as_bytes())).unwrap();
    }
    let mut reply = WriteReply::new();
    connection.write(&mut batch, &mut reply).await;
    assert!(reply.is_acknowledged(), "{:?}", reply.first_error());
}

async fn scan(connection: &mut Connection, spec: &FindSpec) -> Vec<Vec<i32>> {
    let request = FindRequest::new(spec, &connection.limits()).unwrap();
    let mut cursor = Cursor::new(request);
    let mut batches = Vec::new();
    while let Some(documents) = cursor.next(connection).await.unwrap() {
        batches.push(documents.map(|document| document.get_i32("_id").unwrap()).collect());
    }
    batches
}

#[test]
fn one_request_is_reused_with_several_filters() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        fill(&mut connection, "f_filter", (0..50).map(|id| rawdoc! {"_id": id, "x": id % 5})).await;
        let spec = FindSpec { projection: Some(doc! {"x": 1}), ..FindSpec::new("f_filter", "c") };
        let mut request = FindRequest::new(&spec, &Limits::default()).unwrap();
        let mut reply = FindReply::new();
        for id in [7, 49, 50] {
            request.filter(|out| out.extend_from_slice(rawdoc! {"_id": id}.as_bytes())).unwrap();
            connection.find(&mut request, &mut reply).await.unwrap();
            let found: Vec<_> = reply.documents().map(|document| document.get_i32("x").unwrap()).collect();
            assert_eq!(found, if id < 50 { vec![id % 5] } else { vec![] });
            assert_eq!(reply.cursor_id(), 0);
        }
    });
}

#[test]
fn a_cursor_reads_all_documents_in_batches_of_the_requested_size() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        fill(&mut connection, "f_scan", (0..25).map(|id| rawdoc! {"_id": id})).await;
        let mut spec = FindSpec::new("f_scan", "c");
        (spec.batch_size, spec.sort) = (Some(10), Some(doc! {"_id": 1}));
        (spec.hint, spec.read_concern) = (Some(Bson::String("_id_".into())), Some("majority".into()));
        let batches = scan(&mut connection, &spec).await;
        assert_eq!(batches[0], (0..10).collect::<Vec<_>>());
        assert_eq!(batches.concat(), (0..25).collect::<Vec<_>>());
        spec.limit = Some(12);
        assert_eq!(scan(&mut connection, &spec).await.concat(), (0..12).collect::<Vec<_>>());
    });
}

#[test]
fn a_batch_of_many_megabytes_arrives_completely() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        let text = "b".repeat(1_000_000);
        fill(&mut connection, "f_large", (0..20).map(|id| rawdoc! {"_id": id, "text": text.as_str()})).await;
        let spec = FindSpec { sort: Some(doc! {"_id": 1}), ..FindSpec::new("f_large", "c") };
        assert_eq!(scan(&mut connection, &spec).await.concat(), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_killed_cursor_is_closed_on_the_server() {
    let server = Server::shared();
    run(async {
        let mut connection = connect(server.address()).await;
        fill(&mut connection, "f_kill", (0..25).map(|id| rawdoc! {"_id": id})).await;
        let spec = FindSpec { batch_size: Some(5), ..FindSpec::new("f_kill", "c") };
        let mut request = FindRequest::new(&spec, &connection.limits()).unwrap();
        let mut reply = FindReply::new();
        connection.find(&mut request, &mut reply).await.unwrap();
        let cursor_id = reply.cursor_id();
        assert_ne!(cursor_id, 0);
        connection.kill_cursor("f_kill", "c", cursor_id).await.unwrap();
        let error = connection.get_more(&mut request, cursor_id, &mut reply).await.unwrap_err();
        assert!(matches!(&error, Error::Server(error) if error.code == 43), "{error}");
        assert!(reply.is_empty() && !connection.is_broken());
        let mut cursor = Cursor::new(request);
        cursor.next(&mut connection).await.unwrap();
        cursor.kill(&mut connection).await.unwrap();
        assert!(cursor.next(&mut connection).await.unwrap().is_none());
    });
}
