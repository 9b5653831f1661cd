//! Defines a sample of a server's counters, under names that do not depend on the product.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::MILLISECOND_NS;

/// A server's counters at one moment. Totals count from the server's start. Counters that the server does not report
/// are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSample {
    /// Nanoseconds since the run's start.
    pub at_ns: u64,
    /// The time until the server's answer to a ping, in nanoseconds.
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
    /// Pages evicted by application threads; newer servers count the attempts.
    pub cache_application_evictions: Option<u64>,
    /// Time that application threads spent reading pages from disk, in microseconds, summed over threads.
    pub cache_application_read_us: Option<u64>,
    /// Time that application threads spent writing pages to disk, in microseconds, summed over threads.
    pub cache_application_write_us: Option<u64>,
    /// Time that application threads waited for room in the cache, in microseconds, summed over threads.
    pub cache_application_wait_us: Option<u64>,
    /// Bytes read into the cache.
    pub cache_read_bytes: Option<u64>,
    /// Bytes written from the cache.
    pub cache_written_bytes: Option<u64>,
    /// Read tickets in use.
    pub read_tickets_out: Option<u64>,
    /// Read tickets in all.
    pub read_tickets_max: Option<u64>,
    /// Operations that wait for a read ticket.
    pub read_tickets_waiting: Option<u64>,
    /// Write tickets in use.
    pub write_tickets_out: Option<u64>,
    /// Write tickets in all.
    pub write_tickets_max: Option<u64>,
    /// Operations that wait for a write ticket.
    pub write_tickets_waiting: Option<u64>,
    /// Updates that met a change of the same document by another transaction, and were rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_conflicts: Option<u64>,
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
    /// Bytes that the storage engine read from disk.
    pub disk_read_bytes: Option<u64>,
    /// Time that flow control held writes back, in microseconds.
    pub flow_control_us: Option<u64>,
    /// Time that flow control was engaged because the majority lagged, in microseconds.
    pub flow_control_lagged_us: Option<u64>,
    /// The lag of the majority's last write behind the primary's, in milliseconds. Servers count whole seconds. The lag of a
    /// single secondary is unknown: only `replSetGetStatus` reports it.
    pub replication_lag_ms: Option<u64>,
    /// CPU time of the server's process in nanoseconds; local servers only.
    pub cpu_ns: Option<u64>,
    /// Resident memory of the server's process in bytes; local servers only.
    pub rss_bytes: Option<u64>,
    /// Bytes that the server's process read from a disk; local servers only.
    pub process_read_bytes: Option<u64>,
    /// Bytes that the server's process wrote to a disk; local servers only.
    pub process_written_bytes: Option<u64>,
    /// Time that the disk below the server's storage was busy, for any process, in milliseconds; local servers only.
    pub disk_busy_ms: Option<u64>,
}

/// The growth of a counter over all samples in order. A counter that falls was reset by a restart of the server and counts from
/// zero again. Nothing if the server reports it less than twice.
pub fn growth(samples: &[ServerSample], counter: impl Fn(&ServerSample) -> Option<u64>) -> Option<u64> {
    let seen: Vec<u64> = samples.iter().filter_map(counter).collect();
    let step = |pair: &[u64]| if pair[1] >= pair[0] { pair[1] - pair[0] } else { pair[1] };
    (seen.len() > 1).then(|| seen.windows(2).map(step).sum())
}

/// A checkpoint of the storage engine as samples show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Nanoseconds from the run's start to its start.
    pub from_ns: u64,
    /// Nanoseconds from the run's start to its end: the sample that found it finished, or the last sample.
    pub to_ns: u64,
    /// The length by the server's own clock, in milliseconds; absent while it runs.
    pub took_ms: Option<u64>,
}

/// The checkpoints in `samples`, which are in order. A checkpoint between two samples is placed at the later one. If several
/// checkpoints are between two samples, only the last one shows.
///
/// WiredTiger counts a checkpoint a moment before its end: a sample may show it as counted, still running, and with the length
/// of the previous checkpoint. The checkpoint ends at the sample that shows it as no longer running, or with its own length.
pub fn checkpoints(samples: &[ServerSample]) -> Vec<Checkpoint> {
    let mut found = Vec::new();
    let mut running_since = None;
    // The sample before the first one that counts a checkpoint which still runs.
    let mut counted_early: Option<&ServerSample> = None;
    for (before, sample) in samples.iter().zip(samples.iter().skip(1)) {
        if before.checkpoint_running == Some(true) {
            running_since.get_or_insert(before.at_ns);
        }
        let counted = before.checkpoints.zip(sample.checkpoints).is_some_and(|(before, now)| now > before);
        let is_over =
            sample.checkpoint_running != Some(true) || before.checkpoint_last_ms != sample.checkpoint_last_ms;
        match (counted || counted_early.is_some(), is_over) {
            (true, true) => {
                found.push(finished(counted_early.take().unwrap_or(before), sample, running_since.take()));
            }
            (true, false) => drop(counted_early.get_or_insert(before)),
            (false, _) => {}
        }
        if sample.checkpoint_running == Some(false) {
            running_since = None;
        }
    }
    let last = samples.last().filter(|sample| sample.checkpoint_running == Some(true));
    found.extend(last.map(|last| Checkpoint {
        from_ns: running_since.unwrap_or(last.at_ns),
        to_ns: last.at_ns,
        took_ms: None,
    }));
    found
}

/// A checkpoint that ended between two samples.
fn finished(before: &ServerSample, after: &ServerSample, running_since: Option<u64>) -> Checkpoint {
    let took_ms = after.checkpoint_last_ms;
    let by_clock = took_ms.map(|ms| after.at_ns.saturating_sub(ms * MILLISECOND_NS));
    let from_ns = by_clock.unwrap_or(before.at_ns).min(running_since.unwrap_or(u64::MAX));
    Checkpoint { from_ns, to_ns: after.at_ns, took_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_counter_continues_to_grow() {
        let sample = |queries| ServerSample { queries, ..ServerSample::default() };
        let samples = [Some(5), Some(9), None, Some(2), Some(3)].map(sample);
        assert_eq!(growth(&samples, |sample| sample.queries), Some(7));
        assert_eq!(growth(&samples[..1], |sample| sample.queries), None);
    }
    fn look(second: u64, checkpoints: u64, running: bool, last_ms: u64) -> ServerSample {
        ServerSample {
            at_ns: second * 1_000_000_000,
            checkpoints: Some(checkpoints),
            checkpoint_running: Some(running),
            checkpoint_last_ms: Some(last_ms),
            ..ServerSample::default()
        }
    }

    #[test]
    fn a_checkpoint_between_two_samples_has_the_length_that_the_server_reports() {
        let samples = [look(1, 4, false, 90), look(2, 5, false, 250), look(3, 5, false, 250)];
        let found = Checkpoint { from_ns: 1_750_000_000, to_ns: 2_000_000_000, took_ms: Some(250) };
        assert_eq!(checkpoints(&samples), [found]);
    }

    #[test]
    fn a_running_checkpoint_starts_at_its_first_sample_and_has_no_length_yet() {
        let samples = [
            look(1, 4, true, 90),
            look(2, 4, true, 90),
            look(3, 5, false, 1_800),
            look(4, 5, true, 1_800),
            look(5, 5, true, 1_800),
        ];
        let found = [
            Checkpoint { from_ns: 1_000_000_000, to_ns: 3_000_000_000, took_ms: Some(1_800) },
            Checkpoint { from_ns: 4_000_000_000, to_ns: 5_000_000_000, took_ms: None },
        ];
        assert_eq!(checkpoints(&samples), found);
    }

    #[test]
    fn a_checkpoint_that_is_counted_early_ends_with_its_own_length() {
        // A real server's checkpoint: counted and running at 62 s, over at 63 s; the next a minute later.
        let mut samples = vec![look(61, 1, false, 662), look(62, 2, true, 662), look(63, 2, false, 467)];
        samples.extend((64..123).map(|second| look(second, 2, false, 467)));
        samples.extend([look(123, 3, true, 467), look(124, 3, false, 477), look(125, 3, false, 477)]);
        let found = [
            Checkpoint { from_ns: 62_000_000_000, to_ns: 63_000_000_000, took_ms: Some(467) },
            Checkpoint { from_ns: 123_000_000_000, to_ns: 124_000_000_000, took_ms: Some(477) },
        ];
        assert_eq!(checkpoints(&samples), found);
        // If the next checkpoint is running already, the length tells them apart.
        let next = [look(1, 1, false, 90), look(2, 2, true, 250), look(3, 3, false, 300)];
        let lengths: Vec<_> = checkpoints(&next).iter().map(|it| it.took_ms).collect();
        assert_eq!(lengths, [Some(250), Some(300)]);
        // A checkpoint that ran but was never counted was abandoned.
        let given_up = [look(1, 1, true, 90), look(2, 1, false, 90), look(9, 2, false, 120)];
        assert_eq!(checkpoints(&given_up)[0].from_ns, 8_880_000_000);
    }

    #[test]
    fn an_unreported_counter_yields_no_checkpoints() {
        assert_eq!(checkpoints(&[ServerSample::default(), ServerSample::default()]), []);
    }
}
