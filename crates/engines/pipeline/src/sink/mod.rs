//! Built-in sinks, without outside dependencies: a file, and a sink that discards everything.

mod file;
mod form;
mod noop;
mod tail_recovery;

pub use file::{FileSink, FileSinkSettings};
pub use form::Form;
pub use noop::Noop;
