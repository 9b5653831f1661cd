//! Makes a suite: tests from a table, each run in its own process.
//!
//! Decisions are pure ([`typed`], [`resolve`], [`schedule`], [`judge`]); [`kind`] defines the kinds of tests, [`results`] writes
//! their results, and [`drive`] acts.

pub mod columns;
pub mod fill;
pub mod table;
pub mod typed;

pub mod read;

pub mod kind;
pub mod resolve;
pub mod topics;

pub mod judge;
pub mod schedule;

pub mod results;

#[cfg(feature = "kafka")]
pub mod broker;
#[cfg(not(feature = "kafka"))]
#[path = "no_broker.rs"]
pub mod broker;
pub mod environment;

pub mod drive;
pub mod dry_run;
pub mod prepare;
