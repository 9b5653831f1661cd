//! Encodes and parses OP_MSG, the message of MongoDB's wire protocol.
//!
//! A message has a header of 16 bytes (length, request id, id of the answered request, opcode 2013; all 32-bit
//! little-endian), 32 flag bits, one section of kind 0 (a document, the body), any number of sections of kind 1 (a size, a
//! name, documents) and an optional CRC-32C. See the "OP_MSG" page of MongoDB's wire protocol specification.

use bson::RawDocument;
use plimsoll_element as element;
use plimsoll_element::append;

use crate::error::Malformed;

/// The opcode of OP_MSG.
pub const OPCODE: i32 = 2013;
/// The opcode of OP_COMPRESSED, which holds another message.
pub const OPCODE_COMPRESSED: i32 = 2012;
/// The size of a header in bytes.
pub const HEADER_LEN: usize = 16;
/// The bytes before the compressed ones: header, opcode and size of the original message, compressor id.
pub const COMPRESSED_HEADER_LEN: usize = HEADER_LEN + 4 + 4 + 1;
/// The minimum size of a message in bytes: header, flags, a kind byte, an empty document.
pub const LEN_MIN: usize = HEADER_LEN + 4 + 1 + 5;
/// The maximum size of a message in bytes: MongoDB's `maxMessageSizeBytes`. A reply may exceed it by [`SLACK`].
pub const LEN_MAX: usize = 48_000_000;
/// The number of bytes by which a reply may exceed the server's `maxMessageSizeBytes`: MongoDB's allowance for command
/// overhead.
pub const SLACK: usize = 16 * 1024;

/// The message ends in a CRC-32C.
pub const CHECKSUM_PRESENT: u32 = 1;
/// The sender sends another message and expects no reply to this one.
pub const MORE_TO_COME: u32 = 1 << 1;
/// The flag bits that a receiver must know: 0 to 15.
const REQUIRED: u32 = 0xffff;

/// One OP_MSG, request or reply, borrowed from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The sender's id of this message.
    pub request_id: i32,
    /// The id of the request that this reply answers; 0 in a request.
    pub response_to: i32,
    /// The flag bits.
    pub flags: u32,
    /// The section of kind 0. Its length is checked, its elements are not.
    pub body: &'a RawDocument,
    sequences: &'a [u8],
}

/// One section of kind 1: documents of a named field of the body.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The command's field that holds the documents, for example `documents`.
    pub name: &'a [u8],
    /// The documents, one after the other.
    pub documents: &'a [u8],
}

/// The length that a header claims; `None` until four bytes have arrived.
///
/// # Errors
/// No message can have this length, or it exceeds `len_max`: do not allocate for it.
pub fn claimed_len(bytes: &[u8], len_max: usize) -> Result<Option<usize>, Malformed> {
    let Some(len) = element::int32(bytes) else { return Ok(None) };
    match usize::try_from(len) {
        Ok(len) if len > len_max => Err(Malformed("the length of a message is above the limit")),
        Ok(len) if len >= LEN_MIN => Ok(Some(len)),
        _ => Err(Malformed("the length of a message is below the minimum")),
    }
}

/// The opcode in the header of a complete message.
pub(crate) fn opcode(message: &[u8]) -> Option<i32> {
    element::int32(message.get(12..)?)
}

/// The command's name in a complete OP_MSG that starts with its body: the body's first key.
pub(crate) fn command(message: &[u8]) -> Option<&[u8]> {
    // The body's length and the type of its first element follow the flags and the kind byte.
    message.get(HEADER_LEN + 4 + 1 + 4 + 1..)?.split(|&byte| byte == 0).next()
}

/// Makes the buffer at least `len` bytes long, in steps that double. Its content is lost.
pub(crate) fn grow(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        *buffer = vec![0; len.next_power_of_two()];
    }
}

impl<'a> Message<'a> {
    /// Parses `bytes` as exactly one message. Skips a checksum without verifying it.
    ///
    /// # Errors
    /// The bytes are not an OP_MSG as specified.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if claimed_len(bytes, bytes.len())? != Some(bytes.len()) {
            return Err(Malformed("a message does not have the length in its header"));
        }
        let int = |at: usize| element::int32(&bytes[at..]).unwrap_or(0);
        if int(12) != OPCODE {
            return Err(Malformed("the opcode of a message is not OP_MSG (2013)"));
        }
        let flags = int(16).cast_unsigned();
        let (body, sequences) = sections(strip_checksum(&bytes[HEADER_LEN + 4..], flags)?)?;
        Ok(Message { request_id: int(4), response_to: int(8), flags, body, sequences })
    }

    /// Parses `bytes` as the complete reply to the request `request_id`.
    ///
    /// # Errors
    /// As [`Message::parse`]; the reply answers another request, has sections of kind 1, or announces another reply.
    pub fn parse_reply(bytes: &'a [u8], request_id: i32) -> Result<Self, Malformed> {
        let message = Message::parse(bytes)?;
        if message.response_to != request_id {
            return Err(Malformed("a reply answers another request"));
        }
        if message.flags & MORE_TO_COME != 0 {
            return Err(Malformed("a reply announces another reply without a request for it"));
        }
        if !message.sequences.is_empty() {
            return Err(Malformed("a reply has other sections than its body"));
        }
        Ok(message)
    }

    /// The sections of kind 1.
    pub fn sequences(&self) -> impl Iterator<Item = Sequence<'a>> + use<'a> {
        let mut rest = self.sequences;
        std::iter::from_fn(move || {
            let (sequence, after) = split_sequence(rest).ok()?;
            rest = after;
            Some(sequence)
        })
    }
}

fn strip_checksum(bytes: &[u8], flags: u32) -> Result<&[u8], Malformed> {
    if flags & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
        return Err(Malformed("a message has an unknown required flag bit"));
    }
    let checksum_len = if flags & CHECKSUM_PRESENT == 0 { 0 } else { 4 };
    bytes.get(..bytes.len().saturating_sub(checksum_len)).ok_or(Malformed("a message is truncated"))
}

/// Splits the body from the sections of kind 1 that follow it, and checks the lengths of both.
fn sections(bytes: &[u8]) -> Result<(&RawDocument, &[u8]), Malformed> {
    let Some((0, rest)) = bytes.split_first() else {
        return Err(Malformed("a message does not start with its body"));
    };
    let body = element::document(rest)?;
    let sequences = &rest[body.len()..];
    let mut unread = sequences;
    while !unread.is_empty() {
        unread = split_sequence(unread)?.1;
    }
    Ok((raw(body)?, sequences))
}

fn split_sequence(bytes: &[u8]) -> Result<(Sequence<'_>, &[u8]), Malformed> {
    let Some((1, rest)) = bytes.split_first() else { return Err(Malformed("a section has an unknown kind")) };
    let size = element::int32(rest).and_then(|size| usize::try_from(size).ok()).filter(|&size| size >= 5);
    let section = size.and_then(|size| rest.get(..size)).ok_or(Malformed("a section has a wrong size"))?;
    let end = section[4..].iter().position(|&byte| byte == 0).ok_or(Malformed("a section has no name"))?;
    let (name, documents) = (&section[4..4 + end], &section[4 + end + 1..]);
    Ok((Sequence { name, documents }, &rest[section.len()..]))
}

/// Borrows a document with a checked length as bson's type.
pub(crate) fn raw(document: &[u8]) -> Result<&RawDocument, Malformed> {
    RawDocument::from_bytes(document).map_err(|_| Malformed("a document has a wrong length"))
}

impl<'a> Sequence<'a> {
    /// The documents in order; stops at the first bytes that are not a document.
    pub fn iter(&self) -> impl Iterator<Item = &'a RawDocument> + use<'a> {
        let mut rest = self.documents;
        std::iter::from_fn(move || {
            let document = element::document(rest).ok()?;
            rest = &rest[document.len()..];
            raw(document).ok()
        })
    }
}

/// Appends the start of a message up to its body: header, flags, kind 0. Returns the start for [`finish`].
pub fn start(out: &mut Vec<u8>, request_id: i32, response_to: i32, flags: u32) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&request_id.to_le_bytes());
    out.extend_from_slice(&response_to.to_le_bytes());
    out.extend_from_slice(&OPCODE.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.push(0);
    at
}

/// Ends the message that [`start`] began by writing its length.
///
/// # Panics
/// If the message is longer than 2 GiB.
pub fn finish(out: &mut [u8], at: usize) {
    append::patch_len(out, at);
}

/// Replaces the request id of a complete message.
pub(crate) fn patch_request_id(message: &mut [u8], request_id: i32) {
    message[4..8].copy_from_slice(&request_id.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;
    use proptest::prelude::*;

    fn message(flags: u32, response_to: i32, tail: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let at = start(&mut out, 5, response_to, flags);
        out.extend_from_slice(rawdoc! {"ok": 1.0, "n": 3}.as_bytes());
        out.extend_from_slice(tail);
        finish(&mut out, at);
        out
    }

    fn sequence(name: &str, documents: &[&RawDocument]) -> Vec<u8> {
        let mut out = vec![1];
        let at = append::open(&mut out);
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        for document in documents {
            out.extend_from_slice(document.as_bytes());
        }
        append::patch_len(&mut out, at);
        out
    }

    #[test]
    fn a_message_is_read_as_written() {
        let (a, b) = (rawdoc! {"a": 1}, rawdoc! {"b": 2});
        let bytes = message(MORE_TO_COME, 0, &sequence("documents", &[&a, &b]));
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.request_id, message.response_to, message.flags), (5, 0, MORE_TO_COME));
        assert_eq!(message.body.get_i32("n").unwrap(), 3);
        let sequences: Vec<Sequence<'_>> = message.sequences().collect();
        assert_eq!(sequences.len(), 1);
        assert_eq!(sequences[0].name, b"documents");
        assert_eq!(sequences[0].iter().collect::<Vec<_>>(), [&*a, &*b]);
    }

    #[test]
    fn a_checksum_is_skipped() {
        let bytes = message(CHECKSUM_PRESENT, 9, &[1, 2, 3, 4]);
        assert_eq!(Message::parse_reply(&bytes, 9).unwrap().body.get_i32("n").unwrap(), 3);
    }

    #[test]
    fn a_reply_that_breaks_the_protocol_is_refused() {
        let sequence = sequence("x", &[]);
        for (bytes, id) in [
            (message(0, 8, &[]), 9),
            (message(MORE_TO_COME, 9, &[]), 9),
            (message(4, 9, &[]), 9),
            (message(0, 9, &sequence), 9),
            (message(0, 9, &[7]), 9),
            (message(CHECKSUM_PRESENT, 9, &[]), 9),
        ] {
            assert!(Message::parse_reply(&bytes, id).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_before_the_message_is_read() {
        for len in [i32::MIN, -1, 0, 16, 25, 1001, i32::MAX] {
            assert!(claimed_len(&len.to_le_bytes(), 1000).is_err(), "{len}");
        }
        assert_eq!(claimed_len(&[1, 0, 0], 1000), Ok(None));
        assert_eq!(claimed_len(&1000_i32.to_le_bytes(), 1000), Ok(Some(1000)));
    }

    #[test]
    fn a_message_cut_at_any_byte_is_refused() {
        let bytes = message(0, 9, &[]);
        for len in 0..bytes.len() {
            assert!(Message::parse_reply(&bytes[..len], 9).is_err());
            let mut shorter = bytes[..len].to_vec();
            if len >= 4 {
                append::patch_len(&mut shorter, 0);
            }
            assert!(Message::parse_reply(&shorter, 9).is_err(), "cut at {len} with the length corrected");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::parse(&bytes);
        }

        #[test]
        fn random_sections_after_a_valid_header_never_panic(tail in proptest::collection::vec(0_u8..9, 0..120)) {
            let mut bytes = Vec::new();
            let at = start(&mut bytes, 1, 2, 0);
            bytes.extend_from_slice(&tail);
            finish(&mut bytes, at);
            if let Ok(message) = Message::parse(&bytes) {
                prop_assert!(message.sequences().map(|sequence| sequence.iter().count()).sum::<usize>() <= bytes.len());
            }
        }
    }
}
