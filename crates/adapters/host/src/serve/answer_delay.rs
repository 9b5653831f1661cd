//! Withholds answers: each for a set delay, or all during a freeze.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::freeze::Freeze;

/// The interval at which a withheld answer checks whether the server closes.
const CHECK_EVERY_NS: u64 = 20 * clock::MILLISECOND_NS;

/// Delays every answer before it is sent.
#[derive(Debug, Default)]
pub(crate) struct AnswerDelay {
    delay: Duration,
    freeze: Freeze,
}

impl AnswerDelay {
    pub(crate) fn new(delay: Duration) -> Self {
        AnswerDelay { delay, ..AnswerDelay::default() }
    }

    /// Withholds all answers for `length`, starting at `from`. Replaces an earlier freeze.
    pub(crate) fn freeze(&self, from: Instant, length: Duration) {
        self.freeze.set(from, length);
    }

    /// Waits until an answer may be sent, or the server closes.
    pub(crate) fn wait(&self, closing: &AtomicBool) {
        if !self.delay.is_zero() {
            thread::sleep(self.delay);
        }
        while let Some(left_ns) = self.freeze.left_ns()
            && !closing.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_nanos(left_ns.min(CHECK_EVERY_NS)));
        }
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
        assert_eq!(answer_delay.freeze.left_ns(), None);
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
