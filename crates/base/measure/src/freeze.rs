//! Holds the period in which a server of the tests withholds its answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{self, Instant};

/// A period in which no answer may be sent.
#[derive(Debug, Default)]
pub struct Freeze {
    from_ns: AtomicU64,
    /// Zero without a freeze: an answer then reads no other field.
    until_ns: AtomicU64,
}

impl Freeze {
    /// Begins at `from` and ends after `length`. Replaces an earlier freeze.
    pub fn set(&self, from: Instant, length: Duration) {
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.until_ns.store(0, Ordering::Release);
        self.from_ns.store(from.as_ns(), Ordering::Release);
        self.until_ns.store((from + length).as_ns(), Ordering::Release);
    }

    /// Whether a freeze was ever set.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.until_ns.load(Ordering::Acquire) != 0
    }

    /// The rest of the freeze in nanoseconds; `None` before and after it.
    pub fn left_ns(&self) -> Option<u64> {
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

    #[test]
    fn a_freeze_begins_at_its_moment_and_ends_after_its_length() {
        let freeze = Freeze::default();
        assert!(!freeze.is_set() && freeze.left_ns().is_none());
        freeze.set(clock::now() + clock::SECOND_NS * 3600, Duration::from_secs(3600));
        assert!(freeze.is_set() && freeze.left_ns().is_none());
        freeze.set(clock::now(), Duration::from_secs(3600));
        assert!(freeze.left_ns().is_some_and(|left| left > 3500 * clock::SECOND_NS));
        freeze.set(clock::now(), Duration::ZERO);
        assert_eq!(freeze.left_ns(), None);
    }
}
