//! The counters of a pipeline.

/// A counter. Its word is its name in files and metrics, and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Count {
    /// Events taken in from the source.
    Read,
    /// Bytes of their keys, headers and payloads.
    ReadBytes,
    /// Batches taken in.
    BatchesRead,
    /// Events that the security stage checked.
    Decided,
    /// Events that it did not admit.
    Denied,
    /// Events that it could not judge, and so did not admit.
    Undecidable,
    /// Events that the security stage admitted; without one, all events that reached a worker.
    Admitted,
    /// Events that came through all transforms.
    Processed,
    /// Events that transforms filtered out.
    Filtered,
    /// Events that are durable in the sink, replayed ones included.
    Written,
    /// Of those, events that an earlier run had written.
    Replayed,
    /// Bytes of their payloads, as they left the transforms.
    WrittenBytes,
    /// Batches written: a transaction or a flush of a client may hold many of them.
    BatchesWritten,
    /// Documents that the MongoDB insert sink inserted, as the server counted them, without those that existed already.
    InsertWrites,
    /// Its insert commands, with any outcome: its flushes.
    InsertFlushes,
    /// Events that are durable as dead letters.
    DeadLettered,
    /// Admitted events that are durable: written, or dead letters.
    Acknowledged,
    /// Events given up, at most once: neither written nor dead letters.
    Lost,
    /// Events of partitions that went to another process before they were written: it reads them again.
    Left,
    /// Of those, events that had been admitted here.
    HandedOver,
    /// Texts that have their vectors.
    Texts,
    /// Their tokens, as the model read them.
    Tokens,
    /// Texts that were longer than the model reads, and were cut.
    Truncated,
    /// Batches that were given to the sink again.
    Retries,
    /// Batches that were halved to find their invalid events.
    Splits,
    /// Times the circuit opened.
    Trips,
    /// Commits of positions.
    Commits,
    /// Time that sources waited for room.
    BlockedNs,
    /// Time that sources waited for events.
    StarvedNs,
    /// Time that workers transformed and submitted.
    BusyNs,
    /// Time that workers waited for the sink.
    SinkWaitNs,
    /// Time that workers waited for batches.
    IdleNs,
}

impl Count {
    /// All of them.
    pub const ALL: [Self; 32] = [
        Self::Read,
        Self::ReadBytes,
        Self::BatchesRead,
        Self::Decided,
        Self::Denied,
        Self::Undecidable,
        Self::Admitted,
        Self::Processed,
        Self::Filtered,
        Self::Written,
        Self::Replayed,
        Self::WrittenBytes,
        Self::BatchesWritten,
        Self::InsertWrites,
        Self::InsertFlushes,
        Self::DeadLettered,
        Self::Acknowledged,
        Self::Lost,
        Self::Left,
        Self::HandedOver,
        Self::Texts,
        Self::Tokens,
        Self::Truncated,
        Self::Retries,
        Self::Splits,
        Self::Trips,
        Self::Commits,
        Self::BlockedNs,
        Self::StarvedNs,
        Self::BusyNs,
        Self::SinkWaitNs,
        Self::IdleNs,
    ];

    /// Its name, with `_ns` at the end for nanoseconds.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read_events",
            Self::ReadBytes => "read_bytes",
            Self::BatchesRead => "read_batches",
            Self::Decided => "security_decisions",
            Self::Denied => "security_denials",
            Self::Undecidable => "security_errors",
            Self::Admitted => "admitted_events",
            Self::Processed => "processed_events",
            Self::Filtered => "filtered_events",
            Self::Written => "written_events",
            Self::Replayed => "replayed_events",
            Self::WrittenBytes => "written_bytes",
            Self::BatchesWritten => "written_batches",
            Self::InsertWrites => "mongo_insert_sink_writes",
            Self::InsertFlushes => "mongo_insert_sink_flushes",
            Self::DeadLettered => "dead_letter_events",
            Self::Acknowledged => "acknowledged_events",
            Self::Lost => "lost_events",
            Self::Left => "left_events",
            Self::HandedOver => "handed_over_events",
            Self::Texts => "embedded_texts",
            Self::Tokens => "embedded_tokens",
            Self::Truncated => "truncated_texts",
            Self::Retries => "retried_batches",
            Self::Splits => "split_batches",
            Self::Trips => "circuit_trips",
            Self::Commits => "commits",
            Self::BlockedNs => "source_blocked_ns",
            Self::StarvedNs => "source_starved_ns",
            Self::BusyNs => "worker_busy_ns",
            Self::SinkWaitNs => "worker_sink_wait_ns",
            Self::IdleNs => "worker_idle_ns",
        }
    }

    /// Its description, in a sentence.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Read => "Events taken in from the source.",
            Self::ReadBytes => "Bytes of their keys, headers and payloads.",
            Self::BatchesRead => "Batches taken in.",
            Self::Decided => "Events that the security stage looked at.",
            Self::Denied => "Events that it did not admit.",
            Self::Undecidable => "Events that it could not judge, and so did not admit.",
            Self::Admitted => {
                "Events that the security stage admitted; where there is none, all that came to a worker."
            }
            Self::Processed => "Events that came through all transforms.",
            Self::Filtered => "Events that transforms left out, as was meant.",
            Self::Written => "Events that are durable in the sink, replayed ones included.",
            Self::Replayed => "Of those, events that an earlier run had written.",
            Self::WrittenBytes => "Bytes of their payloads, as they left the transforms.",
            Self::BatchesWritten => {
                "Batches written; a transaction or a flush of a client may hold many of them."
            }
            Self::InsertWrites => {
                "Documents that the MongoDB insert sink inserted, as the server counted them; what it had already is not among them."
            }
            Self::InsertFlushes => {
                "Commands with which it inserted them, whatever came of each: its flushes."
            }
            Self::DeadLettered => "Events that are durable as dead letters.",
            Self::Acknowledged => "Admitted events that are durable: written, or dead letters.",
            Self::Lost => "Events given up, at most once: neither written nor dead letters.",
            Self::Left => {
                "Events of partitions that went to another process before they were written: it reads them again."
            }
            Self::HandedOver => "Of those, events that had been admitted here.",
            Self::Texts => "Texts that have their vectors.",
            Self::Tokens => "Their tokens, as the model read them.",
            Self::Truncated => "Texts that were longer than the model reads, and were cut.",
            Self::Retries => "Batches that were given to the sink again.",
            Self::Splits => "Batches that were cut in half to find what is wrong in them.",
            Self::Trips => "Times the circuit opened.",
            Self::Commits => "Commits of positions.",
            Self::BlockedNs => "Time that sources waited for room.",
            Self::StarvedNs => "Time that sources waited for events.",
            Self::BusyNs => "Time that workers transformed and submitted.",
            Self::SinkWaitNs => "Time that workers waited for the sink.",
            Self::IdleNs => "Time that workers waited for batches.",
        }
    }
}

/// The counters of a pipeline at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; Count::ALL.len()]);

impl Counts {
    /// These values, in the order of [`Count::ALL`].
    pub const fn new(all: [u64; Count::ALL.len()]) -> Self {
        Self(all)
    }

    /// One of them.
    pub const fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Events with a known fate: written, filtered, dead letters, given up, or left to another process.
    pub const fn settled(&self) -> u64 {
        self.get(Count::Written)
            + self.get(Count::Left)
            + self.get(Count::Filtered)
            + self.get(Count::DeadLettered)
            + self.get(Count::Lost)
    }

    /// Acknowledged ÷ admitted: the share of the admitted events that are durable, as written or as dead letters, or that were
    /// left out as was meant; 1 if there was none. Under every guarantee what is in flight is not acknowledged yet, and what was
    /// given up never is. What another process reads again is not asked for here.
    pub fn integrity(&self) -> f64 {
        let admitted = self.get(Count::Admitted).saturating_sub(self.get(Count::HandedOver));
        let safe = self.get(Count::Acknowledged) + self.get(Count::Filtered);
        // Counters are read one after the other while they rise.
        if admitted == 0 { 1.0 } else { (safe as f64 / admitted as f64).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_place_of_its_own() {
        for (at, count) in Count::ALL.into_iter().enumerate() {
            assert_eq!(count as usize, at);
        }
    }

    #[test]
    fn integrity_is_what_is_safe_of_what_was_admitted() {
        let of = |pairs: &[(Count, u64)]| {
            let value =
                |count| pairs.iter().find(|(known, _)| *known == count).map_or(0, |(_, value)| *value);
            Counts::new(Count::ALL.map(value)).integrity()
        };
        let check = |pairs: &[(Count, u64)], expected: f64| {
            assert!((of(pairs) - expected).abs() < 1e-9, "{pairs:?}: {}", of(pairs));
        };
        use Count::{Acknowledged, Admitted, DeadLettered, Denied, Filtered, HandedOver, Lost, Read};
        check(&[], 1.0);
        // Ten are denied and buried, ninety are admitted: ten of these are still in flight, or were given up.
        check(
            &[(Read, 100), (Denied, 10), (DeadLettered, 10), (Admitted, 90), (Acknowledged, 80)],
            80.0 / 90.0,
        );
        check(&[(Read, 90), (Admitted, 90), (Acknowledged, 80), (Lost, 10)], 80.0 / 90.0);
        check(&[(Admitted, 90), (Acknowledged, 60), (Filtered, 20), (HandedOver, 10)], 1.0);
    }
}
