//! Stores of positions that need nothing from outside.

mod file;

pub use file::FilePositions;
