//! Delays answers, each for a fixed time or all of them during a freeze.

use std::time::Duration;

use plimsoll_measure::clock::Instant;
use plimsoll_measure::freeze::Freeze;

/// Delays answers before they are sent.
#[derive(Debug, Default)]
pub(super) struct Gate {
    delay: Duration,
    freeze: Freeze,
}

impl Gate {
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Withholds all answers for `length`, starting at `from`. Replaces an earlier freeze.
    pub(super) fn freeze(&self, from: Instant, length: Duration) {
        self.freeze.set(from, length);
    }

    /// Whether an answer need not wait.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.delay.is_zero() && !self.freeze.is_set()
    }

    /// Waits until an answer may be sent.
    pub(super) async fn pass(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        while let Some(left_ns) = self.freeze.left_ns() {
            tokio::time::sleep(Duration::from_nanos(left_ns)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_measure::clock;

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
        assert_eq!(gate.freeze.left_ns(), None);
        assert!(clock::now() >= start);
        assert!(passed_ns(&Gate::new(Duration::from_millis(3))) >= 3 * clock::MILLISECOND_NS);
    }
}
