//! Decides when an operation is due, sends it, times it, decides when to stop, and searches for the load line.
//!
//! In reading order: the settings ([`arrivals`], [`k6`], [`mix`], [`think`], [`stop`], [`rate_floor`],
//! [`retry`], [`phase`]), the ports to the system under load ([`target`], [`fault`]), time and tasks as a
//! parameter ([`runtime`]), one thread's work ([`worker`]), all threads ([`engine`]), several processes as
//! one ([`shards`]), the end of the warm-up ([`warm_up`]), the sums of a run ([`summary`]) and of a fault
//! ([`outage`]), the search ([`objective`], [`background_load`], [`search`], [`bottlenecks`], [`mod@line`]),
//! and the growth of throughput with concurrency ([`scalability`]).
//!
//! The crate must not know MongoDB, HTTP, files or the command line.

pub mod arrivals;
pub mod background_load;
pub mod bottlenecks;
pub mod due_second;
pub mod engine;
pub mod fault;
pub mod k6;
pub mod ladder;
pub mod line;
pub mod mix;
pub mod objective;
mod operation_queue;
pub mod outage;
pub mod phase;
pub mod rate_floor;
pub mod rate_watch;
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
pub mod target;
pub mod think;
pub mod warm_up;
pub mod worker;
