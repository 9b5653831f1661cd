//! Sources that need nothing from outside.

mod file;
mod generator;
mod words;

pub(crate) mod opened;
pub(crate) mod seen;

pub use file::{File, FileSettings, Format};
pub use generator::{Generator, GeneratorSettings, Stop};
pub use words::WORDS;
