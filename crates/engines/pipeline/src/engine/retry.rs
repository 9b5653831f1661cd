//! When a batch that failed is given to the sink again, and when no more.

use plimsoll_measure::clock::{Instant, SECOND_NS};

/// How a batch that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The pause after a first failure, in nanoseconds; it doubles with each failure in a row.
    pub pause_ns_min: u64,
    /// The longest pause, in nanoseconds.
    pub pause_ns_max: u64,
    /// Tries after the first at most; `None`: as often as it takes.
    pub attempts_max: Option<u32>,
    /// How long after its first failure a batch is tried again, in nanoseconds; `None`: as long as it takes.
    pub time_ns_max: Option<u64>,
    /// What follows when neither is left.
    pub then: Exhausted,
    /// Failures in a row after which the circuit counts as open: one batch at a time tries from then on.
    pub opens_after: u32,
}

/// What follows when a batch may not be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The pipeline stops: nothing is lost, and nothing goes on.
    Stop,
    /// Its events go to the dead letters.
    Bury,
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
    /// Whether a batch that failed for the `attempts`-th time, first at `since`, may be tried again at `now`.
    pub fn allows(&self, attempts: u32, since: Instant, now: Instant) -> bool {
        self.attempts_max.is_none_or(|max| attempts <= max)
            && self.time_ns_max.is_none_or(|max| now.since(since) < max)
    }

    /// The pause after `failures` failures in a row, at least one. `chance` in 0 to 1 spreads it over its upper half, so
    /// that workers do not come back at one moment.
    pub fn pause_ns(&self, failures: u32, chance: f64) -> u64 {
        let doubled = self.pause_ns_min.saturating_mul(1_u64 << failures.saturating_sub(1).min(30));
        let whole = doubled.min(self.pause_ns_max);
        whole / 2 + (whole as f64 / 2.0 * chance.clamp(0.0, 1.0)) as u64
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
