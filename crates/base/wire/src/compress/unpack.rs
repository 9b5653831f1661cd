//! Decodes OP_COMPRESSED. Checks the announced size against limits before decompression and against the
//! content afterwards.

use plimsoll_element as element;

use crate::compress::{Compressor, snappy, zlib, zstd};
use crate::error::Malformed;
use crate::frame;

/// Decompresses messages, with a context and a buffer that are reused.
pub(crate) struct Unpacker {
    compressor: Compressor,
    inflater: Inflater,
    /// Holds the last message in its first `filled` bytes.
    plain: Vec<u8>,
    filled: usize,
}

enum Inflater {
    Snappy(snappy::Inflater),
    Zlib(zlib::Inflater),
    Zstd(zstd::Inflater),
}

impl Unpacker {
    /// Accepts only messages of this compressor.
    pub(crate) fn new(compressor: Compressor) -> Self {
        let inflater = match compressor {
            Compressor::Snappy => Inflater::Snappy(snappy::Inflater::new()),
            Compressor::Zlib => Inflater::Zlib(zlib::Inflater::new()),
            Compressor::Zstd => Inflater::Zstd(zstd::Inflater::new()),
        };
        Unpacker { compressor, inflater, plain: Vec::new(), filled: 0 }
    }

    /// Clears the message and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// The last message, if there is one since [`Unpacker::clear`].
    pub(crate) fn message(&self) -> Option<&[u8]> {
        (self.filled > 0).then(|| &self.plain[..self.filled])
    }

    /// Swaps the message for the buffer `other`.
    pub(crate) fn swap(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.plain, other);
        self.filled = 0;
    }

    /// The allocated memory in bytes.
    pub(crate) fn allocated(&self) -> usize {
        self.plain.capacity()
    }

    /// Decompresses a complete OP_COMPRESSED to an OP_MSG of at most `len_max` bytes.
    ///
    /// # Errors
    /// The compressor is not the agreed one, or the size is not the announced one.
    pub(crate) fn unpack(&mut self, packed: &[u8], len_max: usize) -> Result<(), Malformed> {
        let head = packed.first_chunk().ok_or(Malformed("a compressed message is truncated"))?;
        let from = &packed[frame::COMPRESSED_HEADER_LEN..];
        let len = self.plain_len(head, from.len(), len_max)?;
        frame::grow(&mut self.plain, len);
        let (header, into) = self.plain[..len].split_at_mut(frame::HEADER_LEN);
        let is_whole = match &mut self.inflater {
            Inflater::Snappy(inflater) => inflater.unpack(from, into),
            Inflater::Zlib(inflater) => inflater.unpack(from, into),
            Inflater::Zstd(inflater) => inflater.unpack(from, into),
        };
        if !is_whole {
            return Err(Malformed("a compressed message does not have its announced size"));
        }
        header[..12].copy_from_slice(&head[..12]);
        header[12..].copy_from_slice(&frame::OPCODE.to_le_bytes());
        frame::finish(&mut self.plain[..len], 0);
        self.filled = len;
        Ok(())
    }

    /// The length of the original message with its header, if it is possible.
    fn plain_len(
        &self,
        head: &[u8; frame::COMPRESSED_HEADER_LEN],
        packed_len: usize,
        len_max: usize,
    ) -> Result<usize, Malformed> {
        let int = |at: usize| element::int32(&head[at..]).and_then(|int| usize::try_from(int).ok());
        if head[24] != self.compressor.id() {
            return Err(Malformed("a message has another compressor than agreed"));
        }
        if int(16) != usize::try_from(frame::OPCODE).ok() {
            return Err(Malformed("a compressed message does not hold an OP_MSG (2013)"));
        }
        let body_len = int(20).filter(|len| *len <= packed_len.saturating_mul(self.compressor.ratio_max()));
        let len = body_len.map(|len| frame::HEADER_LEN + len);
        len.filter(|len| (frame::LEN_MIN..=len_max).contains(len))
            .ok_or(Malformed("the announced size of a compressed message is out of bounds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Packer;
    use bson::rawdoc;
    use proptest::prelude::*;

    const ALL: [Compressor; 3] = [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];
    /// The position of the announced size in the message.
    const SIZE_AT: usize = 20;

    fn message(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let at = frame::start(&mut bytes, 5, 9, frame::MORE_TO_COME);
        bytes.extend_from_slice(rawdoc! {"insert": text}.as_bytes());
        frame::finish(&mut bytes, at);
        bytes
    }

    fn packed(compressor: Compressor, message: &[u8]) -> Vec<u8> {
        Packer::new(compressor, None, frame::LEN_MAX).pack(message).to_vec()
    }

    fn unpack(compressor: Compressor, packed: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut unpacker = Unpacker::new(compressor);
        unpacker.unpack(packed, frame::LEN_MAX)?;
        Ok(unpacker.message().unwrap().to_vec())
    }

    fn with_size(packed: &[u8], size: i32) -> Vec<u8> {
        let mut packed = packed.to_vec();
        packed[SIZE_AT..SIZE_AT + 4].copy_from_slice(&size.to_le_bytes());
        packed
    }

    #[test]
    fn packed_messages_are_unpacked_exactly_one_after_the_other() {
        for compressor in ALL {
            let mut packer = Packer::new(compressor, None, frame::LEN_MAX);
            let mut unpacker = Unpacker::new(compressor);
            for len in [0, 10, 100_000, 1, 5_000_000] {
                let message = message(&"ab".repeat(len));
                let packed = packer.pack(&message);
                assert_eq!(element::int32(packed), i32::try_from(packed.len()).ok());
                assert_eq!(packed[4..12], message[4..12], "both ids stay");
                unpacker.unpack(packed, frame::LEN_MAX).unwrap();
                assert_eq!(unpacker.message().unwrap(), message);
                unpacker.clear();
                assert_eq!(unpacker.message(), None);
            }
        }
    }

    #[test]
    fn a_wrong_size_is_detected_in_either_direction() {
        for compressor in ALL {
            let message = message(&"abc".repeat(1000));
            let (packed, size) = (packed(compressor, &message), message.len() as i32 - 16);
            assert!(unpack(compressor, &with_size(&packed, size)).is_ok());
            for lie in [size - 1, size + 1, 0, 9, -1, i32::MIN, i32::MAX, 48_000_000, size / 2, size * 2] {
                assert!(unpack(compressor, &with_size(&packed, lie)).is_err(), "{lie} for {size}");
            }
        }
    }

    #[test]
    fn an_impossible_or_too_large_size_allocates_nothing() {
        for compressor in ALL {
            let (short, long) =
                (packed(compressor, &message("a")), packed(compressor, &message(&"a".repeat(40_000_000))));
            let mut unpacker = Unpacker::new(compressor);
            assert!(unpacker.unpack(&with_size(&short, 48_000_000), frame::LEN_MAX).is_err());
            assert!(unpacker.unpack(&long, 30_000_000).is_err());
            assert_eq!(unpacker.allocated(), 0);
            assert!(unpacker.unpack(&long, frame::LEN_MAX).is_ok(), "a correct size is accepted");
        }
    }

    #[test]
    fn another_compressor_another_opcode_and_bytes_after_the_end_are_refused() {
        for compressor in ALL {
            let message = message(&"abc".repeat(1000));
            let good = packed(compressor, &message);
            for id in (0..=u8::MAX).filter(|id| *id != compressor.id()) {
                let mut bad = good.clone();
                bad[24] = id;
                assert!(unpack(compressor, &bad).is_err(), "{id}");
            }
            let mut bad = good.clone();
            bad[16..20].copy_from_slice(&frame::OPCODE_COMPRESSED.to_le_bytes());
            assert!(unpack(compressor, &bad).is_err());
            assert!(unpack(compressor, &[good.as_slice(), &[0]].concat()).is_err());
        }
    }

    #[test]
    fn a_message_cut_at_any_byte_or_with_any_bit_flipped_never_panics() {
        for compressor in ALL {
            let good = packed(compressor, &message(&"abcdefg".repeat(40)));
            for len in 0..good.len() {
                assert!(unpack(compressor, &good[..len]).is_err(), "cut at {len}");
            }
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let _ = unpack(compressor, &bad);
            }
        }
    }

    proptest! {
        #[test]
        fn messages_of_any_bytes_are_unpacked_unchanged(
            noise in proptest::collection::vec(any::<u8>(), 0..5000), level in -1..10_i32,
        ) {
            let noise = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: noise };
            let mut message = Vec::new();
            let at = frame::start(&mut message, 5, 9, 0);
            message.extend_from_slice(rawdoc! {"insert": noise}.as_bytes());
            frame::finish(&mut message, at);
            for compressor in ALL {
                let mut packer = Packer::new(compressor, Some(level), frame::LEN_MAX);
                let packed = packer.pack(&message);
                prop_assert_eq!(packed[12..16].to_vec(), frame::OPCODE_COMPRESSED.to_le_bytes().to_vec());
                prop_assert_eq!(unpack(compressor, packed), Ok(message.clone()));
            }
        }

        #[test]
        fn random_bytes_after_a_true_header_never_panic(
            noise in proptest::collection::vec(any::<u8>(), 1..300), size in 0..100_000_i32,
        ) {
            for compressor in ALL {
                let mut bytes = with_size(&packed(compressor, &message("a")), size);
                bytes.truncate(frame::COMPRESSED_HEADER_LEN);
                bytes.extend_from_slice(&noise);
                let _ = unpack(compressor, &bytes);
            }
        }
    }
}
