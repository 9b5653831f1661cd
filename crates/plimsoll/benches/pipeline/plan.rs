//! Defines the amount of measurement.

/// The amount of measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The number of rounds.
    pub(crate) rounds: usize,
    /// The length of a generator run without a sink, in milliseconds.
    pub(crate) generator_ms: u64,
    /// The number of records to read from a topic.
    pub(crate) consumed: u64,
    /// The number of records to copy from topic to topic.
    pub(crate) copied: u64,
    /// The number of documents to insert from a generator.
    pub(crate) inserted: u64,
    /// The number of records to move from a topic to a collection, for Plimsoll and the peer.
    pub(crate) connected: u64,
    /// The number of events to check without a signature, or with a keyed hash.
    pub(crate) judged: u64,
    /// The number of events to check with public-key signatures, which cost more than a hundred times as
    /// much.
    pub(crate) signed: u64,
    /// The number of events with given vectors.
    pub(crate) vectors: u64,
    /// The number of events with computed vectors.
    pub(crate) embedded: u64,
    /// The length of the steady run, in seconds.
    pub(crate) steady_s: u64,
    /// Records a second of the steady run.
    pub(crate) steady_per_s: u64,
}

impl Plan {
    /// Three quarters of an hour, and the steady run. The number of rounds is odd, so that a middle one
    /// exists.
    pub(crate) const FULL: Self = Self {
        rounds: 9,
        generator_ms: 2000,
        consumed: 2_000_000,
        copied: 1_000_000,
        inserted: 300_000,
        connected: 400_000,
        judged: 2_000_000,
        signed: 40_000,
        vectors: 20_000,
        embedded: 960,
        steady_s: 600,
        steady_per_s: 10_000,
    };
    /// Only shows that everything still works.
    pub(crate) const SMALL: Self = Self {
        rounds: 1,
        generator_ms: 20,
        consumed: 5_000,
        copied: 3_000,
        inserted: 5_000,
        connected: 2_000,
        judged: 2_000,
        signed: 100,
        vectors: 200,
        embedded: 8,
        steady_s: 4,
        steady_per_s: 500,
    };
}
