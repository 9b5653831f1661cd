//! Parses the settings of the generators, one file each.

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
mod sequence;
mod text;
mod uuid;
mod whole;

use crate::parse::{Parse, same};

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
    ("$same", same::misplaced),
    ("$sequence", sequence::parse),
    ("$text", text::parse),
    ("$uuid", uuid::parse),
];
