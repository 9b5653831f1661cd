//! Limits a rate with a token bucket.
//!
//! Instead of tokens, the bucket keeps the moment until which earlier bytes occupy the line, as in the
//! generic cell rate algorithm (ITU-T I.371, annex A).

use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};

/// The burst that an idle line may send, as the time that the line takes for these bytes.
const BURST_NS: u64 = 20 * MILLISECOND_NS;
/// Bytes pass in portions that occupy the line for this time, so that a fast line moves no single bytes.
const PORTION_NS: u64 = 5 * MILLISECOND_NS;

/// A token bucket with the rate of a line.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    bytes_per_s: u64,
    portion_bytes: u64,
    burst_ns: u64,
    /// The moment until which earlier bytes occupy the line.
    busy_until: Instant,
}

impl Bucket {
    /// A line that is idle from `now` on without a saved burst. `bytes_per_s` is at least one.
    pub(super) fn new(bytes_per_s: u64, now: Instant) -> Self {
        let portion_bytes = bytes_in(PORTION_NS, bytes_per_s).max(1);
        let burst_ns = BURST_NS.max(time_of(portion_bytes, bytes_per_s));
        Bucket { bytes_per_s, portion_bytes, burst_ns, busy_until: now }
    }

    /// The number of bytes that may pass, or the moment of the next attempt.
    pub(super) fn allowance(&self, now: Instant) -> Result<u64, Instant> {
        let bytes = bytes_in(now.since(self.idle_from(now)), self.bytes_per_s);
        if bytes >= self.portion_bytes {
            return Ok(bytes);
        }
        Err(self.busy_until + time_of(self.portion_bytes, self.bytes_per_s))
    }

    /// Records bytes that passed.
    pub(super) fn spend(&mut self, bytes: u64, now: Instant) {
        self.busy_until = self.idle_from(now) + time_of(bytes, self.bytes_per_s);
    }

    fn idle_from(&self, now: Instant) -> Instant {
        self.busy_until.max(now - self.burst_ns)
    }
}

/// The bytes that pass in a time, rounded down.
fn bytes_in(ns: u64, bytes_per_s: u64) -> u64 {
    let bytes = u128::from(ns) * u128::from(bytes_per_s) / u128::from(SECOND_NS);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The time in nanoseconds that bytes take, rounded up, so that the line never exceeds its rate.
fn time_of(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = (u128::from(bytes) * u128::from(SECOND_NS)).div_ceil(u128::from(bytes_per_s));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(1000 * SECOND_NS);

    /// Simulates a sender that sends as much as allowed, up to `chunk` at once; returns the bytes that
    /// passed.
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
                    assert!(again > now, "the next attempt lies in the past");
                    now = again;
                }
            }
        }
        passed
    }

    #[test]
    fn a_greedy_sender_gets_exactly_the_rate() {
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
    fn the_burst_of_an_idle_line_is_20_ms() {
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
