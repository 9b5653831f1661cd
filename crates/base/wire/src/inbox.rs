//! Collects one reply. What a header claims is not believed: the buffer grows as bytes arrive. A compressed reply is
//! unpacked beside them, if that was agreed on.

use crate::compress::{Compressor, Unpacker};
use crate::frame::{self, Malformed};

/// The first size, in bytes: a reply to a write fits many times over, so that one read takes it whole.
const LEN_FIRST: usize = 16 * 1024;

/// The bytes of the reply that is arriving.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    filled: usize,
    len_max: usize,
    unpacker: Option<Unpacker>,
}

impl Inbox {
    /// Takes replies of up to `len_max` bytes.
    pub(crate) fn new(len_max: usize) -> Self {
        Inbox { bytes: vec![0; LEN_FIRST], filled: 0, len_max, unpacker: None }
    }

    /// Changes the limit for replies to come.
    pub(crate) fn limit(&mut self, len_max: usize) {
        self.len_max = len_max;
    }

    /// Takes replies of this compressor from now on, and plain ones all the same.
    pub(crate) fn agree(&mut self, compressor: Compressor) {
        self.unpacker = Some(Unpacker::new(compressor));
    }

    /// Forgets the reply, keeps the room.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        self.unpacker.iter_mut().for_each(Unpacker::clear);
    }

    /// The length of the reply once it is whole. Until then there is room to read into.
    ///
    /// # Errors
    /// A length out of bounds, or more bytes than one reply.
    pub(crate) fn complete(&mut self) -> Result<Option<usize>, Malformed> {
        let claimed = frame::claimed_len(&self.bytes[..self.filled], self.len_max)?;
        let Some(len) = claimed else { return Ok(None) };
        if self.filled > len {
            return Err(Malformed("more bytes arrived than one reply has"));
        }
        if self.filled == self.bytes.len() && self.filled < len {
            self.bytes.resize(len.min(self.filled * 2), 0);
        }
        Ok((self.filled == len).then_some(len))
    }

    /// Where the next bytes go; never empty after [`Inbox::complete`] said that the reply is not whole.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// `count` bytes were written to the room.
    pub(crate) fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    /// Unpacks the reply that is whole, if it is compressed.
    ///
    /// # Errors
    /// It was not compressed as agreed, or does not hold exactly what it says.
    pub(crate) fn open(&mut self) -> Result<(), Malformed> {
        let bytes = &self.bytes[..self.filled];
        match &mut self.unpacker {
            Some(unpacker) if frame::opcode(bytes) == Some(frame::OPCODE_COMPRESSED) => {
                unpacker.unpack(bytes, self.len_max)
            }
            _ => Ok(()),
        }
    }

    /// The reply, unpacked.
    pub(crate) fn reply(&self) -> &[u8] {
        let unpacked = self.unpacker.as_ref().and_then(Unpacker::message);
        unpacked.unwrap_or(&self.bytes[..self.filled])
    }

    /// How many bytes arrived.
    pub(crate) fn received(&self) -> usize {
        self.filled
    }

    /// The bytes of memory taken.
    pub(crate) fn allocated(&self) -> usize {
        self.bytes.capacity() + self.unpacker.as_ref().map_or(0, Unpacker::allocated)
    }

    /// Gives the reply away for a buffer of the other's, so that nothing is copied and nothing allocated. The other's
    /// buffer is not shorter than that of a new inbox.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(inbox: &mut Inbox, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut rest = bytes;
        loop {
            let complete = inbox.complete()?;
            if complete.is_some() || rest.is_empty() {
                return Ok(complete);
            }
            let room = inbox.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            inbox.advance(count);
            rest = &rest[count..];
        }
    }

    #[test]
    fn a_claim_of_48_mb_allocates_no_more_than_twice_what_arrived() {
        let mut inbox = Inbox::new(frame::LEN_MAX);
        let mut bytes = vec![0; 100_000];
        bytes[..4].copy_from_slice(&48_000_000_i32.to_le_bytes());
        assert_eq!(feed(&mut inbox, &bytes), Ok(None));
        assert!(inbox.allocated() <= 200_000 + LEN_FIRST, "{}", inbox.allocated());
    }

    #[test]
    fn a_reply_larger_than_the_first_buffer_is_collected_whole() {
        let mut inbox = Inbox::new(frame::LEN_MAX);
        let mut bytes: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_le_bytes()[0]).collect();
        bytes[..4].copy_from_slice(&1_000_000_i32.to_le_bytes());
        assert_eq!(feed(&mut inbox, &bytes), Ok(Some(bytes.len())));
        assert_eq!(inbox.reply(), bytes);
    }

    #[test]
    fn a_second_reply_in_the_same_read_is_an_error() {
        let mut inbox = Inbox::new(1000);
        let mut bytes = vec![0; 27];
        bytes[0] = 26;
        assert!(feed(&mut inbox, &bytes).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic_and_allocate_little(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut inbox = Inbox::new(frame::LEN_MAX);
            let _ = feed(&mut inbox, &bytes);
            prop_assert!(inbox.allocated() <= LEN_FIRST * 2);
        }
    }
}
