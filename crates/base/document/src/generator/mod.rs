//! Parses the settings of the generators.

mod composite;
mod fixed;
mod number;
mod text;

use crate::parse::{Parse, same};

/// Every generator except `$same`, which reuses another value.
pub(crate) const GENERATORS: [(&str, Parse); 18] = [
    ("$array", composite::array),
    ("$bool", fixed::bool),
    ("$bytes", fixed::bytes),
    ("$date", fixed::date),
    ("$decimal", number::decimal),
    ("$double", number::double),
    ("$family", text::family),
    ("$int", number::int),
    ("$long", number::long),
    ("$number", number::number),
    ("$object_id", fixed::object_id),
    ("$optional", composite::optional),
    ("$pad", text::pad),
    ("$pick", composite::pick),
    ("$same", same::misplaced),
    ("$sequence", number::sequence),
    ("$text", text::text),
    ("$uuid", fixed::uuid),
];
