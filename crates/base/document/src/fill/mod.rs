//! Fills the fixed-width parts of a document.

mod bytes;
mod choice;
mod numbers;

pub(crate) use bytes::{decimal as fill_digits, random as fill_bytes, text as fill_text};
pub(crate) use choice::{Choice, Chooser};
pub(crate) use numbers::{Date, Decimal, Double, Sequence};

use crate::distribution::Whole;
use crate::random::{Bernoulli, Draw};
use crate::ycsb_id;

/// The content of a hole; every variant has a fixed width.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fill {
    /// The 12 bytes of the receipt.
    Receipt,
    /// The receipt's 24 hexadecimal digits.
    ReceiptText,
    /// The digits of a YCSB id.
    YcsbId,
    /// The stamp.
    Stamp,
    /// The document's number.
    Number,
    Sequence(Sequence),
    Int(Whole),
    Long(Whole),
    Double(Double),
    Decimal(Box<Decimal>),
    Bool(Bernoulli),
    Choice(Box<Choice>),
    /// A number in decimal digits, with leading zeros.
    Digits(Whole),
    Date(Box<Date>),
    Text,
    Bytes,
    Uuid,
}

impl Fill {
    /// Fills a hole, which must have the width of the variant.
    #[inline]
    pub(crate) fn write(&self, draw: &Draw<'_>, hole: &mut [u8]) {
        match self {
            Self::Receipt => hole.copy_from_slice(&draw.identity.id),
            Self::ReceiptText => hole.copy_from_slice(&draw.identity.hex()),
            Self::YcsbId => hole.copy_from_slice(&ycsb_id::digits(draw.identity)),
            Self::Stamp => hole.copy_from_slice(&draw.identity.stamp.to_le_bytes()),
            Self::Number => hole.copy_from_slice(&draw.number.to_le_bytes()),
            Self::Sequence(sequence) => sequence.write(draw, hole),
            Self::Int(whole) => hole.copy_from_slice(&(whole.value(draw) as i32).to_le_bytes()),
            Self::Long(whole) => hole.copy_from_slice(&whole.value(draw).to_le_bytes()),
            Self::Double(double) => hole.copy_from_slice(&double.value(draw).to_le_bytes()),
            Self::Decimal(decimal) => hole.copy_from_slice(&decimal.value(draw)),
            Self::Bool(bernoulli) => hole[0] = u8::from(bernoulli.sample(draw.first())),
            Self::Choice(choice) => choice.write(draw, hole),
            Self::Digits(whole) => bytes::decimal(whole.value(draw) as u64, hole),
            Self::Date(date) => hole.copy_from_slice(&date.value(draw).to_le_bytes()),
            Self::Text => bytes::text(&mut draw.words(), hole),
            Self::Bytes => bytes::random(&mut draw.words(), hole),
            Self::Uuid => bytes::uuid(&mut draw.words(), hole),
        }
    }
}
