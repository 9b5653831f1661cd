//! Dead letters as the events that they were, so that a pipeline whose fault is mended can take them again.
//!
//! A letter is read in its own partition of its own store, by which it is acknowledged; its batch names the partition that
//! the event was read from first, so a sink that knows events by their source knows it again.

mod letter;
mod line;

mod file;

mod again;
mod returned;

pub use again::{Again, Noting};
pub use file::Letters;
pub use letter::{Letter, NoLetter, Origin};
pub use returned::Returned;
