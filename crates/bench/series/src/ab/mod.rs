//! Measures A and B in turns, and compares what was measured.
//!
//! Decisions are pure (`side`, `turns`, `equivalence`); [`gather`] reads, [`dir`] writes, [`drive`] acts.

pub mod drive;

mod child;
mod equivalence;
mod namespace_setup;
pub mod prepare;
mod refusal;
mod side;
mod turns;

pub mod comparing;
pub mod dir;
pub mod gather;
