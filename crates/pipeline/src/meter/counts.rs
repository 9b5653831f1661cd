//! The counters of a pipeline.

/// What is counted. Events unless the name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Count {
    /// Taken in from the source.
    Read,
    /// Bytes of their keys, headers and payloads.
    ReadBytes,
    /// Batches taken in.
    BatchesRead,
    /// Looked at by the security stage.
    Decided,
    /// Not admitted by it.
    Denied,
    /// That it could not judge, and so did not admit.
    Undecidable,
    /// Through all transforms.
    Processed,
    /// Left out by transforms, as was meant.
    Filtered,
    /// Durable in the sink, `Replayed` included.
    Written,
    /// Of those, written by an earlier run already.
    Replayed,
    /// Bytes of what was written, as it left the transforms.
    WrittenBytes,
    /// Batches written.
    Flushes,
    /// Durable as dead letters.
    DeadLettered,
    /// Given up, at most once: neither written nor a dead letter.
    Lost,
    /// Batches that were given to the sink again.
    Retries,
    /// Batches that were cut in half to find what is wrong in them.
    Splits,
    /// Times the circuit opened.
    Trips,
    /// Commits of positions.
    Commits,
    /// Nanoseconds that sources waited for room.
    BlockedNs,
    /// Nanoseconds that sources waited for events.
    StarvedNs,
    /// Nanoseconds that workers transformed and submitted.
    BusyNs,
    /// Nanoseconds that workers waited for the sink.
    SinkWaitNs,
    /// Nanoseconds that workers waited for batches.
    IdleNs,
}

impl Count {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Read,
        Self::ReadBytes,
        Self::BatchesRead,
        Self::Decided,
        Self::Denied,
        Self::Undecidable,
        Self::Processed,
        Self::Filtered,
        Self::Written,
        Self::Replayed,
        Self::WrittenBytes,
        Self::Flushes,
        Self::DeadLettered,
        Self::Lost,
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
}

/// The counters of a pipeline at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; Count::ALL.len()]);

impl Counts {
    pub(super) const fn new(all: [u64; Count::ALL.len()]) -> Self {
        Self(all)
    }

    /// One of them.
    pub const fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Events whose fate is known: written, left out, dead letters or given up.
    pub const fn settled(&self) -> u64 {
        self.get(Count::Written)
            + self.get(Count::Filtered)
            + self.get(Count::DeadLettered)
            + self.get(Count::Lost)
    }

    /// The share of the events that were admitted and not left out that are durable, as written or as dead letters; 1 if there
    /// was none. Events in flight count as not durable.
    pub fn integrity(&self) -> f64 {
        let admitted = self.get(Count::Read) - self.get(Count::Filtered).min(self.get(Count::Read));
        let durable = self.get(Count::Written) + self.get(Count::DeadLettered);
        if admitted == 0 { 1.0 } else { durable as f64 / admitted as f64 }
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
}
