//! What a pipeline tells while it runs: counters, what is in flight, and times by stage.

mod counts;
mod second;

pub use counts::{Count, Counts};
pub use second::{FORMAT, Moved, Process, Second, Stage, Stream};
