//! MongoDB behind the pipeline's ports: sources, sinks, positions and the audit of a destination.

pub mod scenario;

pub mod sink;
pub mod source;

pub mod audit;

pub mod concern;
pub mod document;
pub mod namespace;
pub mod positions;
pub mod site;
pub mod topics;

mod control;
mod encode;
mod walk;
