//! The generators: one file each, its settings first, then its bytes.

mod lengths;

mod array;
mod bool;
mod bytes;
mod date;
mod decimal;
mod double;
mod family;
mod number;
mod object_id;
mod optional;
mod pad;
mod pick;
mod same;
mod sequence;
mod text;
mod uuid;
mod whole;

pub(crate) use lengths::Lengths;
pub(crate) use pick::Chooser;
pub(crate) use same::parse as parse_same;
pub(crate) use text::fill as fill_text;
pub(crate) use {bytes::fill as fill_bytes, family::fill as fill_digits};

use crate::distribution::Whole;
use crate::error::Error;
use crate::node::Shape;
use crate::parse::{Args, Parser};
use crate::random::{Draw, Odds};

/// A generator's reader of settings.
pub(crate) type Parse = fn(&mut Parser<'_>, &Args<'_>) -> Result<Shape, Error>;

/// Every generator but `$same`, which makes no value of its own.
pub(crate) const GENERATORS: [(&str, Parse); 18] = [
    ("$array", array::parse),
    ("$bool", bool::parse),
    ("$bytes", bytes::parse),
    ("$date", date::parse),
    ("$decimal", decimal::parse),
    ("$double", double::parse),
    ("$family", family::parse),
    ("$int", whole::parse_int),
    ("$long", whole::parse_long),
    ("$number", number::parse),
    ("$object_id", object_id::parse),
    ("$optional", optional::parse),
    ("$pad", pad::parse),
    ("$pick", pick::parse),
    ("$same", same::parse_misplaced),
    ("$sequence", sequence::parse),
    ("$text", text::parse),
    ("$uuid", uuid::parse),
];

/// How the bytes of a hole are filled; every kind has a fixed width.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fill {
    /// The 12 bytes of the receipt.
    Receipt,
    /// The receipt's 24 hexadecimal digits.
    ReceiptText,
    /// The digits of an id as YCSB writes it.
    User,
    /// The stamp.
    Stamp,
    /// The document's number.
    Number,
    Sequence(sequence::Sequence),
    Int(Whole),
    Long(Whole),
    Double(double::Double),
    Decimal(Box<decimal::Decimal>),
    Bool(Odds),
    Choice(Box<pick::Choice>),
    /// A number in decimal digits, with leading zeros.
    Digits(Whole),
    Date(Box<date::Date>),
    Text,
    Bytes,
    Uuid,
}

impl Fill {
    /// Fills a hole, which is as wide as the kind asks for.
    #[inline]
    pub(crate) fn write(&self, draw: &Draw<'_>, hole: &mut [u8]) {
        match self {
            Self::Receipt => hole.copy_from_slice(&draw.identity.id),
            Self::ReceiptText => hole.copy_from_slice(&draw.identity.hex()),
            Self::User => hole.copy_from_slice(&crate::user::digits(draw.identity)),
            Self::Stamp => hole.copy_from_slice(&draw.identity.stamp.to_le_bytes()),
            Self::Number => hole.copy_from_slice(&draw.number.to_le_bytes()),
            Self::Sequence(sequence) => sequence.write(draw, hole),
            Self::Int(whole) => hole.copy_from_slice(&(whole.value(draw) as i32).to_le_bytes()),
            Self::Long(whole) => hole.copy_from_slice(&whole.value(draw).to_le_bytes()),
            Self::Double(double) => hole.copy_from_slice(&double.value(draw).to_le_bytes()),
            Self::Decimal(decimal) => hole.copy_from_slice(&decimal.value(draw)),
            Self::Bool(odds) => hole[0] = u8::from(odds.hit(draw.first())),
            Self::Choice(choice) => choice.write(draw, hole),
            Self::Digits(whole) => family::fill(whole.value(draw) as u64, hole),
            Self::Date(date) => hole.copy_from_slice(&date.value(draw).to_le_bytes()),
            Self::Text => text::fill(&mut draw.words(), hole),
            Self::Bytes => bytes::fill(&mut draw.words(), hole),
            Self::Uuid => uuid::fill(&mut draw.words(), hole),
        }
    }
}
