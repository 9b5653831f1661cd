//! Sinks that need nothing from outside.

mod file;
mod noop;
mod torn;

pub use file::{FileSink, FileSinkSettings, Form};
pub use noop::Noop;
