//! Provides built-in sinks, without outside dependencies: a file, and a sink that discards every event.

mod file;
mod form;
mod noop;
mod tail_recovery;

pub use file::{FileSink, FileSinkSettings};
pub use form::Form;
pub use noop::Noop;
