//! Reads k6's summaries and samples, and writes our runs in k6's forms.

mod assemble;
pub mod export;
mod metric;
mod samples;
mod summaries;
mod writer;

pub(super) use samples::samples;
pub(super) use summaries::{legacy, machine, summary};
