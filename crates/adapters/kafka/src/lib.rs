//! Implements the pipeline's ports for Kafka: a source, sinks, topics, and a broker for tests and trials.
//!
//! Read in this order: what a scenario may say ([`scenario`]), how a cluster is reached ([`Cluster`]), then the edges
//! themselves. Everything blocks. It must never learn what another source or sink is.

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
