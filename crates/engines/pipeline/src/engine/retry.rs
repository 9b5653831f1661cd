//! Decides when a failed batch is retried, and when its retries are exhausted.

use plimsoll_measure::clock::{Instant, SECOND_NS};

/// The retry policy of failed batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The pause after a first failure, in nanoseconds. It doubles with each consecutive failure.
    pub pause_ns_min: u64,
    /// The longest pause, in nanoseconds.
    pub pause_ns_max: u64,
    /// Retries at most; `None`: unlimited.
    pub attempts_max: Option<u32>,
    /// The time limit of retries after a batch's first failure, in nanoseconds; `None`: unlimited.
    pub time_ns_max: Option<u64>,
    /// The action when retries are exhausted.
    pub then: Exhausted,
    /// Consecutive failures that open the circuit: from then on one batch at a time is tried.
    pub opens_after: u32,
}

/// The action when the retries of a batch are exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The pipeline stops. No event is lost.
    Stop,
    /// Its events become dead letters.
    DeadLetters,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            pause_ns_min: SECOND_NS / 20,
            pause_ns_max: 5 * SECOND_NS,
            attempts_max: None,
            time_ns_max: None,
            then: Exhausted::Stop,
            opens_after: 5,
        }
    }
}

impl Retry {
    /// Whether a batch that failed for the `attempts`-th time, first at `since`, may be retried at `now`.
    pub fn allows(&self, attempts: u32, since: Instant, now: Instant) -> bool {
        self.attempts_max.is_none_or(|max| attempts <= max)
            && self.time_ns_max.is_none_or(|max| now.since(since) < max)
    }

    /// The pause after `failures` consecutive failures, at least one. `jitter` from 0 to 1 spreads it over its upper half, so
    /// that workers do not retry simultaneously.
    pub fn pause_ns(&self, failures: u32, jitter: f64) -> u64 {
        let doubled = self.pause_ns_min.saturating_mul(1_u64 << failures.saturating_sub(1).min(30));
        let whole = doubled.min(self.pause_ns_max);
        whole / 2 + (whole as f64 / 2.0 * jitter.clamp(0.0, 1.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_their_limit_and_are_spread_over_their_upper_half() {
        let retry = Retry { pause_ns_min: 100, pause_ns_max: 1000, ..Retry::default() };
        let longest: Vec<_> = [1, 2, 3, 4, 5, 60].map(|failures| retry.pause_ns(failures, 1.0)).into();
        assert_eq!(longest, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(retry.pause_ns(2, 0.0), 100);
    }

    #[test]
    fn a_budget_ends_by_attempts_or_by_time() {
        let at = Instant::from_ns;
        let retry = Retry { attempts_max: Some(2), time_ns_max: Some(50), ..Retry::default() };
        assert!(retry.allows(2, at(0), at(49)));
        assert!(!retry.allows(3, at(0), at(1)));
        assert!(!retry.allows(1, at(0), at(50)));
        assert!(Retry::default().allows(u32::MAX, at(0), at(u64::MAX)));
    }
}
