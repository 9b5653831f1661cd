//! Reads dead letters back as events, so that a repaired pipeline can process them again.
//!
//! A letter has a position in its own store, by which it is acknowledged. Its batch names the event's original partition, so a
//! sink that identifies events by their source recognises the event.

mod batcher;
mod file;
mod letter;
mod line;
mod repeated;

pub use batcher::LetterBatcher;
pub use file::DeadLetterFile;
pub use letter::{DeadLetter, NotADeadLetter, Origin};
pub use repeated::{RepeatRecorder, RepeatedLetters};
