//! Applies disturbances to one direction of one connection: decides how much is read, and which bytes pass.

use std::time::Duration;

use plimsoll_measure::clock::Instant;

use super::bucket::Bucket;
use super::disturbance::{Disturbance, OneWay};
use super::loss::Loss;
use super::queue::{AT_ONCE, Queue};
use super::random::Random;

/// The combined effect of all disturbances of this direction. By default everything passes.
#[derive(Debug, Default)]
pub(super) struct Rule {
    stalled: bool,
    swallowing: bool,
    /// One loss for each disturbance that drops bytes.
    losses: Vec<Loss>,
    /// The bucket of the slowest throttle; `None` without a throttle.
    bucket: Option<Bucket>,
    /// One entry for each delay.
    delays: Vec<Delay>,
}

/// The delay of each chunk: `delay_ns`, and a random time below `jitter_ns`.
#[derive(Clone, Copy, Debug)]
struct Delay {
    delay_ns: u64,
    jitter_ns: u64,
}

/// The decision whether to read now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// Read at most this many bytes.
    UpTo(usize),
    /// Read again at this moment.
    From(Instant),
    /// Read again after a delivery, or after the disturbances change.
    Blocked,
}

/// The decision about a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The number of bytes, from the beginning of the chunk, that pass; the others are dropped.
    pub(super) kept: usize,
    /// The due time of the bytes that pass.
    pub(super) due: Instant,
}

impl Rule {
    /// Combines the disturbances of one direction; `now` is the moment at which the combination begins.
    pub(super) fn of(disturbances: &[Disturbance], way: OneWay, now: Instant, random: &mut Random) -> Self {
        let mut rule = Rule::default();
        let mut narrowest: Option<u64> = None;
        for disturbance in disturbances.iter().filter(|disturbance| disturbance.covers(way)) {
            match *disturbance {
                Disturbance::Delay { delay, jitter, .. } => {
                    rule.delays.push(Delay { delay_ns: nanoseconds(delay), jitter_ns: nanoseconds(jitter) })
                }
                Disturbance::Throttle { bytes_per_s, .. } => {
                    narrowest =
                        Some(narrowest.map_or(bytes_per_s.get(), |known| known.min(bytes_per_s.get())));
                }
                Disturbance::HalfOpen { .. } => rule.swallowing = true,
                Disturbance::DropBytes { per_mebibyte, bytes, .. } => {
                    rule.losses.push(Loss::new(per_mebibyte, bytes, random));
                }
                // A cut or reset connection never asks for a rule.
                Disturbance::Stall | Disturbance::Cut | Disturbance::Reset => rule.stalled = true,
            }
        }
        rule.bucket = narrowest.map(|bytes_per_s| Bucket::new(bytes_per_s, now));
        rule
    }

    /// Whether nothing moves.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether everything is read and nothing delivered.
    pub(super) fn is_swallowing(&self) -> bool {
        self.swallowing && !self.stalled
    }

    /// Whether bytes are delayed.
    pub(super) fn is_delaying(&self) -> bool {
        !self.delays.is_empty()
    }

    /// Decides whether to read while `queue` waits to be delivered. Only delayed bytes queue up. All other
    /// bytes are read after earlier bytes were delivered, so that a slow receiver slows its sender down.
    pub(super) fn intake(&self, queue: &Queue, now: Instant) -> Intake {
        let room = match self {
            _ if self.stalled => 0,
            _ if self.swallowing => return Intake::UpTo(usize::MAX),
            _ if self.is_delaying() => queue.room(),
            _ if queue.is_empty() => usize::MAX,
            _ => 0,
        };
        match &self.bucket {
            _ if room == 0 => Intake::Blocked,
            None => Intake::UpTo(room),
            Some(bucket) => match bucket.allowance(now) {
                Ok(bytes) => Intake::UpTo(usize::try_from(bytes).unwrap_or(usize::MAX).min(room)),
                Err(again) => Intake::From(again),
            },
        }
    }

    /// Decides on a chunk that was read at `now`, and moves its passing bytes to its beginning.
    pub(super) fn decide(&mut self, chunk: &mut [u8], now: Instant, random: &mut Random) -> Decision {
        if self.is_swallowing() {
            return Decision { kept: 0, due: AT_ONCE };
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.spend(chunk.len() as u64, now);
        }
        let mut kept = chunk.len();
        for loss in &mut self.losses {
            kept = loss.apply(&mut chunk[..kept], random);
        }
        Decision { kept, due: self.due(now, random) }
    }

    /// The due time of bytes that arrived at `now`.
    pub(super) fn due(&self, now: Instant, random: &mut Random) -> Instant {
        if !self.is_delaying() {
            return AT_ONCE;
        }
        let late = self.delays.iter().map(|it| it.delay_ns.saturating_add(random.below(it.jitter_ns)));
        now + late.fold(0, u64::saturating_add)
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

    fn rule(disturbance: Disturbance, way: OneWay) -> (Rule, Random) {
        let mut random = Random::new(1, 1);
        (Rule::of(&[disturbance], way, NOW, &mut random), random)
    }

    #[test]
    fn the_other_direction_and_an_undisturbed_network_pass_everything_at_once() {
        let direction = Direction::ToServer;
        let one = NonZeroU32::MIN;
        for disturbance in [
            Disturbance::Delay { direction, delay: MS, jitter: MS },
            Disturbance::Throttle { direction, bytes_per_s: NonZeroU64::MIN },
            Disturbance::HalfOpen { direction },
            Disturbance::DropBytes { direction, per_mebibyte: one, bytes: one },
        ] {
            let (own, _) = rule(disturbance, OneWay::ToServer);
            let bare = own.delays.is_empty() && own.losses.is_empty() && own.bucket.is_none();
            assert!(!bare || own.swallowing, "{disturbance:?}");
            let (mut other, mut random) = rule(disturbance, OneWay::ToClient);
            assert_eq!(other.intake(&Queue::default(), NOW), Intake::UpTo(usize::MAX));
            assert_eq!(
                other.decide(b"abc".to_vec().as_mut(), NOW, &mut random),
                Decision { kept: 3, due: AT_ONCE }
            );
        }
    }

    #[test]
    fn a_delay_lies_between_its_bounds_and_uses_the_whole_range() {
        let disturbance = Disturbance::Delay { direction: Direction::Both, delay: MS * 10, jitter: MS * 4 };
        let (mut rule, mut random) = rule(disturbance, OneWay::ToClient);
        let late: Vec<u64> = (0..1000)
            .map(|_| rule.decide(&mut [0], NOW, &mut random).due.since(NOW) / MILLISECOND_NS)
            .collect();
        assert_eq!((late.iter().min(), late.iter().max()), (Some(&10), Some(&13)));
    }

    #[test]
    fn only_delayed_or_swallowed_bytes_are_read_while_the_queue_waits() {
        let direction = Direction::Both;
        let one = NonZeroU32::MIN;
        let mut queue = Queue::default();
        queue.push(b"a", AT_ONCE);
        let check = |disturbance: Option<Disturbance>, expected: Intake| {
            let rule = Rule::of(disturbance.as_slice(), OneWay::ToServer, NOW, &mut Random::new(1, 1));
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
    fn several_disturbances_combine() {
        let direction = Direction::Both;
        let throttle = |bytes_per_s| Disturbance::Throttle {
            direction,
            bytes_per_s: NonZeroU64::new(bytes_per_s).unwrap(),
        };
        let delay = |by| Disturbance::Delay { direction, delay: MS * by, jitter: Duration::ZERO };
        let mut random = Random::new(1, 1);
        let all = [delay(10), throttle(100_000), delay(5), throttle(50_000)];
        let mut rule = Rule::of(&all, OneWay::ToServer, NOW, &mut random);
        // 50 KB a second are 1 KB in the 20 ms that may pass at once.
        let later = NOW + SECOND_NS;
        assert_eq!(rule.intake(&Queue::default(), later), Intake::UpTo(1000));
        let decision = rule.decide(&mut [0; 1000], later, &mut random);
        assert_eq!((decision.kept, decision.due.since(later)), (1000, 15 * MILLISECOND_NS));
        assert!(matches!(rule.intake(&Queue::default(), later), Intake::From(_)));
    }

    #[test]
    fn a_stall_precedes_a_half_open_network_which_precedes_the_rest() {
        let direction = Direction::Both;
        let delay = Disturbance::Delay { direction, delay: MS, jitter: MS };
        let hole = Disturbance::HalfOpen { direction };
        let mut random = Random::new(1, 1);
        let mut rule = Rule::of(&[hole, delay], OneWay::ToServer, NOW, &mut random);
        assert_eq!(rule.intake(&Queue::default(), NOW), Intake::UpTo(usize::MAX));
        assert_eq!(rule.decide(&mut [0; 9], NOW, &mut random), Decision { kept: 0, due: AT_ONCE });
        let rule = Rule::of(&[Disturbance::Stall, hole, delay], OneWay::ToServer, NOW, &mut random);
        assert_eq!((rule.is_stalled(), rule.is_swallowing()), (true, false));
        assert_eq!(rule.intake(&Queue::default(), NOW), Intake::Blocked);
    }

    #[test]
    fn losses_apply_one_after_the_other() {
        let drop = |per_mebibyte| Disturbance::DropBytes {
            direction: Direction::Both,
            per_mebibyte: NonZeroU32::new(per_mebibyte).unwrap(),
            bytes: NonZeroU32::new(100).unwrap(),
        };
        let mut random = Random::new(1, 1);
        let mut lost = |disturbances: &[Disturbance]| {
            let mut rule = Rule::of(disturbances, OneWay::ToServer, NOW, &mut random);
            let mut chunk = vec![0; 1 << 22];
            chunk.len() - rule.decide(&mut chunk, NOW, &mut random).kept
        };
        let (one, both) = (lost(&[drop(100)]), lost(&[drop(100), drop(1000)]));
        // One disturbance drops 100 bytes about 400 times in 4 MiB, both together about 4400 times: far from
        // the bounds.
        assert!((20_000..60_000).contains(&one), "{one}");
        assert!((300_000..500_000).contains(&both), "{both}");
    }

    #[test]
    fn a_stall_reads_nothing_at_all() {
        let (rule, _) = rule(Disturbance::Stall, OneWay::ToServer);
        assert_eq!(rule.intake(&Queue::default(), NOW), Intake::Blocked);
    }
}
