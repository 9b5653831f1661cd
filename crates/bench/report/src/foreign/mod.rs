//! Reads results of other tools, and writes ours in their form.
//!
//! [`read`] turns the output of k6, wrk, wrk2, YCSB and oha into a [`Foreign`]. [`summary`] renders it for a terminal.
//! [`k6::export`] writes a run of ours in k6's form. A result of another tool is never a [`Run`](plimsoll_measure::run::Run),
//! because it lacks due times, a ledger, and the cost of the tool. It often counts latencies from another moment: see
//! [`Since`].

mod distribution;
mod error;
pub mod k6;
mod lines;
mod oha;
mod read;
mod summary;
mod tables;
mod value;
mod wrk;
mod ycsb;

pub use distribution::{Distribution, Percentile, Source};
pub use error::Error;
pub use read::read;
pub use summary::summary;
pub use value::{
    Check, FORMAT, Foreign, Form, Metric, Of, Operation, Second, SecondLine, Since, Threshold, Times, Tool,
    Unit, Values,
};
