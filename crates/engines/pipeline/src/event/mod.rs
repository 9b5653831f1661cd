//! Represents events and the batches in which they move through a pipeline.

mod batch;
mod cause;
mod headers;
mod record;
mod span;

pub use batch::{Batch, Fate};
pub use cause::{Cause, CauseClass, Rejected, header};
pub use headers::Headers;
pub use record::{Clock, Event, Record};
pub use span::Span;
