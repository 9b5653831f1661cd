//! Reads results of other tools, and writes ours in their form.
//!
//! [`read`] recognises what k6, wrk, wrk2, YCSB and oha write and turns it into a [`Foreign`]; [`summary`] says it in a
//! terminal; [`k6::export`] writes a run of ours as k6 would have. A result of another tool is never a
//! [`Run`](plimsoll_measure::run::Run): it lacks what makes one (the due times, the books, the ruler's own cost), and
//! above all it often counts latencies from another moment. [`Since`] says from which.

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
