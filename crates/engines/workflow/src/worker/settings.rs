//! Limits and times of a worker.

/// The limits and times of a worker. The defaults suit a process with a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The process, by a name that no other process ever has.
    pub owner: String,
    /// The length of a lease.
    pub ttl_ms: u64,
    /// The part of a lease that is not used: clocks may run at different rates.
    pub margin_ms: u64,
    /// Signals and instances of one scan, and changes of one commit, at most.
    pub batch: usize,
    /// Calls at the same time.
    pub calls_max: usize,
    /// Commits at the same time.
    pub commits_max: usize,
    /// The weight of signals in memory at most, in units of 4 KiB. Above this weight, clients are refused and
    /// scans wait.
    pub signals_max: usize,
    /// The weight of instances in memory that do nothing now: each counts 1, and 1 for each full 4 KiB.
    pub idle_max: usize,
    /// The shortest time between two scans without hints of new work.
    pub poll_min_ms: u64,
    /// The longest time between two scans.
    pub poll_max_ms: u64,
    /// Whether the worker listens to news of other processes. Without them, their work waits for a scan.
    pub listens: bool,
    /// Scans look ahead this far for timers: more than `poll_max_ms`.
    pub ahead_ms: u64,
    /// The longest time that a change waits for the call that it leads to, so that both are one commit.
    pub fuse_ms: u64,
    /// The least time for which a repeated signal is recognised after its instance has forgotten it.
    pub recognised_ms: u64,
    /// Deliveries of a signal without an instance at most; then the signal becomes a dead letter. The pause between deliveries doubles.
    pub unknown_attempts_max: u32,
}

impl Settings {
    /// The defaults for a process.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            ttl_ms: 15_000,
            margin_ms: 2_000,
            batch: 256,
            calls_max: 256,
            commits_max: 2,
            signals_max: 10_000,
            idle_max: 20_000,
            poll_min_ms: 250,
            poll_max_ms: 5_000,
            listens: true,
            ahead_ms: 8_000,
            fuse_ms: 20,
            recognised_ms: 15 * 60_000,
            unknown_attempts_max: 6,
        }
    }

    /// The same with leases of another length, in milliseconds. A seventh of a lease, and at most 2 s, is not used.
    #[must_use]
    pub fn with_lease_ms(self, ttl_ms: u64) -> Self {
        Self { ttl_ms, margin_ms: (ttl_ms / 7).min(2_000), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_keeps_most_of_its_length() {
        let usual = Settings::new("a");
        assert_eq!(usual.clone().with_lease_ms(usual.ttl_ms), usual);
        let short = usual.with_lease_ms(2_100);
        assert_eq!((short.ttl_ms, short.margin_ms), (2_100, 300));
    }
}
