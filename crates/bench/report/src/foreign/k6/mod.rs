//! Reads k6's summaries and samples, and writes our runs in its form.

mod assemble;
pub mod export;
mod groups;
mod legacy;
mod machine;
mod metric;
mod samples;
mod summary;
mod writer;

pub(super) use legacy::legacy;
pub(super) use machine::machine;
pub(super) use samples::samples;
pub(super) use summary::summary;
