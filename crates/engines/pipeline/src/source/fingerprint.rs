//! Identifies a file by its beginning, and numbers it to distinguish its events from those of another file of the same path.
//!
//! Offsets are bytes, so two files of one path use the same offsets for different events. The fingerprint is stored with
//! every position.

use std::sync::Arc;

use ring::digest::{Context, SHA256};

use crate::position::Position;

/// The largest number of bytes of a file's beginning that the fingerprint covers.
pub(crate) const HEAD_BYTES_MAX: usize = 4096;
/// Stored bytes of a digest.
const DIGEST_BYTES: usize = 16;

/// The fingerprint of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    number: u32,
    head_bytes: u32,
    digest: [u8; DIGEST_BYTES],
}

impl Fingerprint {
    /// The fingerprint of a new file with this beginning. `place` (device and inode) distinguishes files with the same
    /// beginning.
    pub(crate) fn first(head: &[u8], place: [u64; 2]) -> Self {
        let [device, inode] = place.map(u64::to_le_bytes);
        let [a, b, c, d, ..] = digest(&[head, &device, &inode]);
        Self { number: u32::from_be_bytes([a, b, c, d]), ..Self::unnumbered(head) }
    }

    /// The fingerprint of a file whose position was stored without one.
    pub(crate) fn unnumbered(head: &[u8]) -> Self {
        let head_bytes = u32::try_from(head.len()).unwrap_or(u32::MAX);
        Self { number: 0, head_bytes, digest: digest(&[head]) }
    }

    /// The updated fingerprint, if a file with this beginning is the same file, which may have grown.
    pub(crate) fn verify(self, head: &[u8]) -> Option<Self> {
        let known = head.get(..self.head_bytes as usize)?;
        (digest(&[known]) == self.digest).then(|| Self { number: self.number, ..Self::unnumbered(head) })
    }

    /// The number of the partition of its events.
    pub(crate) const fn number(self) -> u32 {
        self.number
    }

    /// The position at a byte of this file, with the fingerprint as its token.
    pub(crate) fn position(self, at: u64) -> Position {
        let token = [&self.number.to_be_bytes()[..], &self.head_bytes.to_be_bytes(), &self.digest].concat();
        Position { next: at, token: Some(Arc::from(token)) }
    }

    /// Parses the token of [`Fingerprint::position`].
    pub(crate) fn parse(token: &[u8]) -> Option<Self> {
        let (number, rest) = token.split_first_chunk::<4>()?;
        let (head_bytes, rest) = rest.split_first_chunk::<4>()?;
        let (number, head_bytes) = (u32::from_be_bytes(*number), u32::from_be_bytes(*head_bytes));
        Some(Self { number, head_bytes, digest: rest.try_into().ok()? })
    }
}

/// The first bytes of a SHA-256.
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
    fn a_grown_file_matches_and_a_file_with_another_beginning_does_not() {
        let fingerprint = Fingerprint::first(b"one\n", PLACE);
        let grown = fingerprint.verify(b"one\ntwo\n").unwrap();
        assert_eq!(
            (grown.number(), grown == fingerprint),
            (fingerprint.number(), false),
            "more of it is known now"
        );
        assert!(grown.verify(b"one\ntwo\nthree\n").is_some());
        for other in [&b"one\n"[..], b"one\ntoo\nthree\n", b""] {
            assert_eq!(grown.verify(other), None, "{other:?}");
        }
    }

    #[test]
    fn different_files_of_one_path_have_different_numbers() {
        let files = [("one\n", PLACE), ("two\n", PLACE), ("one\n", [1, 3])];
        let numbers = files.map(|(head, place)| Fingerprint::first(head.as_bytes(), place).number());
        assert!(numbers[0] != numbers[1] && numbers[0] != numbers[2]);
        assert_eq!(numbers[0], Fingerprint::first(b"one\n", PLACE).number());
    }

    #[test]
    fn the_token_of_a_position_parses_back() {
        let fingerprint = Fingerprint::first(b"one\n", PLACE);
        let Position { next, token } = fingerprint.position(7);
        let token = token.unwrap();
        assert_eq!((next, Fingerprint::parse(&token)), (7, Some(fingerprint)));
        assert_eq!(Fingerprint::parse(&token[..token.len() - 1]), None);
    }
}
