//! Limits the records of each partition in the client library to one request; the next request follows its
//! acknowledgement.
//!
//! An idempotent producer of the library has one request per partition in flight, although the protocol
//! allows more. When records of that partition have waited for `linger.ms`, the library's thread polls its
//! sockets without a pause until the answer arrives. That keeps a core busy and delays a broker on a small
//! machine. So the records wait in the pipeline instead.

use std::collections::BTreeMap;

use plimsoll_measure::clock::{self, Instant};

/// The largest number of records of one request: the library's own `batch.num.messages`.
const RECORDS_MAX: u32 = 10_000;
/// The longest time in which a round is queued, in nanoseconds: half of `linger.ms`. A later record would
/// miss the request.
const ROUND_NS: u64 = 1_000_000;
/// The number of records between two readings of the clock.
const LOOK: u32 = 16;

/// The records in flight, partition by partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionThrottle {
    rounds: BTreeMap<u32, Round>,
}

/// The records of one partition that are queued together.
#[derive(Debug, Default)]
pub(crate) struct Round {
    on_way: u32,
    bytes: usize,
    is_closed: bool,
    /// The time of the first queued record.
    began: Option<Instant>,
}

impl PartitionThrottle {
    /// The round of a partition.
    pub(crate) fn round(&mut self, order_key: u32) -> &mut Round {
        self.rounds.entry(order_key).or_default()
    }

    /// Closes all rounds with records in flight: each is one request.
    pub(crate) fn close(&mut self) {
        for round in self.rounds.values_mut() {
            round.is_closed = round.on_way > 0;
        }
    }

    /// Removes the rounds of a dropped producer.
    pub(crate) fn clear(&mut self) {
        self.rounds.clear();
    }
}

impl Round {
    /// Whether a record of this size fits into a request of at most `bytes_max`. The first record always
    /// fits. After a record that did not fit, no record fits: it would overtake that record.
    pub(crate) fn admits(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let full = self.on_way >= RECORDS_MAX || (self.on_way > 0 && self.bytes + bytes > bytes_max);
        self.is_closed |= full || self.is_late();
        !self.is_closed
    }

    fn is_late(&self) -> bool {
        let late = |began: Instant| clock::now().since(began) > ROUND_NS;
        self.on_way.is_multiple_of(LOOK) && self.began.is_some_and(late)
    }

    /// Counts a queued record.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.began = self.began.or_else(|| Some(clock::now()));
        self.on_way += 1;
        self.bytes += bytes;
    }

    /// Counts reported records; after the last one the next round begins.
    pub(crate) fn reported(&mut self, count: u32) {
        self.on_way = self.on_way.saturating_sub(count);
        if self.on_way == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_round_of_a_partition_begins_after_the_last_report() {
        let mut throttle = PartitionThrottle::default();
        for order_key in [3, 3, 4] {
            assert!(throttle.round(order_key).admits(100, 1000));
            throttle.round(order_key).sent(100);
        }
        throttle.close();
        assert!(!throttle.round(3).admits(100, 1000) && throttle.round(5).admits(100, 1000));
        throttle.round(3).reported(1);
        assert!(!throttle.round(3).admits(100, 1000));
        throttle.round(3).reported(1);
        assert!(throttle.round(3).admits(100, 1000) && !throttle.round(4).admits(100, 1000));
        throttle.clear();
        assert!(throttle.round(4).admits(100, 1000));
    }

    #[test]
    fn a_round_is_as_large_as_a_request_and_keeps_the_order() {
        let mut round = Round::default();
        assert!(round.admits(5000, 1000), "a record that is larger than all others goes alone");
        round.sent(5000);
        assert!(!round.admits(1, 1000));
        round.reported(1);
        round.sent(600);
        assert!(!round.admits(500, 1000));
        assert!(!round.admits(1, 1000), "it would overtake");
        round.reported(1);
        (0..RECORDS_MAX).for_each(|_| round.sent(0));
        assert!(!round.admits(0, 1000));
    }

    #[test]
    fn a_late_record_waits_for_the_next_request() {
        let mut round = Round::default();
        (0..LOOK).for_each(|_| round.sent(1));
        std::thread::sleep(std::time::Duration::from_nanos(2 * ROUND_NS));
        assert!(!round.admits(1, 1000));
        round.reported(LOOK);
        assert!(round.admits(1, 1000));
    }
}
