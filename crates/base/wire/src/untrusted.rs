//! Feeds arbitrary bytes to every parser of server replies, for the fuzz target and the property tests.

use plimsoll_net::Receive;

use crate::compress::Compressor;
use crate::error::Malformed;
use crate::error::ServerError;
use crate::find::FindReply;
use crate::frame::{self, Message};
use crate::hello::Hello;
use crate::reply_buffer::ReplyBuffer;
use crate::write::classify::SentFrame;
use crate::write::{WriteKind, WriteReply, send};

/// The request id that [`feed`] pretends to have sent.
pub const REQUEST_ID: i32 = 7;
/// The number of documents that [`feed`] pretends to have sent.
const DOCUMENTS: u32 = 100;

/// The result of parsing the bytes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// The memory of the reply's buffers in bytes.
    pub allocated: usize,
    /// The documents that got an outcome from a write's reply: all or none.
    pub classified: u32,
    /// The documents in a find's batch.
    pub found: u32,
}

/// Parses bytes as every kind of reply to request [`REQUEST_ID`], as if they arrived in chunks of at most `chunk` bytes on a
/// connection with `compressor`.
///
/// # Panics
/// Never, for any bytes: a panic is a defect of a parser.
pub fn feed(bytes: &[u8], chunk: usize, compressor: Option<Compressor>) -> Fed {
    let mut buffer = ReplyBuffer::new(frame::LEN_MAX + frame::SLACK);
    compressor.into_iter().for_each(|compressor| buffer.accept(compressor));
    let is_complete = collect(&mut buffer, bytes, chunk.max(1));
    let allocated = buffer.allocated();
    let (mut classified, mut found) = (0, 0);
    if is_complete == Ok(true) {
        for ordered in [false, true] {
            classified = classified.max(classify_write(buffer.message(), ordered));
        }
        read_body(buffer.message());
        found = find(&mut buffer);
    }
    Fed { allocated, classified, found }
}

/// Collects a reply; returns whether it is complete.
fn collect(buffer: &mut ReplyBuffer, mut bytes: &[u8], chunk: usize) -> Result<bool, Malformed> {
    while !buffer.is_complete()? {
        let room = buffer.room();
        let count = room.len().min(bytes.len()).min(chunk);
        if count == 0 {
            return Ok(false);
        }
        room[..count].copy_from_slice(&bytes[..count]);
        buffer.advance(count);
        bytes = &bytes[count..];
    }
    buffer.unpack()?;
    Ok(true)
}

fn classify_write(bytes: &[u8], ordered: bool) -> u32 {
    let sent_frame = SentFrame { kind: WriteKind::Insert, ordered, first: 0, count: DOCUMENTS };
    let mut reply = WriteReply::new();
    let next = send::read(&sent_frame, bytes, REQUEST_ID, &mut reply);
    let classified = reply.spans().iter().fold(0, |next, span| {
        assert_eq!(span.first, next, "spans have neither gaps nor overlaps");
        next + span.count
    });
    assert_eq!(classified, if next.is_ok() { DOCUMENTS } else { 0 }, "all documents get an outcome, or none");
    classified
}

fn read_body(bytes: &[u8]) {
    if let Ok(message) = Message::parse_reply(bytes, REQUEST_ID) {
        let _ = Hello::of_body(message.body);
        let _ = ServerError::of_body(message.body.as_bytes());
    }
}

fn find(buffer: &mut ReplyBuffer) -> u32 {
    let mut reply = FindReply::new();
    reply.filled = buffer.message().len();
    buffer.swap(&mut reply.bytes);
    let read = reply.read(REQUEST_ID);
    let found = reply.documents().count();
    assert_eq!(found, reply.len() as usize, "a batch holds as many documents as it claims");
    if matches!(read, Ok(Ok(()))) { reply.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Packer;
    use bson::{RawDocumentBuf, rawdoc};
    use proptest::prelude::*;

    const AGREED: [Option<Compressor>; 4] =
        [None, Some(Compressor::Snappy), Some(Compressor::Zlib), Some(Compressor::Zstd)];

    /// Checks the memory limit of a reply: the first buffer, twice the bytes that arrived and, with compression, twice the
    /// bytes that they can decompress to.
    fn check(bytes: &[u8], chunk: usize, compressor: Option<Compressor>) -> Fed {
        let fed = feed(bytes, chunk, compressor);
        let unpacked_max = compressor.map_or(0, |compressor| bytes.len() * compressor.ratio_max());
        let unpacked_max = unpacked_max.min(frame::LEN_MAX + frame::SLACK);
        let max = 16 * 1024 + 2 * bytes.len() + 2 * unpacked_max;
        assert!(fed.allocated <= max, "{} bytes for {} ({compressor:?})", fed.allocated, bytes.len());
        fed
    }

    fn message(body: &RawDocumentBuf) -> Vec<u8> {
        let mut bytes = Vec::new();
        let at = frame::start(&mut bytes, 1, REQUEST_ID, 0);
        bytes.extend_from_slice(body.as_bytes());
        frame::finish(&mut bytes, at);
        bytes
    }

    fn replies() -> Vec<Vec<u8>> {
        let document = || rawdoc! {"_id": bson::oid::ObjectId::from_bytes([3; 12]), "text": "found", "x": [1, {"y": 2.5}]};
        [
            rawdoc! {"n": 100, "opTime": {"t": 1_i64}, "ok": 1.0, "operationTime": bson::Timestamp { time: 1, increment: 2 }},
            rawdoc! {
                "n": 98, "ok": 1.0, "writeErrors": [
                    {"index": 3, "code": 11000, "keyPattern": {"_id": 1}, "errmsg": "E11000 duplicate key"},
                    {"index": 99, "code": 121, "errmsg": "Document failed validation"},
                ],
                "writeConcernError": {"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "timed out"},
            },
            rawdoc! {"ok": 0.0, "errmsg": "not primary", "code": 10107, "codeName": "NotWritablePrimary", "errorLabels": ["a"]},
            rawdoc! {"cursor": {"firstBatch": [document(), document()], "id": 77_i64, "ns": "d.c"}, "ok": 1.0},
            rawdoc! {"isWritablePrimary": true, "hosts": ["a:1"], "maxWireVersion": 21, "saslSupportedMechs": ["X"], "ok": 1},
        ]
        .iter()
        .map(message)
        .collect()
    }

    /// The same replies, compressed.
    fn framed(compressor: Option<Compressor>) -> Vec<Vec<u8>> {
        let Some(compressor) = compressor else { return replies() };
        let mut packer = Packer::new(compressor, None, frame::LEN_MAX);
        replies().iter().map(|reply| packer.pack(reply).to_vec()).collect()
    }

    #[test]
    fn valid_replies_are_parsed_in_chunks_of_any_size_compressed_or_not() {
        for (agreed, framed) in AGREED
            .map(|agreed| (agreed, framed(agreed)))
            .into_iter()
            .chain(AGREED[1..].iter().map(|agreed| (*agreed, replies())))
        {
            for chunk in [1, 3, 1000] {
                let fed: Vec<_> = framed.iter().map(|reply| check(reply, chunk, agreed)).collect();
                assert_eq!(
                    fed.iter().map(|fed| fed.classified).collect::<Vec<_>>(),
                    [100, 100, 100, 100, 100]
                );
                assert_eq!(fed.iter().map(|fed| fed.found).collect::<Vec<_>>(), [0, 0, 0, 2, 0]);
            }
        }
    }

    #[test]
    fn replies_of_another_compressor_are_refused() {
        let [_, snappy, zlib, zstd] = AGREED;
        for (made, agreed) in
            [(snappy, None), (zlib, None), (zstd, None), (zlib, zstd), (zstd, snappy), (snappy, zlib)]
        {
            for reply in framed(made) {
                assert_eq!(check(&reply, usize::MAX, agreed).classified, 0);
            }
        }
    }

    #[test]
    fn replies_cut_at_any_byte_are_refused_also_with_a_corrected_length() {
        for compressor in AGREED {
            for reply in framed(compressor) {
                for len in 0..reply.len() {
                    let cut = check(&reply[..len], usize::MAX, compressor);
                    assert_eq!((cut.classified, cut.found), (0, 0));
                    let mut corrected = reply[..len].to_vec();
                    if len >= 4 {
                        corrected[..4].copy_from_slice(&i32::try_from(len).unwrap().to_le_bytes());
                    }
                    let cut = check(&corrected, usize::MAX, compressor);
                    assert_eq!((cut.classified, cut.found), (0, 0), "cut at {len}");
                }
            }
        }
    }

    #[test]
    fn replies_with_any_one_bit_flipped_never_panic() {
        for compressor in AGREED {
            for reply in framed(compressor) {
                for bit in 0..reply.len() * 8 {
                    let mut flipped = reply.clone();
                    flipped[bit / 8] ^= 1 << (bit % 8);
                    check(&flipped, usize::MAX, compressor);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn random_bytes_never_panic_and_need_little_memory(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
            chunk in 1_usize..500,
            compressor in proptest::sample::select(&AGREED),
        ) {
            check(&bytes, chunk, compressor);
        }

        #[test]
        fn replies_with_bytes_overwritten_anywhere_never_panic(
            which in 0_usize..5,
            compressor in proptest::sample::select(&AGREED),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..12),
        ) {
            let mut reply = framed(compressor).swap_remove(which);
            for (index, byte) in changes {
                // The header stays valid, so that the parsers reach the rest.
                let index = 16 + index.index(reply.len() - 16);
                reply[index] = byte;
            }
            check(&reply, usize::MAX, compressor);
        }
    }
}
