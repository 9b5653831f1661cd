//! Turns a run into text, a page or k6's form, and the results of k6, wrk, YCSB and oha into values it can show beside them.
//!
//! Pure functions from what was measured to what a person reads. It knows no engine, no socket, no clock and no
//! file: the binary hands it values and writes down what it says.

mod chart;
pub mod comparison;
pub mod conclusions;
mod expectation;
pub mod foreign;
pub mod history;
pub mod inspection;
pub mod live;
pub mod matrix;
pub mod page;
mod prose;
pub mod stream;
pub mod suite;
mod tables;
pub mod text;
pub mod units;

pub use conclusions::conclusions;
pub use live::Live;
pub use page::page;
pub use text::summary;
