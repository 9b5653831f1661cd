//! Decides when an operation is due, sends it, times it, decides when to stop, and searches for the load line.
//!
//! In reading order: what is asked for ([`arrivals`], [`k6`], [`mix`], [`think`], [`stop`], [`reach`], [`retry`],
//! [`phase`]), the ports to the thing
//! under load ([`target`], [`fault`]), time and tasks as a parameter ([`runtime`]), one thread's work ([`worker`]), all
//! threads ([`engine`]), several processes as one ([`shards`]), where the steady state starts ([`warm_up`]), what a run
//! adds up to ([`summary`]) and what a fault did to it ([`outage`]), the search ([`objective`], [`beside`], [`search`], [`suspects`], [`mod@line`]), and how
//! throughput grows with concurrency ([`scalability`]).
//!
//! It must not know MongoDB, HTTP, files or the command line.

pub mod arrivals;
pub mod beside;
pub mod engine;
pub mod fault;
mod feed;
pub mod k6;
pub mod ladder;
pub mod line;
pub mod mix;
pub mod objective;
pub mod outage;
pub mod phase;
pub mod reach;
pub mod retry;
pub mod runtime;
pub mod scalability;
mod schedule;
pub mod search;
pub mod second;
pub mod shards;
mod shift;
pub mod stop;
pub mod summary;
pub mod suspects;
pub mod target;
pub mod think;
pub mod warm_up;
pub mod worker;
