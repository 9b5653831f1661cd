//! Two things held against each other: what was measured of them, and how they are measured in turns.
//!
//! What is decided is pure ([`side`], [`own`], [`turns`]); [`gather`] reads, [`dir`] writes, and `commands::compare` and
//! `commands::ab` act.

pub mod gather;

pub mod side;

pub mod own;

pub mod turns;

pub mod dir;
