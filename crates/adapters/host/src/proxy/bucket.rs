//! Limits a rate with a token bucket: how many bytes may pass now.
//!
//! A token bucket, kept as the moment until which the line is busy with what has passed, as in the generic cell rate
//! algorithm (ITU-T I.371, annex A): one number instead of tokens that drip.

use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};

/// An idle line saves up this much time, and no more.
const BURST_NS: u64 = 20 * MILLISECOND_NS;
/// Bytes pass in portions of this much time, so that a fast line is not worn down byte by byte.
const PORTION_NS: u64 = 5 * MILLISECOND_NS;

/// A line of limited speed.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    bytes_per_s: u64,
    portion_bytes: u64,
    burst_ns: u64,
    /// Earlier bytes occupy the line until then.
    busy_until: Instant,
}

impl Bucket {
    /// A line that is idle from `now` on and has saved up nothing. `bytes_per_s` is at least one.
    pub(super) fn new(bytes_per_s: u64, now: Instant) -> Self {
        let portion_bytes = bytes_in(PORTION_NS, bytes_per_s).max(1);
        let burst_ns = BURST_NS.max(time_of(portion_bytes, bytes_per_s));
        Bucket { bytes_per_s, portion_bytes, burst_ns, busy_until: now }
    }

    /// How many bytes may pass, or the moment to ask again.
    pub(super) fn allowance(&self, now: Instant) -> Result<u64, Instant> {
        let bytes = bytes_in(now.since(self.idle_from(now)), self.bytes_per_s);
        if bytes >= self.portion_bytes {
            return Ok(bytes);
        }
        Err(self.busy_until + time_of(self.portion_bytes, self.bytes_per_s))
    }

    /// Bytes have passed.
    pub(super) fn spend(&mut self, bytes: u64, now: Instant) {
        self.busy_until = self.idle_from(now) + time_of(bytes, self.bytes_per_s);
    }

    fn idle_from(&self, now: Instant) -> Instant {
        self.busy_until.max(now - self.burst_ns)
    }
}

/// Rounded down.
fn bytes_in(ns: u64, bytes_per_s: u64) -> u64 {
    let bytes = u128::from(ns) * u128::from(bytes_per_s) / u128::from(SECOND_NS);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// In nanoseconds, rounded up: the line is never faster than it may be.
fn time_of(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = (u128::from(bytes) * u128::from(SECOND_NS)).div_ceil(u128::from(bytes_per_s));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(1000 * SECOND_NS);

    /// A sender that takes all it may, up to `chunk` at once, for a time; says how much passed.
    fn greedy(bytes_per_s: u64, chunk: u64, time_ns: u64) -> u64 {
        let mut bucket = Bucket::new(bytes_per_s, START);
        let (mut now, mut passed) = (START, 0);
        while now.since(START) <= time_ns {
            match bucket.allowance(now) {
                Ok(bytes) => {
                    assert!(bytes > 0);
                    bucket.spend(bytes.min(chunk), now);
                    passed += bytes.min(chunk);
                }
                Err(again) => {
                    assert!(again > now, "asked to ask again at once");
                    now = again;
                }
            }
        }
        passed
    }

    #[test]
    fn a_greedy_sender_gets_the_rate_and_not_a_byte_more() {
        let cases = [(1, 1), (3, 1), (999, 7), (1_000_000, 1), (123_456_789, 1448), (10_000_000_000, 65_536)];
        for (bytes_per_s, chunk) in cases {
            let time_ns = time_of(20_000 * chunk, bytes_per_s);
            let passed = greedy(bytes_per_s, chunk, time_ns);
            let may = bytes_in(time_ns, bytes_per_s);
            assert!(passed <= may, "{bytes_per_s} B/s, {chunk} B: {passed} > {may}");
            let portion = bytes_in(PORTION_NS, bytes_per_s) + chunk;
            assert!(passed + portion + may / 50 >= may, "{bytes_per_s} B/s, {chunk} B: {passed} of {may}");
        }
    }

    #[test]
    fn an_idle_line_saves_up_20_ms_and_no_more() {
        let bucket = Bucket::new(1_000_000, START);
        assert_eq!(bucket.allowance(START), Err(START + PORTION_NS));
        assert_eq!(bucket.allowance(START + PORTION_NS), Ok(5_000));
        assert_eq!(bucket.allowance(START + 3600 * SECOND_NS), Ok(20_000));
    }

    #[test]
    fn a_line_too_slow_for_a_byte_in_20_ms_passes_single_bytes() {
        let mut bucket = Bucket::new(2, START);
        assert_eq!(bucket.allowance(START + SECOND_NS), Ok(1));
        bucket.spend(1, START + SECOND_NS);
        assert_eq!(bucket.allowance(START + SECOND_NS), Err(START + SECOND_NS + SECOND_NS / 2));
    }
}
