//! Sinks that need nothing from outside.

mod file;
mod form;
mod noop;
mod torn;

pub use file::{FileSink, FileSinkSettings};
pub use form::Form;
pub use noop::Noop;
