//! Defines the traits that sources, transforms and sinks implement. Each file is one port and states the implementor's
//! obligations. The port of position stores is [`crate::position::PositionStore`].

pub mod sink;
pub mod source;
pub mod transform;
