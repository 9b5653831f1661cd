//! Walks, checks and appends the elements of BSON documents, without allocating and without trusting a length.
//!
//! In reading order: the walk of one level ([`Elements`], [`Element`], [`valid`], [`find`]), the check of all levels
//! ([`check`], [`check_each`]), the type bytes ([`kind`]), the appending of elements ([`append`]), and the numbers of JSON text
//! that no element can hold ([`json`]). The layout is that of <https://bsonspec.org/spec.html>, version 1.1.

pub mod append;
pub mod json;
pub mod kind;

mod check;
mod walk;

pub use check::{DEPTH_MAX, Damaged, check, check_each};
pub use walk::{Damage, Element, Elements, document, find, int32, valid};
