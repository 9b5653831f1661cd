//! Reads a scenario file and builds the plan that a run follows.

pub mod derive;
pub mod from_options;
mod operation;
pub mod plan;
pub mod secret;
mod typed;

pub use operation::Operation;
pub use plan::Plan;
pub use typed::*;
