//! What moves through a pipeline: batches of events, by ownership.

mod batch;
mod cause;
mod headers;
mod record;
mod span;

pub use batch::{Batch, Fate};
pub use cause::{Cause, CauseClass, Condemned, header};
pub use headers::Headers;
pub use record::{Event, Record};
pub use span::Span;
