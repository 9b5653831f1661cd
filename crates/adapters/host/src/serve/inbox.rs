//! Splits a stream of bytes into messages, in one reused buffer.

use std::io::{self, Read};
use std::ops::Range;

use plimsoll_wire::{Malformed, frame};

/// The initial length of the buffer: a few batches of small documents fit.
const LEN_START: usize = 256 * 1024;
/// The longest accepted message.
const MESSAGE_LEN_MAX: usize = frame::LEN_MAX + frame::SLACK;

/// Bytes received and not yet answered.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    unread: Range<usize>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox { buffer: vec![0; LEN_START], unread: 0..0 }
    }

    /// Receives once; false at the end of the stream.
    pub(crate) fn fill(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        self.make_room();
        let got = stream.read(&mut self.buffer[self.unread.end..])?;
        self.unread.end += got;
        Ok(got > 0)
    }

    /// Makes room for further bytes. The buffer grows only with received bytes, by doubling: an announced
    /// length alone allocates nothing.
    fn make_room(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.unread.end == self.buffer.len() && self.unread.start > 0 {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.unread.end == self.buffer.len() {
            let doubled = self.buffer.len() * 2;
            self.buffer.resize(doubled.min(MESSAGE_LEN_MAX), 0);
        }
    }

    /// The next whole message, if it has arrived.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let unread = &self.buffer[self.unread.clone()];
        match frame::claimed_len(unread, MESSAGE_LEN_MAX)? {
            Some(len) if len <= unread.len() => {
                let start = self.unread.start;
                self.unread.start += len;
                Ok(Some(&self.buffer[start..start + len]))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(len: usize) -> Vec<u8> {
        let mut bytes = vec![7; len];
        bytes[..4].copy_from_slice(&i32::try_from(len).unwrap().to_le_bytes());
        bytes
    }

    fn read_all(mut stream: &[u8]) -> Vec<usize> {
        let mut inbox = Inbox::new();
        let mut lens = Vec::new();
        while inbox.fill(&mut stream).unwrap() {
            while let Some(message) = inbox.next().unwrap() {
                lens.push(message.len());
            }
        }
        lens
    }

    #[test]
    fn an_announced_length_allocates_nothing() {
        let mut inbox = Inbox::new();
        assert!(inbox.fill(&mut &40_000_000_i32.to_le_bytes()[..]).unwrap());
        assert_eq!(inbox.next().unwrap(), None);
        inbox.make_room();
        assert_eq!(inbox.buffer.len(), LEN_START);
    }

    #[test]
    fn an_invalid_length_is_refused() {
        for len in [i32::MIN, 0, 15, i32::MAX] {
            let mut inbox = Inbox::new();
            inbox.fill(&mut &len.to_le_bytes()[..]).unwrap();
            assert!(inbox.next().is_err(), "{len}");
        }
    }

    #[test]
    fn the_longest_message_fits() {
        assert_eq!(read_all(&message(MESSAGE_LEN_MAX)), [MESSAGE_LEN_MAX]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn messages_come_out_as_they_went_in(lens in proptest::collection::vec(26_usize..400_000, 0..8)) {
            let stream: Vec<u8> = lens.iter().flat_map(|&len| message(len)).collect();
            prop_assert_eq!(read_all(&stream), lens);
        }
    }
}
