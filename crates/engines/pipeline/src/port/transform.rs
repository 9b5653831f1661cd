//! Defines the port of transforms.

use std::sync::Arc;

use thiserror::Error;

use crate::event::Batch;
use crate::meter::Tally;

/// The failure of a transform. A problem with one event only rejects that event.
#[derive(Debug, Error)]
pub enum TransformError {
    /// The settings are invalid.
    #[error("{0}")]
    Refused(String),
    /// The transform failed permanently.
    #[error("the transform {name} failed: {reason}")]
    Failed {
        /// Its name in the pipeline.
        name: String,
        /// Its reason.
        reason: String,
    },
}

/// Changes the events of a batch. Each worker has its own.
///
/// [`Batch::sift`] rejects events that cannot be transformed, and drops unwanted ones.
pub trait Transform: Send {
    /// Changes the events of `batch`.
    ///
    /// # Errors
    ///
    /// If it cannot continue: the pipeline stops.
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError>;
}

/// Makes a transform for each worker.
pub trait TransformFactory: Send + Sync {
    /// The transform of one worker.
    ///
    /// # Errors
    ///
    /// If it cannot be built.
    fn build(&self, worker: usize) -> Result<Box<dyn Transform>, TransformError>;

    /// The name of its transforms in metrics and causes.
    fn name(&self) -> &str;

    /// Whether the result for the same events is independent of their division into batches.
    fn repeatable(&self) -> bool {
        true
    }

    /// The counters that its transforms keep themselves, summed over all workers.
    fn tally(&self) -> Option<Arc<dyn Tally>> {
        None
    }
}
