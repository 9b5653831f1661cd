//! What a disturbance means for one direction of one connection: how much may be read, and what becomes of it.

use std::time::Duration;

use plimsoll_measure::clock::Instant;

use super::bucket::Bucket;
use super::disturbance::{Disturbance, Way};
use super::queue::{AT_ONCE, Queue};
use super::random::Random;
use super::sieve::Sieve;

/// The rule in force.
#[derive(Debug)]
pub(super) enum Rule {
    Pass,
    Delay { delay_ns: u64, jitter_ns: u64 },
    Throttle(Bucket),
    Swallow,
    Stall,
    Sift(Sieve),
}

/// Whether to read now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// At most so many bytes.
    UpTo(usize),
    /// Not before this moment.
    From(Instant),
    /// Not before something has been delivered.
    Blocked,
}

/// What becomes of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fate {
    /// How many bytes, from its beginning, travel on; the others are dropped.
    pub(super) kept: usize,
    /// When they are due.
    pub(super) due: Instant,
}

impl Rule {
    /// The rule that a disturbance makes from `now` on.
    pub(super) fn of(disturbance: Option<Disturbance>, way: Way, now: Instant, random: &mut Random) -> Self {
        match disturbance.filter(|disturbance| disturbance.covers(way)) {
            None => Rule::Pass,
            Some(Disturbance::Delay { delay, jitter, .. }) => {
                Rule::Delay { delay_ns: nanoseconds(delay), jitter_ns: nanoseconds(jitter) }
            }
            Some(Disturbance::Throttle { bytes_per_s, .. }) => {
                Rule::Throttle(Bucket::new(bytes_per_s.get(), now))
            }
            Some(Disturbance::HalfOpen { .. }) => Rule::Swallow,
            Some(Disturbance::DropBytes { per_mebibyte, bytes, .. }) => {
                Rule::Sift(Sieve::new(per_mebibyte, bytes, random))
            }
            // A connection that is cut or reset does not come to ask for a rule.
            Some(Disturbance::Stall | Disturbance::Cut | Disturbance::Reset) => Rule::Stall,
        }
    }

    /// Whether to read, while `queue` waits to be delivered. Only what is delayed queues up; everything else is read when
    /// what came before it has gone, so that a slow receiver slows its sender down.
    pub(super) fn intake(&self, queue: &Queue, now: Instant) -> Intake {
        let room = match self {
            Rule::Swallow => usize::MAX,
            Rule::Delay { .. } => queue.room(),
            Rule::Pass | Rule::Throttle(_) | Rule::Sift(_) if queue.is_empty() => usize::MAX,
            _ => 0,
        };
        match self {
            _ if room == 0 => Intake::Blocked,
            Rule::Throttle(bucket) => match bucket.allowance(now) {
                Ok(bytes) => Intake::UpTo(usize::try_from(bytes).unwrap_or(usize::MAX)),
                Err(again) => Intake::From(again),
            },
            _ => Intake::UpTo(room),
        }
    }

    /// Decides about a chunk that was read at `now`, and moves what is kept of it to its beginning.
    pub(super) fn judge(&mut self, chunk: &mut [u8], now: Instant, random: &mut Random) -> Fate {
        let kept = match self {
            Rule::Swallow => 0,
            Rule::Sift(sieve) => sieve.sift(chunk, random),
            Rule::Throttle(bucket) => {
                bucket.spend(chunk.len() as u64, now);
                chunk.len()
            }
            Rule::Pass | Rule::Delay { .. } | Rule::Stall => chunk.len(),
        };
        Fate { kept, due: self.due(now, random) }
    }

    /// When something that came at `now` is due.
    pub(super) fn due(&self, now: Instant, random: &mut Random) -> Instant {
        match self {
            Rule::Delay { delay_ns, jitter_ns } => now + *delay_ns + random.below(*jitter_ns),
            _ => AT_ONCE,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};

    use super::*;
    use crate::proxy::Direction;

    const NOW: Instant = Instant::from_ns(1000 * SECOND_NS);
    const MS: Duration = Duration::from_millis(1);

    fn rule(disturbance: Disturbance, way: Way) -> (Rule, Random) {
        let mut random = Random::new(1, 1);
        (Rule::of(Some(disturbance), way, NOW, &mut random), random)
    }

    #[test]
    fn the_other_way_and_a_calm_network_pass_everything_at_once() {
        let direction = Direction::ToServer;
        let one = NonZeroU32::MIN;
        for disturbance in [
            Disturbance::Delay { direction, delay: MS, jitter: MS },
            Disturbance::Throttle { direction, bytes_per_s: NonZeroU64::MIN },
            Disturbance::HalfOpen { direction },
            Disturbance::DropBytes { direction, per_mebibyte: one, bytes: one },
        ] {
            assert!(!matches!(rule(disturbance, Way::ToServer).0, Rule::Pass), "{disturbance:?}");
            let (mut other, mut random) = rule(disturbance, Way::ToClient);
            assert_eq!(other.intake(&Queue::default(), NOW), Intake::UpTo(usize::MAX));
            assert_eq!(
                other.judge(b"abc".to_vec().as_mut(), NOW, &mut random),
                Fate { kept: 3, due: AT_ONCE }
            );
        }
    }

    #[test]
    fn a_delay_lies_between_its_bounds_and_uses_all_the_room() {
        let disturbance = Disturbance::Delay { direction: Direction::Both, delay: MS * 10, jitter: MS * 4 };
        let (mut rule, mut random) = rule(disturbance, Way::ToClient);
        let late: Vec<u64> = (0..1000)
            .map(|_| rule.judge(&mut [0], NOW, &mut random).due.since(NOW) / MILLISECOND_NS)
            .collect();
        assert_eq!((late.iter().min(), late.iter().max()), (Some(&10), Some(&13)));
    }

    #[test]
    fn only_what_is_delayed_or_swallowed_is_read_while_something_waits() {
        let direction = Direction::Both;
        let one = NonZeroU32::MIN;
        let mut queue = Queue::default();
        queue.push(b"a", AT_ONCE);
        let check = |disturbance: Option<Disturbance>, expected: Intake| {
            let rule = Rule::of(disturbance, Way::ToServer, NOW, &mut Random::new(1, 1));
            assert_eq!(rule.intake(&queue, NOW + SECOND_NS), expected, "{disturbance:?}");
        };
        check(None, Intake::Blocked);
        check(Some(Disturbance::Stall), Intake::Blocked);
        check(Some(Disturbance::Throttle { direction, bytes_per_s: NonZeroU64::MAX }), Intake::Blocked);
        check(Some(Disturbance::DropBytes { direction, per_mebibyte: one, bytes: one }), Intake::Blocked);
        check(Some(Disturbance::HalfOpen { direction }), Intake::UpTo(usize::MAX));
        let room = super::super::QUEUE_BYTES_MAX - 1;
        check(Some(Disturbance::Delay { direction, delay: MS, jitter: MS }), Intake::UpTo(room));
    }

    #[test]
    fn a_stall_reads_nothing_at_all() {
        let (rule, _) = rule(Disturbance::Stall, Way::ToServer);
        assert_eq!(rule.intake(&Queue::default(), NOW), Intake::Blocked);
    }
}
