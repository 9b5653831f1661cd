//! A suite: tests from a table, one after the other, each a process of its own.
//!
//! What is decided is pure ([`typed`], [`resolve`], [`schedule`], [`watch`]); [`kind`] says what a test of each kind is,
//! [`results`] and [`dir`] write down what came of it, and [`drive`] acts.

pub mod columns;
pub mod fill;
pub mod table;
pub mod typed;

pub mod read;

pub mod cpus;
pub mod kind;
pub mod resolve;
pub mod topics;

pub mod judge;
pub mod schedule;
pub mod watch;

pub mod results;

pub mod dir;

#[cfg(feature = "kafka")]
pub mod broker;
#[cfg(not(feature = "kafka"))]
#[path = "no_broker.rs"]
pub mod broker;
pub mod child;
pub mod environment;
pub mod host;

pub mod collection_policy;
pub mod progress;

pub mod drive;
