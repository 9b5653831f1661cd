//! Tests compressed connections against a real server, and against servers that break the protocol.

use bson::{RawDocumentBuf, doc, rawdoc};
use plimsoll_wire::{
    Cause, Compressor, ConnectOptions, Connection, Cursor, Error, FindRequest, FindSpec, Message, Outcome,
    Span, W, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec, frame,
};

use crate::client::{connect_by, run};
use crate::fake::{self, Peer};
use crate::server::Server;

const BOTH: [Compressor; 2] = [Compressor::Zlib, Compressor::Zstd];

fn batch(connection: &Connection, spec: &WriteSpec, documents: &[RawDocumentBuf]) -> WriteBatch {
    let mut batch = WriteBatch::new(spec, &connection.limits()).unwrap();
    for document in documents {
        batch.push(|out| out.extend_from_slice(document.as_bytes())).unwrap();
    }
    batch
}

fn documents(count: i32, text: &str) -> Vec<RawDocumentBuf> {
    (0..count).map(|id| rawdoc! {"_id": id, "text": text}).collect()
}

/// Returns the ids of all documents, and the size of the replies in bytes.
async fn scan(connection: &mut Connection, db: &str) -> (Vec<i32>, usize) {
    let spec = FindSpec { sort: Some(doc! {"_id": 1}), batch_size: Some(50), ..FindSpec::new(db, "c") };
    let mut cursor = Cursor::new(FindRequest::new(&spec, &connection.limits()).unwrap());
    let (mut ids, mut bytes) = (Vec::new(), 0);
    while let Some(documents) = cursor.next(connection).await.unwrap() {
        ids.extend(documents.map(|document| document.get_i32("_id").unwrap()));
        bytes += cursor.bytes_received();
    }
    (ids, bytes)
}

#[test]
fn the_first_requested_compressor_that_the_server_supports_is_used() {
    let server = Server::shared();
    run(async {
        let [zlib, zstd] = BOTH;
        for (wanted, agreed) in [
            (vec![], None),
            (vec![zlib], Some(zlib)),
            (vec![zstd, zlib], Some(zstd)),
            (vec![zlib, zstd], Some(zlib)),
        ] {
            let address = server.address().parse().unwrap();
            let options = ConnectOptions { compression: wanted, ..ConnectOptions::new(address) };
            let mut connection = Connection::connect(&options).await.unwrap();
            assert_eq!(connection.compressor(), agreed);
            connection.ping().await.unwrap();
        }
    });
}

#[test]
fn inserts_finds_and_cursors_work_over_each_compressor_in_fewer_bytes() {
    let server = Server::shared();
    run(async {
        for (compressor, db) in BOTH.into_iter().zip(["z_zlib", "z_zstd"]) {
            let mut connection = connect_by(server.address(), Some(compressor)).await;
            let spec = WriteSpec::new(WriteKind::Insert, db, "c");
            let mut batch = batch(&connection, &spec, &documents(200, &"abc".repeat(100)));
            let mut reply = WriteReply::new();
            connection.write(&mut batch, &mut reply).await;
            assert!(reply.is_acknowledged(), "{:?}", reply.first_error());
            assert!(reply.bytes_sent > 0 && (reply.bytes_sent as usize) < batch.bytes() / 5);
            let (ids, bytes) = scan(&mut connection, db).await;
            assert_eq!(ids, (0..200).collect::<Vec<_>>());
            assert!(bytes > 0 && bytes < batch.bytes() / 5, "{bytes} of {}", batch.bytes());
            connection.write(&mut batch, &mut reply).await;
            assert_eq!(reply.first_error().unwrap().0, 11000);
        }
    });
}

#[test]
fn a_compressed_write_with_w_0_is_done_when_a_ping_returns() {
    let server = Server::shared();
    run(async {
        for (compressor, db) in BOTH.into_iter().zip(["z_zero_zlib", "z_zero_zstd"]) {
            let mut connection = connect_by(server.address(), Some(compressor)).await;
            let write_concern = Some(WriteConcern { w: W::Number(0), j: None, timeout_ms: None });
            let spec = WriteSpec { write_concern, ..WriteSpec::new(WriteKind::Insert, db, "c") };
            let mut batch = batch(&connection, &spec, &documents(200, &"abc".repeat(100)));
            let mut reply = WriteReply::new();
            connection.write(&mut batch, &mut reply).await;
            let outcome = Outcome::Unknown(Cause::Unacknowledged);
            assert_eq!(reply.spans(), [Span { first: 0, count: 200, outcome }]);
            assert!((reply.bytes_sent as usize) < batch.bytes() / 5 && reply.bytes_received == 0);
            connection.ping().await.unwrap();
            assert_eq!(scan(&mut connection, db).await.0.len(), 200);
        }
    });
}

#[test]
fn an_incompressible_batch_above_48_mb_arrives_completely() {
    let server = Server::shared();
    run(async {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let documents: Vec<_> = (0..4)
            .map(|id| {
                let bytes = (0..15_999_900).map(|_| noise()).collect();
                rawdoc! {"_id": id, "noise": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes }}
            })
            .collect();
        let mut connection = connect_by(server.address(), Some(Compressor::Zstd)).await;
        let mut batch = batch(&connection, &WriteSpec::new(WriteKind::Insert, "z_large", "c"), &documents);
        let mut reply = WriteReply::new();
        connection.write(&mut batch, &mut reply).await;
        assert!(reply.is_acknowledged(), "{:?}", reply.first_error());
        assert_eq!((reply.n, reply.commands), (4, 2));
    });
}

fn hello(compressors: &[&str]) -> RawDocumentBuf {
    let mut hello = fake::hello();
    hello.append(bson::cstr!("compression"), bson::RawArrayBuf::from_iter(compressors.iter().copied()));
    hello
}

/// Pings as a client with `compressor`, against a server that agreed to it and then runs `act`.
fn ping(
    compressor: Compressor,
    agreed: &'static [&'static str],
    act: impl FnOnce(Peer) + Send + 'static,
) -> (Result<(), Error>, bool) {
    let address = fake::serve(move |mut peer| {
        let (request_id, request) = peer.request();
        let asked = Message::parse(&request).unwrap().body.get_array("compression").unwrap();
        assert_eq!(asked.get_str(0).unwrap(), compressor.name());
        peer.reply(request_id, &hello(agreed));
        act(peer);
    });
    run(async {
        let options =
            ConnectOptions { compression: vec![compressor], ..ConnectOptions::new(address.parse().unwrap()) };
        let mut connection = Connection::connect(&options).await.unwrap();
        let result = connection.ping().await;
        (result, connection.is_broken())
    })
}

/// A reply to `request_id` that claims compressor `id` and a decompressed size of `size` bytes.
fn compressed(request_id: i32, id: u8, size: i32, bytes: &[u8]) -> Vec<u8> {
    let len = (frame::COMPRESSED_HEADER_LEN + bytes.len()) as i32;
    let head = [len, 1, request_id, frame::OPCODE_COMPRESSED, frame::OPCODE, size];
    let head: Vec<u8> = head.into_iter().flat_map(i32::to_le_bytes).collect();
    [head.as_slice(), &[id], bytes].concat()
}

fn by_zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
    let len = zstd_safe::compress(out.as_mut_slice(), bytes, 3).unwrap();
    out.truncate(len);
    out
}

#[test]
fn requests_are_compressed_after_the_handshake_and_replies_may_be_uncompressed() {
    let (result, _) = ping(Compressor::Zstd, &["zstd"], |mut peer| {
        let bytes = peer.bytes();
        assert_eq!(bytes[12..16], frame::OPCODE_COMPRESSED.to_le_bytes());
        assert_eq!((bytes[16..20].to_vec(), bytes[24]), (frame::OPCODE.to_le_bytes().to_vec(), 3));
        let request_id = i32::from_le_bytes(bytes[4..8].try_into().unwrap());
        peer.reply(request_id, &rawdoc! {"ok": 1.0});
    });
    result.unwrap();
    let (result, _) = ping(Compressor::Zlib, &["snappy"], |mut peer| {
        let (request_id, _) = peer.request();
        peer.reply(request_id, &rawdoc! {"ok": 1.0});
    });
    result.unwrap();
}

/// The arguments of a compressed reply: the request's id, the bytes after the plain reply's header, and the same bytes
/// compressed.
type Make = fn(i32, &[u8], &[u8]) -> Vec<u8>;

/// Pings a server that agreed to `agreed` and answers with the result of `make`.
fn ping_answered(agreed: &'static [&'static str], make: Make) -> (Result<(), Error>, bool) {
    ping(Compressor::Zstd, agreed, move |mut peer| {
        let bytes = peer.bytes();
        let request_id = i32::from_le_bytes(bytes[4..8].try_into().unwrap());
        let plain =
            &fake::message(request_id, &rawdoc! {"ok": 1.0, "text": "x".repeat(500)})[frame::HEADER_LEN..];
        peer.send(&make(request_id, plain, &by_zstd(plain)));
        peer.stay_silent();
    })
}

#[test]
fn a_reply_with_false_compression_data_breaks_the_connection() {
    let good: Make = |id, plain, packed| compressed(id, 3, plain.len() as i32, packed);
    ping_answered(&["zstd"], good).0.unwrap();
    let lies: [(&'static [&'static str], Make); 8] = [
        (&[], good),
        (&["zstd"], |id, plain, packed| compressed(id, 3, plain.len() as i32 - 1, packed)),
        (&["zstd"], |id, plain, packed| compressed(id, 3, plain.len() as i32 + 1, packed)),
        (&["zstd"], |id, _, packed| compressed(id, 3, 48_000_000, packed)),
        (&["zstd"], |id, plain, packed| compressed(id, 2, plain.len() as i32, packed)),
        (&["zstd"], |id, plain, packed| compressed(id, 77, plain.len() as i32, packed)),
        (&["zstd"], |id, plain, _| compressed(id, 0, plain.len() as i32, plain)),
        (&["zstd"], |id, plain, packed| compressed(id + 1, 3, plain.len() as i32, packed)),
    ];
    for (place, (agreed, lie)) in lies.into_iter().enumerate() {
        let (result, is_broken) = ping_answered(agreed, lie);
        assert!(matches!(result, Err(Error::Protocol { .. })), "lie {place}: {result:?}");
        assert!(is_broken);
    }
}
