//! Provides built-in sources, without outside dependencies: a file, and a generator.

mod file;
pub(crate) mod fingerprint;
mod generator;
mod text;

pub(crate) mod resumable_file;

pub use file::{File, FileSettings, Format};
pub use generator::{Generator, GeneratorSettings, Stop};
pub use text::WORDS;
