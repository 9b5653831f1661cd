//! What moves through a pipeline: batches of events, by ownership.

mod batch;
mod cause;
mod headers;
mod span;

pub use batch::{Batch, Event, Fate, Record};
pub use cause::{Cause, CauseClass, Condemned, header};
pub use headers::Headers;
pub use span::Span;
