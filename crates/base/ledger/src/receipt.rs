//! Encodes a document's `_id`: shaped like an ObjectId, it carries the run and the document's number.

use std::fmt;
use std::str::FromStr;

/// Document numbers are below this: five bytes of the receipt hold the number.
pub const NUMBERS_MAX: u64 = 1 << 40;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A run's identity: the common part of all its receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    /// The start of the run, in seconds since the Unix epoch.
    pub time_s: u32,
    /// 24 bits of randomness, so that two runs of the same second differ.
    pub tag: [u8; 3],
}

impl Run {
    /// The receipt of a document of this run.
    ///
    /// # Panics
    /// When `number` does not fit in 40 bits; a [`crate::Allocation`] never gives such a number.
    pub fn receipt(self, number: u64) -> Receipt {
        assert!(number < NUMBERS_MAX, "document number {number} does not fit in 40 bits");
        Receipt { run: self, number }
    }

    /// Whether this ObjectId is a receipt of this run.
    pub fn owns(self, object_id: &[u8; 12]) -> bool {
        object_id[..7] == self.to_bytes()
    }

    /// The document's number, if this ObjectId is a receipt of this run.
    pub fn number(self, object_id: &[u8; 12]) -> Option<u64> {
        self.owns(object_id).then(|| Receipt::from_object_id(object_id).number)
    }

    /// The document's number, if this stamp belongs to this run.
    pub fn stamped(self, stamp: i64) -> Option<u64> {
        Receipt::from_stamp(self, stamp).map(Receipt::number)
    }

    /// The number and the version in this stamp, as if the stamp belonged to this run: every stamp can be read this way. Only
    /// the ledger knows whether that version was ever sent.
    pub fn versioned(self, stamp: i64) -> (u64, u32) {
        let bits = stamp.cast_unsigned();
        let version = bits.wrapping_sub(self.stamp_base()) >> 40;
        (bits & (NUMBERS_MAX - 1), version as u32)
    }

    /// The receipt with these last eight bytes. These bytes omit the time: it is 0 in a receipt of another run.
    pub fn receipt_of_tail(self, tail: [u8; 8]) -> Receipt {
        let mut id = [0; 12];
        id[4..].copy_from_slice(&tail);
        if tail[..3] == self.tag {
            id[..4].copy_from_slice(&self.time_s.to_be_bytes());
        }
        Receipt::from_object_id(&id)
    }

    /// The first seven bytes of every receipt of this run: time, then tag.
    pub fn to_bytes(self) -> [u8; 7] {
        let time = self.time_s.to_be_bytes();
        [time[0], time[1], time[2], time[3], self.tag[0], self.tag[1], self.tag[2]]
    }

    /// The run whose receipts begin with these seven bytes.
    pub fn from_bytes(bytes: [u8; 7]) -> Run {
        let [a, b, c, d, tag @ ..] = bytes;
        Run { time_s: u32::from_be_bytes([a, b, c, d]), tag }
    }

    fn stamp_base(self) -> u64 {
        let [a, b, c] = self.tag;
        u64::from(u32::from_be_bytes([0, a, b, c])) << 40
    }
}

/// The name of one document of one run. Receipts of a run sort by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Receipt {
    run: Run,
    number: u64,
}

impl Receipt {
    /// The run that sent the document.
    pub fn run(self) -> Run {
        self.run
    }

    /// The document's number within the run, below 2^40.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Twelve bytes: time (4, big-endian), tag (3), number (5, big-endian).
    pub fn to_object_id(self) -> [u8; 12] {
        let mut id = [0; 12];
        id[..7].copy_from_slice(&self.run.to_bytes());
        id[7..].copy_from_slice(&self.number.to_be_bytes()[3..]);
        id
    }

    /// Reads twelve bytes as a receipt. This succeeds for every ObjectId: [`Run::owns`] checks whether the
    /// receipt belongs to the run.
    pub fn from_object_id(id: &[u8; 12]) -> Receipt {
        let [a, b, c, d, e, f, g, n @ ..] = *id;
        let number = u64::from_be_bytes([0, 0, 0, n[0], n[1], n[2], n[3], n[4]]);
        Receipt { run: Run::from_bytes([a, b, c, d, e, f, g]), number }
    }

    /// The string form: the ObjectId as 24 lower-case hexadecimal characters.
    pub fn to_hex(self) -> [u8; 24] {
        let mut hex = [0; 24];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.to_object_id()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }

    /// Reads the string form.
    ///
    /// # Errors
    /// The text is not 24 lower-case hexadecimal characters. Upper case is refused: as a string
    /// `_id` it would be another document.
    pub fn from_hex(hex: &[u8]) -> Result<Receipt, Error> {
        let hex: &[u8; 24] = hex.try_into().map_err(|_| Error::Length(hex.len()))?;
        let mut id = [0; 12];
        for (byte, pair) in id.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Receipt::from_object_id(&id))
    }

    /// The short field that repeats the receipt inside the document: 24 bits of tag, 40 bits of number.
    pub fn stamp(self) -> i64 {
        (self.run.stamp_base() | self.number).cast_signed()
    }

    /// The stamp of a version of the document: the version is added to the tag. Version 0 is [`Receipt::stamp`].
    pub fn stamp_of(self, version: u32) -> i64 {
        (self.run.stamp_base().wrapping_add(u64::from(version) << 40) | self.number).cast_signed()
    }

    /// The version of this document with this stamp, or `None` if the stamp belongs to another document. Every tag is valid for
    /// some version.
    pub fn version_of(self, stamp: i64) -> Option<u32> {
        let (number, version) = self.run.versioned(stamp);
        (number == self.number).then_some(version)
    }

    /// The receipt that this stamp repeats, or `None` if the stamp is of another run. A stamp does not contain the run's time,
    /// so the run is a parameter.
    pub fn from_stamp(run: Run, stamp: i64) -> Option<Receipt> {
        let number = stamp.cast_unsigned() ^ run.stamp_base();
        (number < NUMBERS_MAX).then_some(Receipt { run, number })
    }
}

fn digit(character: u8) -> Result<u8, Error> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(Error::Character(character.escape_ascii().to_string())),
    }
}

impl FromStr for Receipt {
    type Err = Error;

    fn from_str(text: &str) -> Result<Receipt, Error> {
        Receipt::from_hex(text.as_bytes())
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_hex().iter().try_for_each(|&digit| fmt::Write::write_char(f, char::from(digit)))
    }
}

/// The reason why a text is not a receipt.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text has another length.
    #[error("a receipt has 24 hexadecimal characters, this has {0}: copy the whole _id")]
    Length(usize),
    /// A character is not a lower-case hexadecimal digit.
    #[error("a receipt is written in the digits 0-9 and a-f, this has {0:?}: write it in lower case")]
    Character(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run { time_s: 0x6553_f100, tag: [0xfe, 0xdc, 0xba] };

    #[test]
    fn a_receipt_survives_each_of_its_forms() {
        for number in [0, 1, 255, 256, 0x12_3456_789a, NUMBERS_MAX - 1] {
            let receipt = RUN.receipt(number);
            assert_eq!(Receipt::from_object_id(&receipt.to_object_id()), receipt);
            assert_eq!(Receipt::from_hex(&receipt.to_hex()), Ok(receipt));
            assert_eq!(receipt.to_string().parse(), Ok(receipt));
            assert_eq!(Receipt::from_stamp(RUN, receipt.stamp()), Some(receipt));
        }
    }

    #[test]
    fn the_bytes_are_time_tag_number() {
        let receipt = RUN.receipt(0x01_0203_0405);
        assert_eq!(receipt.to_string(), "6553f100fedcba0102030405");
        assert_eq!(receipt.stamp().cast_unsigned(), 0xfedc_ba01_0203_0405);
    }

    #[test]
    fn a_stamp_contains_the_version_of_its_document() {
        for number in [0, 7, NUMBERS_MAX - 1] {
            let receipt = RUN.receipt(number);
            assert_eq!(receipt.stamp_of(0), receipt.stamp());
            for version in [0, 1, 0x1_2345, 0x12_3456, crate::VERSION_MAX] {
                assert_eq!(receipt.version_of(receipt.stamp_of(version)), Some(version));
                assert_eq!(RUN.receipt(3).version_of(receipt.stamp_of(version)), None);
            }
        }
    }

    #[test]
    fn receipts_sort_by_number() {
        let ids: Vec<_> = [0, 1, 255, 256, 65_536, NUMBERS_MAX - 1].map(|n| RUN.receipt(n)).to_vec();
        assert!(ids.windows(2).all(|w| w[0].to_object_id() < w[1].to_object_id()));
        assert!(ids.windows(2).all(|w| w[0].to_hex() < w[1].to_hex()));
    }

    #[test]
    fn a_run_owns_its_receipts_and_no_others() {
        let id = RUN.receipt(7).to_object_id();
        assert_eq!(RUN.number(&id), Some(7));
        for other in [Run { time_s: RUN.time_s + 1, ..RUN }, Run { tag: [0xfe, 0xdc, 0xbb], ..RUN }] {
            assert!(!other.owns(&id));
            assert_eq!(other.number(&id), None);
        }
        assert_eq!(Run { tag: [0, 0, 1], ..RUN }.stamped(RUN.receipt(7).stamp()), None);
    }

    #[test]
    fn an_invalid_receipt_is_refused_with_the_reason() {
        assert_eq!(Receipt::from_hex(b"abc"), Err(Error::Length(3)));
        let upper = "6553F100fedcba0102030405".parse::<Receipt>();
        assert_eq!(upper, Err(Error::Character("F".into())));
    }

    #[test]
    #[should_panic(expected = "does not fit in 40 bits")]
    fn a_number_beyond_40_bits_is_refused() {
        RUN.receipt(NUMBERS_MAX);
    }
}
