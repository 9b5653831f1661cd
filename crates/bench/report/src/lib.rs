//! Renders a run as text, as a page or in k6's form, and reads results of k6, wrk, YCSB and oha.
//!
//! Pure functions from measured values to text. It knows no engine, socket, clock or file: the binary passes values in
//! and writes the results.

mod chart;
pub mod comparison;
pub mod conclusions;
mod derived;
mod expectation;
pub mod foreign;
pub mod history;
pub mod inspection;
mod layout;
pub mod listing;
pub mod live;
pub mod matrix;
pub mod page;
mod prose;
pub mod runs;
pub mod stream;
pub mod suite;
mod tables;
pub mod text;
pub mod units;

pub use conclusions::conclusions;
pub use live::Live;
pub use page::page;
pub use text::summary;
