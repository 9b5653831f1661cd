//! Defines the disturbances of a network.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

/// A fault of the network between the clients and the server. Times count from the moment at which a byte reaches the
/// proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Every byte, and the end of the stream, arrives later by `delay` plus a random share of `jitter`; the order is kept,
    /// and bytes travel side by side, so that a delay costs no throughput while no more than
    /// [`QUEUE_BYTES_MAX`](super::QUEUE_BYTES_MAX) are on their way.
    Delay {
        /// Which bytes.
        direction: Direction,
        /// How much later at least.
        delay: Duration,
        /// How much later on top of that at most.
        jitter: Duration,
    },
    /// No more than so many bytes a second pass, for each connection and direction by itself; at once pass no more than
    /// fit into 20 ms.
    Throttle {
        /// Which bytes.
        direction: Direction,
        /// How many a second.
        bytes_per_s: NonZeroU64,
    },
    /// Every open connection is closed in order (FIN) towards both sides, and new ones as soon as they are accepted.
    Cut,
    /// Every open connection is reset (RST) towards both sides, and new ones as soon as they are accepted.
    Reset,
    /// Bytes are read and swallowed, and so is the end of the stream: their receiver hears silence, their sender notices
    /// nothing; a connection that lost something so is cut as soon as it would have to go on.
    HalfOpen {
        /// Which bytes.
        direction: Direction,
    },
    /// Nothing is read and nothing is written: buffers fill up and then the senders wait; nothing is lost.
    Stall,
    /// Runs of bytes are cut out of the stream, which goes on with a hole: who reads it must find out by himself.
    DropBytes {
        /// Which bytes.
        direction: Direction,
        /// How many runs in 2²⁰ bytes that pass, on average; where is random.
        per_mebibyte: NonZeroU32,
        /// How many bytes a run has.
        bytes: NonZeroU32,
    },
}

/// Whose bytes a disturbance concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Both.
    Both,
}

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

impl Direction {
    pub(super) fn covers(self, way: Way) -> bool {
        match self {
            Direction::ToServer => way == Way::ToServer,
            Direction::ToClient => way == Way::ToClient,
            Direction::Both => true,
        }
    }
}

impl Disturbance {
    /// Whether this way is one that it concerns.
    pub(super) fn covers(self, way: Way) -> bool {
        match self {
            Disturbance::Delay { direction, .. }
            | Disturbance::Throttle { direction, .. }
            | Disturbance::HalfOpen { direction }
            | Disturbance::DropBytes { direction, .. } => direction.covers(way),
            Disturbance::Cut | Disturbance::Reset | Disturbance::Stall => true,
        }
    }
}
