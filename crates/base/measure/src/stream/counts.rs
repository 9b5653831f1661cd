//! Defines the counters of a pipeline.

macro_rules! counters {
    ($(#[doc = $help:literal] $Count:ident $word:literal,)+) => {
        /// A counter. Its word is its name in files and metrics, and never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Count {
            $(#[doc = $help] $Count,)+
        }

        impl Count {
            /// Every counter, in the order of the numbers.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$Count),+];

            /// The name, with `_ns` at the end for nanoseconds.
            pub const fn word(self) -> &'static str {
                [$($word),+][self as usize]
            }

            /// The description, in a sentence.
            pub const fn help(self) -> &'static str {
                [$($help),+][self as usize].trim_ascii()
            }
        }
    };
}

counters! {
    /// Events taken in from the source.
    Read "read_events",
    /// Bytes of the keys, headers and payloads of read events.
    ReadBytes "read_bytes",
    /// Batches taken in from the source.
    BatchesRead "read_batches",
    /// Events that the security stage checked.
    Decided "security_decisions",
    /// Events that the security stage did not admit.
    Denied "security_denials",
    /// Events that the security stage could not judge, and so did not admit.
    Undecidable "security_errors",
    /// Events that the security stage admitted; without a security stage, all events that reached a worker.
    Admitted "admitted_events",
    /// Events that passed all transforms.
    Processed "processed_events",
    /// Events that transforms filtered out.
    Filtered "filtered_events",
    /// Events that are durable in the sink, replayed ones included.
    Written "written_events",
    /// Written events that an earlier run had written.
    Replayed "replayed_events",
    /// Bytes of the payloads of written events, as they left the transforms.
    WrittenBytes "written_bytes",
    /// Batches written; a transaction or a flush of a client may hold many batches.
    BatchesWritten "written_batches",
    /// Documents that the MongoDB insert sink inserted, as the server counted them, without documents that existed before.
    InsertWrites "mongo_insert_sink_writes",
    /// Insert commands (flushes) of the MongoDB insert sink, with any outcome.
    InsertFlushes "mongo_insert_sink_flushes",
    /// Written events with a time that their producer chose (Kafka's CreateTime, or the time within an envelope or dead letter): their delivery compares that clock with this machine's.
    ProducerClock "producer_clock_events",
    /// Written events with the time of the source's system (Kafka's LogAppendTime, MongoDB's wallTime): their delivery compares that clock with this machine's.
    SourceClock "source_clock_events",
    /// Written events with a time later than their acknowledgement by this machine's clock: the clocks differ, and their delivery counts as zero.
    ClockAhead "clock_ahead_events",
    /// Events that are durable as dead letters.
    DeadLettered "dead_letter_events",
    /// Admitted events that are durable: written, or dead letters.
    Acknowledged "acknowledged_events",
    /// Events given up, at most once: neither written nor dead letters.
    Lost "lost_events",
    /// Events of partitions that went to another process before they were written; that process reads them again.
    Left "left_events",
    /// Events left to another process after they had been admitted here.
    HandedOver "handed_over_events",
    /// Texts turned into vectors.
    Texts "embedded_texts",
    /// Tokens of embedded texts, as the model read them.
    Tokens "embedded_tokens",
    /// Texts that were longer than the model reads, and were cut.
    Truncated "truncated_texts",
    /// Batches that were given to the sink again.
    Retries "retried_batches",
    /// Batches that were halved to find their invalid events.
    Splits "split_batches",
    /// Times the circuit opened.
    Trips "circuit_trips",
    /// Commits of positions.
    Commits "commits",
    /// Time that sources waited for room.
    BlockedNs "source_blocked_ns",
    /// Time that sources waited for events.
    StarvedNs "source_starved_ns",
    /// Time that workers transformed and submitted.
    BusyNs "worker_busy_ns",
    /// Time that workers waited for the sink.
    SinkWaitNs "worker_sink_wait_ns",
    /// Time that workers waited for batches.
    IdleNs "worker_idle_ns",
}

/// The counters of a pipeline at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; Count::ALL.len()]);

impl Counts {
    /// These values, in the order of [`Count::ALL`].
    pub const fn new(all: [u64; Count::ALL.len()]) -> Self {
        Self(all)
    }

    /// The value of one counter.
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

    /// The clock that timed the start of the delivery of written events, if it is not this machine's clock.
    pub const fn delivery_clock(&self) -> Option<DeliveryClock> {
        let (producer, source) = (self.get(Count::ProducerClock), self.get(Count::SourceClock));
        let written = self.get(Count::Written);
        match (producer, source) {
            (0, 0) => None,
            (_, 0) if producer >= written => Some(DeliveryClock::Producer),
            (0, _) if source >= written => Some(DeliveryClock::Source),
            _ => Some(DeliveryClock::Several),
        }
    }

    /// The share of admitted events that are acknowledged (written, or dead letters) or filtered out; 1 if no event was
    /// admitted. Events in flight are not acknowledged yet, under every guarantee, and lost events never are. Events that another
    /// process reads again do not count.
    pub fn integrity(&self) -> f64 {
        let admitted = self.get(Count::Admitted).saturating_sub(self.get(Count::HandedOver));
        let safe = self.get(Count::Acknowledged) + self.get(Count::Filtered);
        // The counters rise while they are read one after the other.
        if admitted == 0 { 1.0 } else { (safe as f64 / admitted as f64).min(1.0) }
    }
}

/// The clock that times the start of the delivery of events. The end, the acknowledgement, is always timed by this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryClock {
    /// Each producer's.
    Producer,
    /// That of the source's system, as a broker's.
    Source,
    /// Different ones for different events.
    Several,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivery_is_named_by_the_clock_of_the_written_events() {
        use Count::{ProducerClock, SourceClock, Written};
        let of = |pairs: &[(Count, u64)]| {
            let value =
                |count| pairs.iter().find(|(known, _)| *known == count).map_or(0, |(_, value)| *value);
            Counts::new(Count::ALL.map(value)).delivery_clock()
        };
        assert_eq!(of(&[(Written, 9)]), None);
        assert_eq!(of(&[(Written, 9), (ProducerClock, 9)]), Some(DeliveryClock::Producer));
        assert_eq!(of(&[(Written, 9), (SourceClock, 9)]), Some(DeliveryClock::Source));
        assert_eq!(of(&[(Written, 9), (SourceClock, 5)]), Some(DeliveryClock::Several));
        assert_eq!(of(&[(Written, 9), (SourceClock, 5), (ProducerClock, 4)]), Some(DeliveryClock::Several));
    }

    #[test]
    fn the_number_of_a_counter_is_its_position_in_all() {
        for (at, count) in Count::ALL.into_iter().enumerate() {
            assert_eq!(count as usize, at);
        }
    }

    #[test]
    fn integrity_is_the_safe_share_of_admitted_events() {
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
        // Ten events are denied and become dead letters. Ninety are admitted: ten of these are still in
        // flight, or were given up.
        check(
            &[(Read, 100), (Denied, 10), (DeadLettered, 10), (Admitted, 90), (Acknowledged, 80)],
            80.0 / 90.0,
        );
        check(&[(Read, 90), (Admitted, 90), (Acknowledged, 80), (Lost, 10)], 80.0 / 90.0);
        check(&[(Admitted, 90), (Acknowledged, 60), (Filtered, 20), (HandedOver, 10)], 1.0);
    }
}
