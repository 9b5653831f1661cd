//! Where events come from: [`change_stream`], [`scan`].

pub mod change_stream;

pub mod scan;

pub(crate) mod order;
