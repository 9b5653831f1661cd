//! Sinks that need nothing from outside.

mod noop;

pub use noop::Noop;
