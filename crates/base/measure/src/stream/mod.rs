//! Defines the figures of a running pipeline: counters, events in flight, and times by stage.

mod counts;
mod second;

pub use counts::{Count, Counts, DeliveryClock};
pub use second::{FORMAT, Moved, Process, Second, Stage, Stream};
