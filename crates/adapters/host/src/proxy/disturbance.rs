//! Defines the disturbances of a network.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fault of the network between the clients and the server. Times count from the moment at which a byte reaches the
/// proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Delays every byte, and the end of the stream, by `delay` plus a random share of `jitter`. The order is
    /// kept. Bytes travel in parallel, so a delay costs no throughput until
    /// [`QUEUE_BYTES_MAX`](super::QUEUE_BYTES_MAX) are in transit.
    Delay {
        /// The direction of the delayed bytes.
        direction: Direction,
        /// The smallest delay.
        delay: Duration,
        /// The largest random addition to the delay.
        jitter: Duration,
    },
    /// Limits the bytes a second, for each connection and direction separately. A burst is at most 20 ms
    /// long.
    Throttle {
        /// The direction of the limited bytes.
        direction: Direction,
        /// The bytes a second.
        bytes_per_s: NonZeroU64,
    },
    /// Closes every open connection gracefully (FIN) on both sides, and new connections as soon as they are
    /// accepted.
    Cut,
    /// Resets every open connection (RST) towards both sides, and new connections as soon as they are
    /// accepted.
    Reset,
    /// Reads and swallows bytes, and the end of the stream. The receiver gets nothing; the sender notices
    /// nothing. A connection that lost bytes is cut when the disturbance ends.
    HalfOpen {
        /// The direction of the swallowed bytes.
        direction: Direction,
    },
    /// Neither reads nor writes: buffers fill up, then the senders wait. Nothing is lost.
    Stall,
    /// Drops runs of bytes from the stream, which continues after the gap. The receiver must detect the loss
    /// itself.
    DropBytes {
        /// The direction of the dropped bytes.
        direction: Direction,
        /// The average number of runs in 2²⁰ passing bytes, at random positions.
        per_mebibyte: NonZeroU32,
        /// The number of bytes in a run.
        bytes: NonZeroU32,
    },
}

/// The direction of the bytes that a disturbance affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Both directions.
    #[default]
    Both,
}

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OneWay {
    ToServer,
    ToClient,
}

impl Direction {
    pub(super) fn covers(self, way: OneWay) -> bool {
        match self {
            Direction::ToServer => way == OneWay::ToServer,
            Direction::ToClient => way == OneWay::ToClient,
            Direction::Both => true,
        }
    }
}

impl Disturbance {
    /// Whether the disturbance affects a direction.
    pub(super) fn covers(self, way: OneWay) -> bool {
        match self {
            Disturbance::Delay { direction, .. }
            | Disturbance::Throttle { direction, .. }
            | Disturbance::HalfOpen { direction }
            | Disturbance::DropBytes { direction, .. } => direction.covers(way),
            Disturbance::Cut | Disturbance::Reset | Disturbance::Stall => true,
        }
    }
}
