//! Makes a matrix of runs: one scenario with different values.
//!
//! Decisions are pure (`check`, [`choice`], [`cells`], [`run_estimate`], [`cost`], [`runs`]); [`dir`] writes, and [`drive`]
//! acts.

pub mod drive;
pub mod prepare;

mod environment;
mod shared;

pub mod cells;
mod check;
pub mod choice;
pub mod cost;
pub mod messages;
pub mod run_estimate;
pub mod runs;

pub mod dir;

pub use shared::clear;
