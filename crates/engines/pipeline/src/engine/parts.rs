//! Defines the parts of a pipeline.

use std::sync::Arc;

use crate::port::sink::SinkFactory;
use crate::port::source::Source;
use crate::port::transform::TransformFactory;
use crate::position::PositionStore;

/// The parts of a pipeline.
pub struct Parts {
    /// The sources. Each has its own thread.
    pub sources: Vec<Box<dyn Source>>,
    /// The transforms, in the order in which they apply. A security stage comes first.
    pub transforms: Vec<Box<dyn TransformFactory>>,
    /// The sink of the events.
    pub sink: Box<dyn SinkFactory>,
    /// The sink of the dead letters.
    pub dead_letters: Option<Box<dyn SinkFactory>>,
    /// The store of positions, for sources that keep none themselves.
    pub positions: Option<Arc<dyn PositionStore>>,
}

/// The factories from which each worker gets its transforms and sinks.
pub(super) struct Factories {
    pub(super) transforms: Vec<Box<dyn TransformFactory>>,
    pub(super) sink: Box<dyn SinkFactory>,
    pub(super) dead_letters: Option<Box<dyn SinkFactory>>,
}
