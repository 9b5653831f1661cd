//! Converts events to documents: their `_id`s ([`identity`]) and their content ([`form`]).

pub(crate) mod fields;
pub mod form;
pub mod identity;
mod json;
pub(crate) mod name;
