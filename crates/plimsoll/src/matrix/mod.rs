//! A matrix of runs: one scenario with different values, side by side on one server.
//!
//! What is decided is pure ([`check`], [`choice`], [`cells`], [`cost`], [`runs`]); [`dir`] writes, and
//! `commands::matrix` acts.

pub mod check;
pub mod choice;

pub mod cells;

pub mod cost;
pub mod words;

pub mod runs;

pub mod dir;
