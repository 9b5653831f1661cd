//! Withholds answers: for a stated time each, or all of them during a freeze.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};

/// How often a withheld answer looks whether the server closes.
const LOOK_EVERY_NS: u64 = 20 * clock::MILLISECOND_NS;

/// Every answer passes it before it is sent.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    delay: Duration,
    from_ns: AtomicU64,
    /// Zero when there is no freeze, which is all that an answer looks at then.
    until_ns: AtomicU64,
}

impl Gate {
    pub(crate) fn new(delay: Duration) -> Self {
        Gate { delay, ..Gate::default() }
    }

    /// From `from` on, for `length`, no answer passes. A new freeze takes the place of the one before.
    pub(crate) fn freeze(&self, from: Instant, length: Duration) {
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.until_ns.store(0, Ordering::Release);
        self.from_ns.store(from.as_ns(), Ordering::Release);
        self.until_ns.store((from + length).as_ns(), Ordering::Release);
    }

    /// Waits until an answer may be sent, or the server closes.
    pub(crate) fn pass(&self, closing: &AtomicBool) {
        if !self.delay.is_zero() {
            thread::sleep(self.delay);
        }
        while let Some(left_ns) = self.left_ns()
            && !closing.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_nanos(left_ns.min(LOOK_EVERY_NS)));
        }
    }

    /// How long the freeze still lasts, in a freeze.
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
        let start = clock::now();
        gate.pass(&AtomicBool::new(false));
        clock::now().since(start)
    }

    #[test]
    fn nothing_passes_before_the_end_of_a_freeze() {
        let gate = Gate::default();
        let start = clock::now();
        gate.freeze(start, Duration::from_millis(50));
        gate.pass(&AtomicBool::new(false));
        assert!(clock::now().since(start) >= 50 * clock::MILLISECOND_NS);
        assert_eq!(gate.left_ns(), None);
    }

    #[test]
    fn a_freeze_begins_at_its_moment() {
        let gate = Gate::default();
        gate.freeze(clock::now() + clock::SECOND_NS * 3600, Duration::from_secs(3600));
        assert_eq!(gate.left_ns(), None);
    }

    #[test]
    fn a_delay_holds_every_answer() {
        assert!(passed_ns(&Gate::new(Duration::from_millis(3))) >= 3 * clock::MILLISECOND_NS);
    }

    #[test]
    fn a_server_that_closes_lets_its_answers_go() {
        let gate = Gate::default();
        gate.freeze(clock::now(), Duration::from_secs(3600));
        gate.pass(&AtomicBool::new(true));
    }
}
