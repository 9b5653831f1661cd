//! Encodes an `_id` as YCSB does: `user` and a number, in an order unrelated to insertion.
//!
//! YCSB hashes the number of a record (`CoreWorkload.buildKeyName`). Here a bijection replaces the hash, so that the last
//! eight bytes of the receipt can be decoded from the text. They identify the run.

use crate::Identity;
use crate::random::{mix, unmix};

/// The bytes before the digits.
const PREFIX: &[u8; 4] = b"user";
/// The number of digits of the largest number, so that all ids have the same length.
pub(crate) const DIGITS: usize = 20;

/// The id of a document: 24 characters.
#[must_use]
pub fn key(identity: &Identity) -> [u8; PREFIX.len() + DIGITS] {
    let mut text = [b'0'; PREFIX.len() + DIGITS];
    text[..PREFIX.len()].copy_from_slice(PREFIX);
    text[PREFIX.len()..].copy_from_slice(&digits(identity));
    text
}

/// Decodes the last eight bytes of the receipt from an id; `None` for any other text.
#[must_use]
pub fn tail(key: &[u8]) -> Option<[u8; 8]> {
    let digits = key.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(unmix(number).to_be_bytes())
}

/// The digits alone.
pub(crate) fn digits(identity: &Identity) -> [u8; DIGITS] {
    let [_, _, _, _, tail @ ..] = identity.id;
    let (mut number, mut digits) = (mix(u64::from_be_bytes(tail)), [b'0'; DIGITS]);
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(tail: u64) -> Identity {
        let mut id = [7; 12];
        id[4..].copy_from_slice(&tail.to_be_bytes());
        Identity { id, stamp: 99 }
    }

    #[test]
    fn the_last_bytes_of_the_receipt_are_decoded_from_its_id() {
        for number in [0, 1, u64::MAX, 1 << 63, 0x1234_5678_9abc_def0] {
            let key = key(&identity(number));
            assert_eq!((key.len(), tail(&key)), (24, Some(number.to_be_bytes())));
        }
    }

    #[test]
    fn other_texts_are_not_ids() {
        for text in ["", "user", "user1", "user99999999999999999999", "user0000000000000000000x"] {
            assert_eq!(tail(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_order_of_ids_is_not_the_order_of_numbers() {
        let ascending = (0..1000).filter(|number| key(&identity(*number)) < key(&identity(number + 1)));
        let ascending = ascending.count();
        assert!((400..600).contains(&ascending), "{ascending}");
    }
}
