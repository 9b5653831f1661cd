//! Moves events from sources through transforms to sinks with bounded memory and a stated delivery guarantee.
//!
//! Read in this order: partitions and positions ([`position`]), limits and assignments of events in flight ([`flow`]), batches
//! of events ([`event`]), the traits of sources, transforms and sinks ([`port`]), delivery guarantees ([`guarantee`]), the
//! threads ([`engine`]) and the counters ([`meter`]).

pub mod config;
pub mod engine;
pub mod event;
pub mod flow;
pub mod guarantee;
pub mod meter;
pub mod port;
pub mod position;
pub mod replay;
pub mod security;
pub mod sink;
pub mod source;
pub mod transform;

/// The name of the security stage. The meter counts its decisions separately.
pub const SECURITY: &str = "security";

pub use engine::{Control, Ended, Error, Executor, Parts, Pipeline, Settings};
pub use event::{Batch, Cause, CauseClass, Clock, Event, Fate, Headers, Record, Rejected, Span};
pub use flow::{Assignment, Assignments, Limits, Space};
pub use port::sink::{
    Failure, FailureClass, Identity, Order, Promise, Refused, Settled, Sink, SinkError, SinkFactory, Verdict,
};
pub use port::source::{Intake, Last, Read, Replay, Source, SourceError};
pub use port::transform::{Transform, TransformError, TransformFactory};
pub use position::{Claim, Partition, Position, PositionError, PositionStore};
