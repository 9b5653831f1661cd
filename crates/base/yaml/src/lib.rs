//! Reads YAML that users write, and reports each slip: the fault, its place, and the text to write.

mod read;

mod cause;
mod excerpt;
mod fault;
mod file;
mod library;
mod path;
mod syntax;
mod types;

pub use cause::Place;
pub use fault::{Fault, in_our_words, nearest};
pub use file::{FileError, text_of};
pub use path::{key_of_end, place_of, place_of_oversize_number, place_of_word};
pub use read::{Slip, document, value};
