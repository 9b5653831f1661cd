//! The program as a user has it, against real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod compare;
mod concepts;
mod crash;
mod dashboard;
mod faults;
mod foreign;
mod hosts;
mod http;
mod http_ab;
mod http_matrix;
mod inspect;
mod matrix;
mod merge;
mod operations;
mod pipeline;
mod program;
mod runs;
mod serve;
mod service;
mod stream;
mod suite;
mod told;
