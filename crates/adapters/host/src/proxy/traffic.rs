//! Counts the connections and bytes of a proxy.

use std::sync::atomic::{AtomicU64, Ordering};

use super::disturbance::OneWay;

/// The counters of a proxy. Every byte read is delivered, dropped, or still queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that clients opened.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections that were refused: the server was unreachable, or the limit was reached.
    pub refused: u64,
    /// Connections that the proxy ended because of a disturbance.
    pub cut: u64,
    /// Bytes delivered to the server.
    pub to_server_bytes: u64,
    /// Bytes delivered to clients.
    pub to_client_bytes: u64,
    /// Bytes read from one side and never delivered to the other.
    pub dropped_bytes: u64,
}

/// The counters behind [`Traffic`]. Only the proxy's thread updates them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) accepted: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) cut: AtomicU64,
    to_server_bytes: AtomicU64,
    to_client_bytes: AtomicU64,
    dropped_bytes: AtomicU64,
}

impl Tally {
    pub(super) fn delivered(&self, way: OneWay, bytes: usize) {
        match way {
            OneWay::ToServer => add(&self.to_server_bytes, bytes),
            OneWay::ToClient => add(&self.to_client_bytes, bytes),
        }
    }

    pub(super) fn dropped(&self, bytes: usize) {
        add(&self.dropped_bytes, bytes);
    }

    pub(super) fn traffic(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            accepted: read(&self.accepted),
            open: read(&self.open),
            refused: read(&self.refused),
            cut: read(&self.cut),
            to_server_bytes: read(&self.to_server_bytes),
            to_client_bytes: read(&self.to_client_bytes),
            dropped_bytes: read(&self.dropped_bytes),
        }
    }
}

/// Adds one to a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn add(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::Relaxed);
}
