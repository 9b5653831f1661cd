//! Implements the pipeline's ports for Kafka: a source, sinks, topics, and a broker for tests and trials.
//!
//! Read in this order: the keys of a scenario ([`scenario`]), the connection to a cluster ([`Cluster`]), then
//! sources and sinks. All functions block. The crate must not know other sources or sinks.

pub mod scenario;

pub use cluster::Cluster;
pub use error::Error;

pub use membership::Membership;
pub use source::{Letters, Topic as Source};

pub mod exactly_once;
pub mod sink;

pub mod group;
pub mod topic;
pub mod topic_scan;

pub mod bench;
pub mod broker;

mod backoff;
mod cluster;
mod dead_letter;
mod error;
mod membership;
mod metadata_client;
mod source;
