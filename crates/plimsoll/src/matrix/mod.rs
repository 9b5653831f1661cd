//! A matrix of runs: one scenario with different values, side by side.
//!
//! What is decided is pure ([`check`], [`choice`], [`cells`], [`venue`], [`share`], [`cost`], [`runs`],
//! [`machine`]); [`dir`] writes, and `commands::matrix` acts.

pub mod check;
pub mod choice;

pub mod cells;

pub mod venue;

pub mod share;

pub mod cost;
pub mod words;

pub mod runs;

pub mod machine;

pub mod dir;
