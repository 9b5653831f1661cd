//! Collects round trips of empty requests and takes a median. Leaves out the first ones: a server that just started answers them
//! slowly, and the machine would look quieter after the load than before it.

use plimsoll_measure::clock;
use plimsoll_measure::matrix::Spread;

/// The number of round trips in a part. The median of the last part is reported; it is compared with the part before.
const PART: usize = 100;
/// The times still fall if a part's median is below this percentage of the median of the part before.
const STEADY_PERCENT: u64 = 95;
/// The largest number of round trips.
const ROUND_TRIPS_MAX: usize = 2_000;
/// The total time limit of all round trips, in nanoseconds. The round trips up to then count.
const TIME_NS_MAX: u64 = clock::SECOND_NS;

/// Round trips in nanoseconds, in order of time.
#[derive(Debug, Default)]
pub struct RoundTrips {
    all_ns: Vec<u64>,
    sum_ns: u64,
}

impl RoundTrips {
    /// Adds a round trip.
    pub fn add(&mut self, ns: u64) {
        self.all_ns.push(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Whether no more round trips are needed: the times no longer fall, or a limit is reached.
    pub fn are_enough(&self) -> bool {
        let len = self.all_ns.len();
        let is_over = len >= ROUND_TRIPS_MAX || self.sum_ns >= TIME_NS_MAX;
        is_over || (len >= 2 * PART && len.is_multiple_of(PART) && self.have_settled())
    }

    /// The number of further round trips, for a caller that needs it in advance: two parts, or as many as the time allows.
    pub fn worth(&self) -> usize {
        let own_ns = self.median_ns().unwrap_or(TIME_NS_MAX).max(1);
        usize::try_from(TIME_NS_MAX / own_ns).unwrap_or(usize::MAX).clamp(1, 2 * PART)
    }

    /// The median of the last part, or of the last half if there are fewer than two parts.
    pub fn median_ns(&self) -> Option<u64> {
        let taken = PART.min(self.all_ns.len().div_ceil(2));
        median(&self.all_ns[self.all_ns.len() - taken..])
    }

    fn have_settled(&self) -> bool {
        let (rest, last) = self.all_ns.split_at(self.all_ns.len() - PART);
        let before = &rest[rest.len() - PART..];
        let (Some(before), Some(last)) = (median(before), median(last)) else { return true };
        last.saturating_mul(100) >= before.saturating_mul(STEADY_PERCENT)
    }
}

impl FromIterator<u64> for RoundTrips {
    fn from_iter<I: IntoIterator<Item = u64>>(all_ns: I) -> Self {
        let mut trips = Self::default();
        all_ns.into_iter().for_each(|ns| trips.add(ns));
        trips
    }
}

fn median(all_ns: &[u64]) -> Option<u64> {
    Spread::of(all_ns.iter().map(|ns| *ns as f64)).map(|spread| spread.median as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds round trips until they are enough. Returns their number and their median.
    fn pinged(trip_ns: impl Fn(usize) -> u64) -> (usize, u64) {
        let mut trips = RoundTrips::default();
        let mut made = 0;
        while !trips.are_enough() {
            trips.add(trip_ns(made));
            made += 1;
        }
        (made, trips.median_ns().unwrap())
    }

    #[test]
    fn slow_answers_of_a_starting_server_are_left_out() {
        assert_eq!(pinged(|_| 30_000), (200, 30_000), "the times are steady from the start");
        assert_eq!(pinged(|at| if at < 70 { 326_000 } else { 30_000 }), (300, 30_000));
        let (made, ns) = pinged(|at| 30_000 + 300_000 / (1 + at as u64 / 50));
        assert!((300..=2_000).contains(&made) && ns < 70_000, "the times fall for a while: {made} {ns}");
        let spiky = |at: usize| if at.is_multiple_of(10) { 5_000_000 } else { 30_000 + (at as u64 % 3) };
        assert_eq!(pinged(spiky).1, 30_001, "a busy machine");
    }

    #[test]
    fn pings_end_at_any_speed_of_the_server() {
        assert_eq!(pinged(|_| 50_000_000), (20, 50_000_000), "a slow server gets fewer pings");
        assert_eq!(pinged(|_| 3_000_000_000), (1, 3_000_000_000));
        let shorter = |at: usize| 400_000_u64 >> (at / PART).min(18);
        assert_eq!(pinged(shorter).0, ROUND_TRIPS_MAX, "each part is half of the one before");
        assert_eq!(RoundTrips::default().median_ns(), None);
    }

    #[test]
    fn the_first_part_of_a_list_is_left_out() {
        let trips = |all: &[u64]| all.iter().copied().collect::<RoundTrips>();
        assert_eq!(trips(&[900, 800, 30, 31, 32]).median_ns(), Some(31));
        assert_eq!(trips(&[7]).median_ns(), Some(7));
        for (ns, worth) in [(30_000, 2 * PART), (50_000_000, 20), (2_000_000_000, 1), (0, 2 * PART)] {
            assert_eq!(trips(&[ns]).worth(), worth, "{ns}");
        }
    }
}
