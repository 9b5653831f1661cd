//! Adds vectors to the events of a pipeline.

mod apply;
mod section;
mod text_location;

pub use apply::Factory;
pub use section::{BuildError, Payload, Section};
