//! One door to every parser of bytes from a server: what the fuzz target and the property tests knock at.

use crate::compress::Compressor;
use crate::error::ServerError;
use crate::find::FindReply;
use crate::frame::{self, Malformed, Message};
use crate::hello::Hello;
use crate::inbox::Inbox;
use crate::write::judge::Asked;
use crate::write::{WriteKind, WriteReply, send};

/// The id that [`feed`] claims to have sent.
pub const REQUEST_ID: i32 = 7;
/// How many documents [`feed`] claims to have sent.
const DOCUMENTS: u32 = 100;

/// What became of bytes from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// The bytes of memory that the reply's buffers took.
    pub allocated: usize,
    /// The documents that a write's reply gave an outcome to: all that were sent, or none.
    pub judged: u32,
    /// The documents of a find's batch.
    pub found: u32,
}

/// Takes bytes as if they came from a server in answer to request [`REQUEST_ID`], at most `chunk` at a time, on a
/// connection that agreed on `compressor`, and reads them as every kind of reply that there is.
///
/// # Panics
/// Never, whatever the bytes: that is what it is for.
pub fn feed(bytes: &[u8], chunk: usize, compressor: Option<Compressor>) -> Fed {
    let mut inbox = Inbox::new(frame::LEN_MAX + frame::SLACK);
    compressor.into_iter().for_each(|compressor| inbox.agree(compressor));
    let whole = collect(&mut inbox, bytes, chunk.max(1));
    let allocated = inbox.allocated();
    let (mut judged, mut found) = (0, 0);
    if whole == Ok(true) {
        for ordered in [false, true] {
            judged = judged.max(judge(inbox.reply(), ordered));
        }
        read_body(inbox.reply());
        found = find(&mut inbox);
    }
    Fed { allocated, judged, found }
}

/// Whether a whole reply arrived.
fn collect(inbox: &mut Inbox, mut bytes: &[u8], chunk: usize) -> Result<bool, Malformed> {
    while inbox.complete()?.is_none() {
        let room = inbox.room();
        let count = room.len().min(bytes.len()).min(chunk);
        if count == 0 {
            return Ok(false);
        }
        room[..count].copy_from_slice(&bytes[..count]);
        inbox.advance(count);
        bytes = &bytes[count..];
    }
    inbox.open()?;
    Ok(true)
}

fn judge(bytes: &[u8], ordered: bool) -> u32 {
    let asked = Asked { kind: WriteKind::Insert, ordered, first: 0, count: DOCUMENTS };
    let mut reply = WriteReply::new();
    let next = send::read(&asked, bytes, REQUEST_ID, &mut reply);
    let judged = reply.spans().iter().fold(0, |place, span| {
        assert_eq!(span.first, place, "spans have neither gaps nor overlaps");
        place + span.count
    });
    assert_eq!(judged, if next.is_ok() { DOCUMENTS } else { 0 }, "all documents are judged, or none");
    judged
}

fn read_body(bytes: &[u8]) {
    if let Ok(message) = Message::parse_reply(bytes, REQUEST_ID) {
        let _ = Hello::of_body(message.body);
        let _ = ServerError::of_body(message.body.as_bytes());
    }
}

fn find(inbox: &mut Inbox) -> u32 {
    let mut reply = FindReply::new();
    reply.filled = inbox.reply().len();
    inbox.swap(&mut reply.bytes);
    let read = reply.read(REQUEST_ID);
    let found = reply.documents().count();
    assert_eq!(found, reply.len() as usize, "a batch holds as many documents as it says");
    if matches!(read, Ok(Ok(()))) { reply.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Packer;
    use bson::{RawDocumentBuf, rawdoc};
    use proptest::prelude::*;

    const AGREED: [Option<Compressor>; 3] = [None, Some(Compressor::Zlib), Some(Compressor::Zstd)];

    /// What a reply of so many bytes may take: the first buffer, and twice what arrived; and, if it may be compressed,
    /// twice what so many bytes can stand for.
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

    /// The same replies as they come after that was agreed on.
    fn framed(compressor: Option<Compressor>) -> Vec<Vec<u8>> {
        let Some(compressor) = compressor else { return replies() };
        let mut packer = Packer::new(compressor, None, frame::LEN_MAX);
        replies().iter().map(|reply| packer.pack(reply).to_vec()).collect()
    }

    #[test]
    fn sound_replies_are_read_in_pieces_of_any_size_and_plain_ones_also_when_compression_was_agreed_on() {
        for (agreed, framed) in AGREED
            .map(|agreed| (agreed, framed(agreed)))
            .into_iter()
            .chain([(Some(Compressor::Zlib), replies()), (Some(Compressor::Zstd), replies())])
        {
            for chunk in [1, 3, 1000] {
                let fed: Vec<_> = framed.iter().map(|reply| check(reply, chunk, agreed)).collect();
                assert_eq!(fed.iter().map(|fed| fed.judged).collect::<Vec<_>>(), [100, 100, 100, 100, 100]);
                assert_eq!(fed.iter().map(|fed| fed.found).collect::<Vec<_>>(), [0, 0, 0, 2, 0]);
            }
        }
    }

    #[test]
    fn compressed_replies_are_not_believed_when_that_was_not_agreed_on() {
        let [_, zlib, zstd] = AGREED;
        for (made, agreed) in [(zlib, None), (zstd, None), (zlib, zstd), (zstd, zlib)] {
            for reply in framed(made) {
                assert_eq!(check(&reply, usize::MAX, agreed).judged, 0);
            }
        }
    }

    #[test]
    fn replies_cut_at_any_byte_are_never_whole_nor_believed_when_their_length_is_mended() {
        for compressor in AGREED {
            for reply in framed(compressor) {
                for len in 0..reply.len() {
                    let cut = check(&reply[..len], usize::MAX, compressor);
                    assert_eq!((cut.judged, cut.found), (0, 0));
                    let mut mended = reply[..len].to_vec();
                    if len >= 4 {
                        mended[..4].copy_from_slice(&i32::try_from(len).unwrap().to_le_bytes());
                    }
                    let cut = check(&mended, usize::MAX, compressor);
                    assert_eq!((cut.judged, cut.found), (0, 0), "cut at {len}");
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
        fn random_bytes_never_panic_nor_take_much_memory(
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
            for (place, byte) in changes {
                // The header stays, so that what lies behind it is reached.
                let place = 16 + place.index(reply.len() - 16);
                reply[place] = byte;
            }
            check(&reply, usize::MAX, compressor);
        }
    }
}
