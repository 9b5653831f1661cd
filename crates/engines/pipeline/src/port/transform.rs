//! What happens to events on their way.

use std::sync::Arc;

use thiserror::Error;

use crate::event::Batch;
use crate::meter::Tally;

/// Why a transform cannot go on at all; what is wrong with one event condemns that event only.
#[derive(Debug, Error)]
pub enum TransformError {
    /// It cannot be built as it is described.
    #[error("{0}")]
    Refused(String),
    /// It failed for good on the way.
    #[error("the transform {name} failed: {reason}")]
    Failed {
        /// Its name in the pipeline.
        name: String,
        /// What it said.
        reason: String,
    },
}

/// Changes the events of a batch; each worker has its own.
///
/// An event that cannot be transformed is condemned with [`Batch::sift`], one that is not wanted dropped there.
pub trait Transform: Send {
    /// Changes the events of `batch`.
    ///
    /// # Errors
    ///
    /// If it cannot go on at all: the pipeline stops.
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

    /// Its name: a word for metrics and causes, the same for all workers.
    fn name(&self) -> &str;

    /// Whether it gives the same for the same events however they are cut into batches.
    fn repeatable(&self) -> bool {
        true
    }

    /// What its transforms count by themselves, all workers together.
    fn tally(&self) -> Option<Arc<dyn Tally>> {
        None
    }
}
