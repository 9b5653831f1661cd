//! A suite: tests from a table, one after the other, each a process of its own.
//!
//! What is decided is pure ([`typed`], [`meant`], [`schedule`], [`watch`]); [`kind`] says what a test of each kind is,
//! [`results`] and [`dir`] write down what came of it, and [`drive`] acts.

pub mod table;
pub mod typed;

pub mod read;

pub mod cpus;
pub mod kind;
pub mod meant;

pub mod judge;
pub mod schedule;
pub mod watch;

pub mod results;

pub mod dir;

pub mod child;
pub mod host;
pub mod hosted_as;
pub mod progress;
pub mod room;

pub mod drive;
