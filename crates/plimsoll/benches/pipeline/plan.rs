//! How much is measured.

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How often each subject is measured.
    pub(crate) rounds: usize,
    /// How long a generator runs to nowhere, in milliseconds.
    pub(crate) generator_ms: u64,
    /// Records that are read from a topic.
    pub(crate) consumed: u64,
    /// Records that are copied from topic to topic.
    pub(crate) copied: u64,
    /// Documents that are inserted from a generator.
    pub(crate) inserted: u64,
    /// Records that go from a topic to a collection, ours and the peer's.
    pub(crate) connected: u64,
    /// Events that are judged without a signature, or with a keyed hash.
    pub(crate) judged: u64,
    /// Events with signatures of public keys, which cost more than a hundred times as much.
    pub(crate) signed: u64,
    /// Events with vectors that are given.
    pub(crate) vectors: u64,
    /// Events whose vectors are made.
    pub(crate) embedded: u64,
    /// How long the steady run lasts, in seconds.
    pub(crate) steady_s: u64,
    /// Records a second of the steady run.
    pub(crate) steady_per_s: u64,
}

impl Plan {
    /// Three quarters of an hour, and the steady run. Rounds are an odd number, so that there is one in the middle.
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
    /// Shows that everything still runs, nothing else.
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
