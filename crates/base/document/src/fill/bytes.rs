//! Fills bytes with random data, text, UUIDs or digits.

use crate::random::Words;

/// Fills bytes with random words.
#[inline]
pub(crate) fn random(words: &mut Words, hole: &mut [u8]) {
    let mut chunks = hole.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&words.next().to_le_bytes());
    }
    let rest = chunks.into_remainder();
    rest.copy_from_slice(&words.next().to_le_bytes()[..rest.len()]);
}

/// Fills sixteen bytes: random, with version 4 and the variant of RFC 9562, section 5.4.
#[inline]
pub(crate) fn uuid(words: &mut Words, hole: &mut [u8]) {
    random(words, hole);
    hole[6] = (hole[6] & 0x0F) | 0x40;
    hole[8] = (hole[8] & 0x3F) | 0x80;
}

/// Fills all of `hole` with the decimal digits of a number, with leading zeros.
#[inline]
pub(crate) fn decimal(mut number: u64, hole: &mut [u8]) {
    for digit in hole.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Fills bytes with letters and spaces.
#[inline]
pub(crate) fn text(words: &mut Words, hole: &mut [u8]) {
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
    fn bytes_of_a_word_do_not_affect_each_other() {
        let word = u64::from_le_bytes([0, 31, 25, 26, 1, 30, 2, 29]);
        assert_eq!(&letters(word), b"a z b c ");
    }
}
