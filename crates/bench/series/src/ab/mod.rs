//! Measures A and B in alternating pairs, and compares the runs.
//!
//! Decisions are pure (`side`, `plan`, `equivalence`); [`read_runs`] reads, and [`drive`] acts.

pub mod drive;

mod equivalence;
mod plan;
pub mod prepare;
mod refusal;
mod side;

pub mod comparing;
pub mod read_runs;
