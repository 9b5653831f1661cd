//! Where events come from: [`change_stream`], [`scan`], and once more [`letters`].

pub mod change_stream;

pub mod scan;

pub mod letters;

pub(crate) mod order;

mod token;
mod trouble;
