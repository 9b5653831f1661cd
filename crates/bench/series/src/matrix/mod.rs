//! Makes a matrix of runs: one scenario with varied values.
//!
//! Decisions are pure (`check`, [`choice`], [`cells`], [`run_estimate`], [`cost`], [`runs`]); [`drive`] acts.

pub mod drive;
pub mod prepare;

mod environment;

pub mod cells;
mod check;
pub mod choice;
pub mod cost;
pub mod messages;
pub mod run_estimate;
pub mod runs;
