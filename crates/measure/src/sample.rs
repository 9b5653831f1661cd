//! One look at a server's counters, under names that do not depend on who made the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server's counters at one moment. Totals count since the server's start. What the server does not report is absent
/// and is never taken for zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSample {
    /// Nanoseconds since the run's start.
    pub at_ns: u64,
    /// How long the server took to answer, in nanoseconds.
    pub round_trip_ns: u64,
    /// Open client connections.
    pub connections: Option<u64>,
    /// Insert commands or documents, as this server counts them.
    pub inserts: Option<u64>,
    /// Queries.
    pub queries: Option<u64>,
    /// Updates.
    pub updates: Option<u64>,
    /// Deletes.
    pub deletes: Option<u64>,
    /// All other commands.
    pub commands: Option<u64>,
    /// Bytes received from clients.
    pub network_in_bytes: Option<u64>,
    /// Bytes sent to clients.
    pub network_out_bytes: Option<u64>,
    /// Bytes in the storage engine's cache.
    pub cache_bytes: Option<u64>,
    /// The cache's configured size in bytes.
    pub cache_bytes_max: Option<u64>,
    /// Dirty bytes in the cache.
    pub cache_dirty_bytes: Option<u64>,
    /// Pages evicted by threads that should serve clients.
    pub cache_application_evictions: Option<u64>,
    /// Write tickets in use.
    pub write_tickets_out: Option<u64>,
    /// Write tickets in all.
    pub write_tickets_max: Option<u64>,
    /// Checkpoints finished.
    pub checkpoints: Option<u64>,
    /// Duration of the last checkpoint in milliseconds.
    pub checkpoint_last_ms: Option<u64>,
    /// Whether a checkpoint runs right now.
    pub checkpoint_running: Option<bool>,
    /// Journal sync operations.
    pub journal_syncs: Option<u64>,
    /// Time spent in journal syncs, in microseconds.
    pub journal_sync_us: Option<u64>,
    /// Bytes written to the journal.
    pub journal_bytes: Option<u64>,
    /// Bytes that the storage engine wrote to disk.
    pub disk_written_bytes: Option<u64>,
    /// Time that flow control held writes back, in microseconds.
    pub flow_control_us: Option<u64>,
    /// CPU time of the server's process in nanoseconds; local servers only.
    pub cpu_ns: Option<u64>,
    /// Resident memory of the server's process in bytes; local servers only.
    pub rss_bytes: Option<u64>,
}

/// By how much a counter grew over all samples in order. One that falls was started anew with its server and counts from
/// zero again. Nothing where the server reports it less than twice.
pub fn growth(samples: &[ServerSample], counter: impl Fn(&ServerSample) -> Option<u64>) -> Option<u64> {
    let seen: Vec<u64> = samples.iter().filter_map(counter).collect();
    let step = |pair: &[u64]| if pair[1] >= pair[0] { pair[1] - pair[0] } else { pair[1] };
    (seen.len() > 1).then(|| seen.windows(2).map(step).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_starts_anew_goes_on_growing() {
        let sample = |queries| ServerSample { queries, ..ServerSample::default() };
        let samples = [Some(5), Some(9), None, Some(2), Some(3)].map(sample);
        assert_eq!(growth(&samples, |sample| sample.queries), Some(7));
        assert_eq!(growth(&samples[..1], |sample| sample.queries), None);
    }
}
