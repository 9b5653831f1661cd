//! Sources that need nothing from outside.

mod generator;

pub use generator::{Generator, GeneratorSettings, Stop};
