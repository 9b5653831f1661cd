//! Defines the figures of a running pipeline: counters, events in flight, and times by stage.

mod counts;
mod produced;
mod second;

pub use counts::{Count, Counts, DeliveryClock};
pub use produced::{Produced, checksum};
pub use second::{FORMAT, Moved, Process, Second, Stage, Stream};
