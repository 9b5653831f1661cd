//! `$text`: lower-case letters and spaces, eight at a time.

use crate::error::Error;
use crate::node::{Hole, Shape};
use crate::parse::{Args, Parser};
use crate::random::Words;

use super::{Fill, Lengths};

/// Reads `{bytes: n}` or `{min, max}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let lengths = Lengths::parse(args, "bytes")?;
    Ok(match lengths.exact().filter(|bytes| *bytes <= crate::DOCUMENT_BYTES_MAX) {
        Some(bytes) => Shape::Hole(Hole::string("", bytes, Fill::Text)),
        None => Shape::Text(lengths),
    })
}

/// Fills bytes with letters and spaces.
#[inline]
pub(crate) fn fill(words: &mut Words, hole: &mut [u8]) {
    let mut chunks = hole.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&letters(words.next()));
    }
    let rest = chunks.into_remainder();
    rest.copy_from_slice(&letters(words.next())[..rest.len()]);
}

/// Eight letters from the low five bits of each byte: 0 to 25 are `a` to `z`, the other six are spaces, which makes
/// words of 4.3 letters on average.
#[inline]
fn letters(word: u64) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let five = word & (EACH * 31);
    let is_space = ((five + EACH * (128 - 26)) >> 7) & EACH;
    let space_mask = is_space * 255;
    let letters = five + EACH * u64::from(b'a');
    ((letters & !space_mask) | ((EACH * u64::from(b' ')) & space_mask)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_five_bits_are_a_letter_or_a_space() {
        for five in 0..32_u8 {
            let want = if five < 26 { b'a' + five } else { b' ' };
            assert_eq!(letters(u64::from_le_bytes([five | 0xE0; 8])), [want; 8]);
        }
    }

    #[test]
    fn lanes_do_not_disturb_each_other() {
        let word = u64::from_le_bytes([0, 31, 25, 26, 1, 30, 2, 29]);
        assert_eq!(&letters(word), b"a z b c ");
    }
}
