//! Inserts, updates and deletes in batches on the hot path, with an outcome for every document.

pub use batch::WriteBatch;
pub use reply::{WriteFailure, WriteReply};
pub use spec::{W, WriteConcern, WriteKind, WriteSpec};

mod spec;

mod batch;
pub(crate) mod send;

pub(crate) mod classify;
mod reply;
mod write_error;
