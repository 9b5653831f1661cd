//! Withholds answers: each for a set delay, or all during a freeze.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};

/// The interval at which a withheld answer checks whether the server closes.
const CHECK_EVERY_NS: u64 = 20 * clock::MILLISECOND_NS;

/// Delays every answer before it is sent.
#[derive(Debug, Default)]
pub(crate) struct AnswerDelay {
    delay: Duration,
    from_ns: AtomicU64,
    /// The end of the freeze; zero without a freeze, so that answers check a single value.
    until_ns: AtomicU64,
}

impl AnswerDelay {
    pub(crate) fn new(delay: Duration) -> Self {
        AnswerDelay { delay, ..AnswerDelay::default() }
    }

    /// Withholds all answers from `from` on, for `length`. A new freeze replaces an earlier one.
    pub(crate) fn freeze(&self, from: Instant, length: Duration) {
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.until_ns.store(0, Ordering::Release);
        self.from_ns.store(from.as_ns(), Ordering::Release);
        self.until_ns.store((from + length).as_ns(), Ordering::Release);
    }

    /// Waits until an answer may be sent, or the server closes.
    pub(crate) fn wait(&self, closing: &AtomicBool) {
        if !self.delay.is_zero() {
            thread::sleep(self.delay);
        }
        while let Some(left_ns) = self.left_ns()
            && !closing.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_nanos(left_ns.min(CHECK_EVERY_NS)));
        }
    }

    /// The remaining time of a freeze.
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

    fn passed_ns(answer_delay: &AnswerDelay) -> u64 {
        let start = clock::now();
        answer_delay.wait(&AtomicBool::new(false));
        clock::now().since(start)
    }

    #[test]
    fn nothing_passes_before_the_end_of_a_freeze() {
        let answer_delay = AnswerDelay::default();
        let start = clock::now();
        answer_delay.freeze(start, Duration::from_millis(50));
        answer_delay.wait(&AtomicBool::new(false));
        assert!(clock::now().since(start) >= 50 * clock::MILLISECOND_NS);
        assert_eq!(answer_delay.left_ns(), None);
    }

    #[test]
    fn a_freeze_begins_at_its_moment() {
        let answer_delay = AnswerDelay::default();
        answer_delay.freeze(clock::now() + clock::SECOND_NS * 3600, Duration::from_secs(3600));
        assert_eq!(answer_delay.left_ns(), None);
    }

    #[test]
    fn a_delay_applies_to_every_answer() {
        assert!(passed_ns(&AnswerDelay::new(Duration::from_millis(3))) >= 3 * clock::MILLISECOND_NS);
    }

    #[test]
    fn a_closing_server_releases_its_answers() {
        let answer_delay = AnswerDelay::default();
        answer_delay.freeze(clock::now(), Duration::from_secs(3600));
        answer_delay.wait(&AtomicBool::new(true));
    }
}
