//! Sources that need nothing from outside.

mod file;
mod generator;

pub use file::{File, FileSettings, Format};
pub use generator::{Generator, GeneratorSettings, Stop};
