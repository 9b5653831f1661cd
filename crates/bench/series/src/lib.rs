//! Plans, executes, resumes and compares many runs: a suite of tests, a matrix of one scenario, A against B.
//!
//! The engine orders the runs ([`rounds`]), executes the missing ones ([`drive`]) and manages their directory ([`directory`]).
//! [`suite`], [`matrix`] and [`ab`] describe the variants and judge the results.

pub mod ab;
pub mod matrix;
pub mod suite;

pub mod drive;
pub mod dry_run;

pub mod directory;
pub mod rounds;
pub mod same_machine;

pub mod isolation;
pub mod server;

pub mod child;
pub mod cpus;
pub mod progress;
pub mod watch;
