//! Counts the writes of insert sinks as reported by the server.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_pipeline::meter::{Count, Tally};
use plimsoll_wire::WriteReply;

/// The writes and flushes of all workers' insert sinks together.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    writes: AtomicU64,
    flushes: AtomicU64,
}

impl Writes {
    /// Adds the reply to a batch's commands.
    pub fn add(&self, reply: &WriteReply) {
        self.writes.fetch_add(reply.n, Ordering::Relaxed);
        self.flushes.fetch_add(reply.commands.into(), Ordering::Relaxed);
    }
}

impl Tally for Writes {
    fn of(&self, count: Count) -> u64 {
        match count {
            Count::InsertWrites => self.writes.load(Ordering::Relaxed),
            Count::InsertFlushes => self.flushes.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}
