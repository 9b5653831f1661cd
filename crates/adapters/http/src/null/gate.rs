//! Delays answers, each for a fixed time or all of them during a freeze.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};

/// Delays answers before they are sent.
#[derive(Debug, Default)]
pub(super) struct Gate {
    delay: Duration,
    from_ns: AtomicU64,
    /// The end of the freeze in nanoseconds; zero without a freeze, so that an answer reads nothing else.
    until_ns: AtomicU64,
}

impl Gate {
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Withholds all answers for `length`, starting at `from`. Replaces an earlier freeze.
    pub(super) fn freeze(&self, from: Instant, length: Duration) {
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.until_ns.store(0, Ordering::Release);
        self.from_ns.store(from.as_ns(), Ordering::Release);
        self.until_ns.store((from + length).as_ns(), Ordering::Release);
    }

    /// Whether an answer need not wait.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.delay.is_zero() && self.until_ns.load(Ordering::Acquire) == 0
    }

    /// Waits until an answer may be sent.
    pub(super) async fn pass(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        while let Some(left_ns) = self.left_ns() {
            tokio::time::sleep(Duration::from_nanos(left_ns)).await;
        }
    }

    /// The rest of the freeze in nanoseconds; `None` without a freeze.
    fn left_ns(&self) -> Option<u64> {
        let until_ns = self.until_ns.load(Ordering::Acquire);
        if until_ns == 0 {
            return None;
        }
        let now_ns = clock::now().as_ns();
        let frozen = now_ns >= self.from_ns.load(Ordering::Acquire) && now_ns < until_ns;
        frozen.then(|| until_ns - now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_ns(gate: &Gate) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let start = clock::now();
        runtime.block_on(gate.pass());
        clock::now().since(start)
    }

    #[test]
    fn no_answer_passes_before_the_end_of_a_freeze_or_a_delay() {
        let gate = Gate::default();
        assert!(gate.is_open());
        gate.freeze(clock::now(), Duration::from_millis(50));
        assert!(!gate.is_open());
        let start = clock::now();
        passed_ns(&gate);
        assert_eq!(gate.left_ns(), None);
        assert!(clock::now() >= start);
        assert!(passed_ns(&Gate::new(Duration::from_millis(3))) >= 3 * clock::MILLISECOND_NS);
    }

    #[test]
    fn a_freeze_begins_at_its_start_time() {
        let gate = Gate::default();
        gate.freeze(clock::now() + clock::SECOND_NS * 3600, Duration::from_secs(3600));
        assert_eq!(gate.left_ns(), None);
    }
}
