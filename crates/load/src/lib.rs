//! Decides when an operation is due, sends it, times it, decides when to stop, and searches for the load line.
//!
//! In reading order: what is asked for ([`arrivals`], [`mix`], [`stop`], [`phase`]), the port to the thing under load
//! ([`target`]), time and tasks as a parameter ([`runtime`]), one thread's work ([`worker`]), all threads ([`engine`]),
//! where the steady state starts ([`warm_up`]), what a run adds up to ([`summary`]), and the search ([`objective`], [`search`], [`suspects`], [`mod@line`]).
//!
//! It must not know MongoDB, HTTP, files or the command line.

pub mod arrivals;
pub mod engine;
mod feed;
pub mod line;
pub mod mix;
pub mod objective;
pub mod phase;
pub mod runtime;
pub mod search;
pub mod stop;
pub mod summary;
pub mod suspects;
pub mod target;
pub mod warm_up;
pub mod worker;
