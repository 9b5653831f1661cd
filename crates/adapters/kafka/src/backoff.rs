//! Waits for a producer's reports with growing sleeps instead of spinning.
//!
//! The client library counts a poll's timeout in whole milliseconds. With one or less it spins on its queue until the timeout and
//! keeps a core busy. So callers poll without waiting, and sleep in between.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, Producer as _, ProducerContext};

/// The first sleep: the longest delay in noticing a fast acknowledgement.
const SHORTEST: Duration = Duration::from_micros(50);
/// The longest sleep.
const LONGEST: Duration = Duration::from_millis(1);

/// Sleeps that double while no report arrives.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next: SHORTEST }
    }

    /// Returns to the shortest sleep: after one report, others may follow soon.
    pub(crate) const fn reset(&mut self) {
        self.next = SHORTEST;
    }

    /// Sleeps, at most for `left`.
    pub(crate) fn sleep(&mut self, left: Duration) {
        std::thread::sleep(self.next.min(left));
        self.next = (2 * self.next).min(LONGEST);
    }
}

/// Waits until every record is reported. The library's own flush polls only every 100 ms.
pub(crate) fn drain<C: ProducerContext>(producer: &BaseProducer<C>) {
    let mut backoff = Backoff::new();
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::ZERO);
        backoff.sleep(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_until_a_report_and_never_exceed_the_remaining_time() {
        let mut backoff = Backoff::new();
        let mut lengths = Vec::new();
        for _ in 0..6 {
            lengths.push(backoff.next.as_micros());
            backoff.sleep(Duration::ZERO);
        }
        assert_eq!(lengths, [50, 100, 200, 400, 800, 1000]);
        backoff.reset();
        assert_eq!(backoff.next, SHORTEST);
    }
}
