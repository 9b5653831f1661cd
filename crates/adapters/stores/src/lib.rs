//! Implements the pipeline's ports for MongoDB: sources, sinks, positions, and the audit of a destination.

pub mod scenario;

pub mod sink;
pub mod source;

pub mod audit;

pub mod document;
pub mod positions;
pub mod topics;

mod reply;
