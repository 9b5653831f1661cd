//! The program as a user has it, against real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod compare;
mod crash;
mod faults;
mod foreign;
mod hosts;
mod http;
mod inspect;
mod matrix;
mod operations;
mod program;
mod runs;
mod serve;
mod service;
