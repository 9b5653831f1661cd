//! Runs a pipeline: one thread per source, one per worker. Threads share only counters and the budget of events in flight.

mod batch_pool;
mod check;
mod circuit;
mod control;
mod dead_letter_window;
mod dead_letters;
mod dispatch;
mod parts;
mod reader;
mod retry;
mod run;
mod shared;
mod worker;

pub use circuit::{Circuit, Permit};
pub use control::Control;
pub use dead_letter_window::DeadLetterLimit;
pub use parts::Parts;
pub use retry::{Exhausted, Retry};
pub use run::{Ended, Pipeline};
pub use shared::{Error, Executor, Settings};
