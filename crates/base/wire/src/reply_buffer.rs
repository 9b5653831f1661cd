//! Collects one reply. Does not trust the length in its header: the buffer grows as bytes arrive. Decompresses the
//! reply if both sides agreed on a compressor.

use plimsoll_net::Receive;

use crate::compress::{Compressor, Unpacker};
use crate::error::Malformed;
use crate::frame;

/// The first size in bytes. The reply to a write is much smaller, so that one read takes all of it.
const LEN_FIRST: usize = 16 * 1024;

/// The bytes of an arriving reply.
pub(crate) struct ReplyBuffer {
    bytes: Vec<u8>,
    filled: usize,
    len_max: usize,
    unpacker: Option<Unpacker>,
}

impl ReplyBuffer {
    /// Accepts replies of up to `len_max` bytes.
    pub(crate) fn new(len_max: usize) -> Self {
        ReplyBuffer { bytes: vec![0; LEN_FIRST], filled: 0, len_max, unpacker: None }
    }

    /// Changes the limit for the next replies.
    pub(crate) fn limit(&mut self, len_max: usize) {
        self.len_max = len_max;
    }

    /// Accepts replies of this compressor from now on, and uncompressed ones as before.
    pub(crate) fn accept(&mut self, compressor: Compressor) {
        self.unpacker = Some(Unpacker::new(compressor));
    }

    /// Clears the reply and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        self.unpacker.iter_mut().for_each(Unpacker::clear);
    }

    /// Decompresses the complete reply, if it is compressed.
    ///
    /// # Errors
    /// The compressor is not the agreed one, or the decompressed size is not the announced one.
    pub(crate) fn unpack(&mut self) -> Result<(), Malformed> {
        let bytes = &self.bytes[..self.filled];
        match &mut self.unpacker {
            Some(unpacker) if frame::opcode(bytes) == Some(frame::OPCODE_COMPRESSED) => {
                unpacker.unpack(bytes, self.len_max)
            }
            _ => Ok(()),
        }
    }

    /// The complete reply, decompressed.
    pub(crate) fn message(&self) -> &[u8] {
        let unpacked = self.unpacker.as_ref().and_then(Unpacker::message);
        unpacked.unwrap_or(&self.bytes[..self.filled])
    }

    /// The number of bytes that arrived.
    pub(crate) fn received(&self) -> usize {
        self.filled
    }

    /// The allocated memory in bytes.
    pub(crate) fn allocated(&self) -> usize {
        self.bytes.capacity() + self.unpacker.as_ref().map_or(0, Unpacker::allocated)
    }

    /// Swaps the reply for the buffer `other`, which avoids a copy and an allocation. Grows `other` to the first size.
    pub(crate) fn swap(&mut self, other: &mut Vec<u8>) {
        if let Some(unpacker) = self.unpacker.as_mut().filter(|unpacker| unpacker.message().is_some()) {
            unpacker.swap(other);
            self.filled = 0;
            return;
        }
        if other.len() < LEN_FIRST {
            other.resize(LEN_FIRST, 0);
        }
        std::mem::swap(&mut self.bytes, other);
        self.filled = 0;
    }
}

impl Receive for ReplyBuffer {
    type Error = Malformed;

    #[inline]
    fn is_complete(&mut self) -> Result<bool, Malformed> {
        let claimed = frame::claimed_len(&self.bytes[..self.filled], self.len_max)?;
        let Some(len) = claimed else { return Ok(false) };
        if self.filled > len {
            return Err(Malformed("more bytes arrived than one reply has"));
        }
        if self.filled == self.bytes.len() && self.filled < len {
            self.bytes.resize(len.min(self.filled * 2), 0);
        }
        Ok(self.filled == len)
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    /// A reply has a length, so the end of the connection never completes a reply.
    #[inline]
    fn close(&mut self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(buffer: &mut ReplyBuffer, bytes: &[u8]) -> Result<bool, Malformed> {
        let mut rest = bytes;
        loop {
            let is_complete = buffer.is_complete()?;
            if is_complete || rest.is_empty() {
                return Ok(is_complete);
            }
            let room = buffer.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            buffer.advance(count);
            rest = &rest[count..];
        }
    }

    #[test]
    fn a_header_that_claims_48_mb_allocates_at_most_twice_the_bytes_that_arrived() {
        let mut buffer = ReplyBuffer::new(frame::LEN_MAX);
        let mut bytes = vec![0; 100_000];
        bytes[..4].copy_from_slice(&48_000_000_i32.to_le_bytes());
        assert_eq!(feed(&mut buffer, &bytes), Ok(false));
        assert!(buffer.allocated() <= 200_000 + LEN_FIRST, "{}", buffer.allocated());
    }

    #[test]
    fn a_reply_larger_than_the_first_buffer_arrives_complete() {
        let mut buffer = ReplyBuffer::new(frame::LEN_MAX);
        let mut bytes: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_le_bytes()[0]).collect();
        bytes[..4].copy_from_slice(&1_000_000_i32.to_le_bytes());
        assert_eq!(feed(&mut buffer, &bytes), Ok(true));
        assert_eq!(buffer.message(), bytes);
    }

    #[test]
    fn a_second_reply_in_the_same_read_is_an_error() {
        let mut buffer = ReplyBuffer::new(1000);
        let mut bytes = vec![0; 27];
        bytes[0] = 26;
        assert!(feed(&mut buffer, &bytes).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic_and_allocate_little(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut buffer = ReplyBuffer::new(frame::LEN_MAX);
            let _ = feed(&mut buffer, &bytes);
            prop_assert!(buffer.allocated() <= LEN_FIRST * 2);
        }
    }
}
