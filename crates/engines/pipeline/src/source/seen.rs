//! Which file it is that is read: how it begins, and a number that tells its events from those of another file of the same path.
//!
//! Offsets are bytes, so two files of one path have the same ones for other events. What is remembered goes with every position.

use std::sync::Arc;

use ring::digest::{Context, SHA256};

use crate::place::Position;

/// Bytes of a file's beginning that are remembered at most.
pub(crate) const HEAD_BYTES_MAX: usize = 4096;
/// Bytes of a digest that are kept.
const DIGEST_BYTES: usize = 16;

/// What is remembered of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    number: u32,
    head_bytes: u32,
    digest: [u8; DIGEST_BYTES],
}

impl Seen {
    /// A file that begins so and is looked at for the first time; `place` tells it from others that begin alike.
    pub(crate) fn first(head: &[u8], place: [u64; 2]) -> Self {
        let [device, inode] = place.map(u64::to_le_bytes);
        let [a, b, c, d, ..] = digest(&[head, &device, &inode]);
        Self { number: u32::from_be_bytes([a, b, c, d]), ..Self::unnumbered(head) }
    }

    /// A file that was read when nothing was remembered of files.
    pub(crate) fn unnumbered(head: &[u8]) -> Self {
        let head_bytes = u32::try_from(head.len()).unwrap_or(u32::MAX);
        Self { number: 0, head_bytes, digest: digest(&[head]) }
    }

    /// The same file as it begins now, if it does: it may have grown.
    pub(crate) fn again(self, head: &[u8]) -> Option<Self> {
        let known = head.get(..self.head_bytes as usize)?;
        (digest(&[known]) == self.digest).then(|| Self { number: self.number, ..Self::unnumbered(head) })
    }

    /// The number of its events' partition.
    pub(crate) const fn number(self) -> u32 {
        self.number
    }

    /// The position at a byte of this file.
    pub(crate) fn position(self, at: u64) -> Position {
        let token = [&self.number.to_be_bytes()[..], &self.head_bytes.to_be_bytes(), &self.digest].concat();
        Position { next: at, token: Some(Arc::from(token)) }
    }

    /// Reads what [`Seen::position`] wrote.
    pub(crate) fn read(token: &[u8]) -> Option<Self> {
        let (number, rest) = token.split_first_chunk::<4>()?;
        let (head_bytes, rest) = rest.split_first_chunk::<4>()?;
        let (number, head_bytes) = (u32::from_be_bytes(*number), u32::from_be_bytes(*head_bytes));
        Some(Self { number, head_bytes, digest: rest.try_into().ok()? })
    }
}

/// The beginning of a SHA-256.
fn digest(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let whole = context.finish();
    let mut kept = [0; DIGEST_BYTES];
    kept.copy_from_slice(&whole.as_ref()[..DIGEST_BYTES]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: [u64; 2] = [1, 2];

    #[test]
    fn a_file_that_grew_is_the_same_and_one_that_begins_otherwise_is_not() {
        let seen = Seen::first(b"one\n", PLACE);
        let grown = seen.again(b"one\ntwo\n").unwrap();
        assert_eq!((grown.number(), grown == seen), (seen.number(), false), "more of it is known now");
        assert!(grown.again(b"one\ntwo\nthree\n").is_some());
        for other in [&b"one\n"[..], b"one\ntoo\nthree\n", b""] {
            assert_eq!(grown.again(other), None, "{other:?}");
        }
    }

    #[test]
    fn files_of_one_path_have_numbers_of_their_own_and_the_same_file_has_one() {
        let files = [("one\n", PLACE), ("two\n", PLACE), ("one\n", [1, 3])];
        let numbers = files.map(|(head, place)| Seen::first(head.as_bytes(), place).number());
        assert!(numbers[0] != numbers[1] && numbers[0] != numbers[2]);
        assert_eq!(numbers[0], Seen::first(b"one\n", PLACE).number());
    }

    #[test]
    fn what_is_remembered_reads_back_from_its_position() {
        let seen = Seen::first(b"one\n", PLACE);
        let Position { next, token } = seen.position(7);
        let token = token.unwrap();
        assert_eq!((next, Seen::read(&token)), (7, Some(seen)));
        assert_eq!(Seen::read(&token[..token.len() - 1]), None);
    }
}
