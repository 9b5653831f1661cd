//! Two things held against each other: what was measured of them, and how they are measured in turns.
//!
//! What is decided is pure ([`side`], [`own`], [`turns`]); [`same`] and [`gather`] read, [`dir`] writes, and `commands::compare` and
//! `commands::ab` act.

pub mod gather;

pub mod side;

pub mod same;

pub mod own;

pub mod turns;

pub mod dir;
