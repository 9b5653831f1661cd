//! Runs a pipeline: a thread a source, a thread a worker, and nothing shared but counters and what is in flight.

mod burial;
mod chance;
mod check;
mod circuit;
mod control;
mod dispatch;
mod reader;
mod retry;
mod run;
mod shared;
mod spares;
mod window;
mod worker;

pub use circuit::{Circuit, Permit};
pub use control::Control;
pub use retry::{Exhausted, Retry};
pub use run::{Ended, Parts, Pipeline};
pub use shared::{Error, Executor, Settings};
pub use window::DeadLetterLimit;
