//! The program as a user has it, against real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod faults;
mod hosts;
mod inspect;
mod matrix;
mod operations;
mod program;
mod runs;
