//! Encodes OP_COMPRESSED.
//!
//! The header of 16 bytes is followed by the opcode of the original message (32 bits), its size without its header
//! (32 bits), the compressor's id (8 bits), and the compressed bytes. See the "OP_COMPRESSED" page of
//! MongoDB's specifications.

use plimsoll_element::append;

use crate::compress::{Compressor, snappy, zlib, zstd};
use crate::frame;

/// Commands that are never compressed: the handshake, and commands with secrets, because their compressed size could reveal
/// secrets.
const NEVER: [&str; 12] = [
    "hello",
    "isMaster",
    "ismaster",
    "saslStart",
    "saslContinue",
    "authenticate",
    "getnonce",
    "createUser",
    "updateUser",
    "copydbSaslStart",
    "copydbgetnonce",
    "copydb",
];

/// Compresses messages, with a context and a buffer that are reused.
pub(crate) struct Packer {
    compressor: Compressor,
    deflater: Deflater,
    /// The buffer of the last message, which may be longer.
    packed: Vec<u8>,
    len_max: usize,
}

enum Deflater {
    Snappy(snappy::Deflater),
    Zlib(zlib::Deflater),
    Zstd(zstd::Deflater),
}

impl Packer {
    /// Compresses to messages of at most `len_max` bytes. `zlib_level`: see [`crate::ConnectOptions::zlib_level`].
    pub(crate) fn new(compressor: Compressor, zlib_level: Option<i32>, len_max: usize) -> Self {
        let deflater = match compressor {
            Compressor::Snappy => Deflater::Snappy(snappy::Deflater::new()),
            Compressor::Zlib => Deflater::Zlib(zlib::Deflater::new(zlib_level)),
            Compressor::Zstd => Deflater::Zstd(zstd::Deflater::new()),
        };
        Packer { compressor, deflater, packed: Vec::new(), len_max }
    }

    /// The message to send for a complete OP_MSG: compressed, or unchanged if it must not be compressed or would exceed the
    /// server's limit.
    pub(crate) fn pack<'a>(&'a mut self, message: &'a [u8]) -> &'a [u8] {
        let is_allowed =
            frame::command(message).is_some_and(|name| !NEVER.iter().any(|never| never.as_bytes() == name));
        match is_allowed.then(|| self.compress(message)).flatten() {
            Some(len) => &self.packed[..len],
            None => message,
        }
    }

    /// The length of the compressed message, or `None` if it would be too long.
    fn compress(&mut self, message: &[u8]) -> Option<usize> {
        let (header, body) = message.split_at_checked(frame::HEADER_LEN)?;
        let room = frame::COMPRESSED_HEADER_LEN + self.deflater.bound(body.len());
        frame::grow(&mut self.packed, room);
        let (head, into) = self.packed[..room.min(self.len_max)].split_at_mut(frame::COMPRESSED_HEADER_LEN);
        let len = frame::COMPRESSED_HEADER_LEN + self.deflater.pack(body, into)?;
        head[..frame::HEADER_LEN].copy_from_slice(header);
        head[12..16].copy_from_slice(&frame::OPCODE_COMPRESSED.to_le_bytes());
        head[16..20].copy_from_slice(&header[12..16]);
        head[20..24].copy_from_slice(&i32::try_from(body.len()).ok()?.to_le_bytes());
        head[24] = self.compressor.id();
        append::patch_len(&mut self.packed[..len], 0);
        Some(len)
    }
}

impl Deflater {
    fn bound(&self, len: usize) -> usize {
        match self {
            Deflater::Zlib(_) => zlib::Deflater::bound(len),
            Deflater::Snappy(_) => snappy::Deflater::bound(len),
            Deflater::Zstd(_) => zstd::Deflater::bound(len),
        }
    }

    fn pack(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        match self {
            Deflater::Snappy(deflater) => deflater.pack(from, into),
            Deflater::Zlib(deflater) => deflater.pack(from, into),
            Deflater::Zstd(deflater) => deflater.pack(from, into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn message(body: &bson::RawDocumentBuf) -> Vec<u8> {
        let mut bytes = Vec::new();
        let at = frame::start(&mut bytes, 5, 0, 0);
        bytes.extend_from_slice(body.as_bytes());
        frame::finish(&mut bytes, at);
        bytes
    }

    #[test]
    fn the_handshake_and_secrets_are_never_compressed() {
        let mut packer = Packer::new(Compressor::Zstd, None, frame::LEN_MAX);
        for name in NEVER {
            let mut body = bson::RawDocumentBuf::new();
            body.append(bson::raw::CString::try_from(name).unwrap().as_ref(), "x".repeat(1000));
            let message = message(&body);
            assert_eq!(packer.pack(&message), message, "{name}");
        }
        let insert = message(&rawdoc! {"insert": "x".repeat(1000)});
        assert!(packer.pack(&insert).len() < 100);
    }

    #[test]
    fn a_message_that_would_exceed_the_servers_limit_is_sent_uncompressed() {
        for compressor in [Compressor::Zlib, Compressor::Zstd] {
            let ping = message(&rawdoc! {"ping": 1, "$db": "admin"});
            let mut packer = Packer::new(compressor, None, ping.len());
            assert_eq!(packer.pack(&ping), ping);
            let long = message(&rawdoc! {"insert": "x".repeat(1000)});
            let mut packer = Packer::new(compressor, None, long.len());
            assert!(packer.pack(&long).len() < 100);
        }
    }

    #[test]
    fn the_level_of_zlib_is_used_and_clamped() {
        let text: String = (0..4000).map(|i| char::from(b'a' + (i * i % 23 % 7) as u8)).collect();
        let message = message(&rawdoc! {"insert": text});
        let len = |level| Packer::new(Compressor::Zlib, level, frame::LEN_MAX).pack(&message).len();
        assert!(len(Some(0)) > message.len() && len(Some(1)) < message.len());
        assert_eq!((len(Some(-1)), len(Some(99))), (len(None), len(Some(9))));
    }
}
