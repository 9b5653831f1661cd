//! Implements the pipeline's ports for MongoDB (sources, sinks, positions, the audit of a destination), and the workflow engine's store.

pub mod scenario;

pub mod sink;
pub mod source;

pub mod audit;

pub mod document;
pub mod positions;
pub mod topics;

#[cfg(feature = "workflow")]
pub mod workflow;

mod reply;
