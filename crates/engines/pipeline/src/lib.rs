//! Moves events from sources through transforms to sinks with bounded memory and a stated delivery guarantee.
//!
//! Read in this order: what moves ([`event`]), where it comes from ([`place`]), what is on its way ([`flow`]), what the
//! outside must offer ([`port`]), what a pipeline may promise ([`guarantee`]), how it runs ([`engine`]) and what it tells
//! ([`meter`]).

pub mod engine;
pub mod event;
pub mod flow;
pub mod guarantee;
pub mod meter;
pub mod place;
pub mod port;
pub mod positions;
pub mod replay;
pub mod security;
pub mod sink;
pub mod source;
pub mod transform;
pub mod typed;

/// The name of the security stage: what it does is counted apart.
pub const SECURITY: &str = "security";

pub use engine::{Control, Ended, Error, Executor, Parts, Pipeline, Settings};
pub use event::{Batch, Cause, CauseClass, Condemned, Event, Fate, Headers, Record, Span};
pub use flow::{Lane, Lanes, Limits, Space};
pub use place::{Partition, Position};
pub use port::positions::{Claim, PositionError, PositionStore};
pub use port::sink::{
    Failure, FailureClass, Identity, Order, Promise, Refused, Settled, Sink, SinkError, SinkFactory, Verdict,
};
pub use port::source::{Intake, Last, Read, Replay, Source, SourceError};
pub use port::transform::{Transform, TransformError, TransformFactory};
