//! Computes the due times of a worker's operations: arithmetic on the operation's number.

use std::f64::consts::LN_2;

use plimsoll_measure::clock::SECOND_NS;

use crate::arrivals::{Arrivals, Share, Stage};
use crate::mix::scramble;

/// The due times of one worker's operations, in nanoseconds from the load's start, in ascending order.
#[derive(Clone, Debug)]
pub struct Schedule {
    pattern: Pattern,
    share: Share,
    next: u64,
}

#[derive(Clone, Debug)]
enum Pattern {
    Segments(Vec<Segment>),
    Poisson { mean_gap_ns: f64, at_ns: f64, seed: u64 },
}

/// A period with a linear rate.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from_ns: f64,
    length_ns: f64,
    rate: f64,
    rate_end: f64,
    /// Operations of the whole plan that are due before this period.
    before: f64,
}

impl Segment {
    fn operations(&self) -> f64 {
        (self.rate + self.rate_end) / 2.0 * self.length_ns / SECOND_NS as f64
    }

    /// The due time of the `count`-th operation of the period (a real number), which solves `count = rate·t +
    /// slope·t²/2` for t in its numerically stable form.
    fn due_ns(&self, count: f64) -> f64 {
        let slope = (self.rate_end - self.rate) / (self.length_ns / SECOND_NS as f64);
        let root = (self.rate * self.rate + 2.0 * slope * count).max(0.0).sqrt();
        // A period with a rate of zero gives no finite time: no operation is ever due in it.
        let seconds = if slope == 0.0 { count / self.rate } else { 2.0 * count / (self.rate + root) };
        let at_once = count == 0.0 && self.rate + self.rate_end > 0.0;
        self.from_ns + if at_once { 0.0 } else { seconds * SECOND_NS as f64 }
    }
}

impl Schedule {
    /// The schedule of one worker; none for closed arrivals.
    pub fn new(arrivals: &Arrivals, share: Share, seed: u64) -> Option<Self> {
        let pattern = match arrivals {
            Arrivals::Closed { .. } | Arrivals::Writers { .. } => return None,
            Arrivals::Constant { rate, .. } => Pattern::Segments(segments([(*rate, *rate, f64::INFINITY)])),
            Arrivals::Poisson { rate, .. } => Pattern::Poisson {
                // Independent Poisson streams of a K-th of the rate add up to one stream of the whole rate.
                mean_gap_ns: SECOND_NS as f64 * share.of as f64 / rate,
                at_ns: 0.0,
                seed: scramble(seed, share.index),
            },
            Arrivals::Ramp { from, to, over, .. } => {
                Pattern::Segments(segments([(*from, *to, over.as_ns() as f64), (*to, *to, f64::INFINITY)]))
            }
            Arrivals::Steps { rates, every, .. } => {
                let last = rates.last().map(|rate| (*rate, *rate, f64::INFINITY));
                let steps = rates.iter().map(|rate| (*rate, *rate, every.as_ns() as f64));
                Pattern::Segments(segments(steps.chain(last)))
            }
            Arrivals::Rates { from, stages, .. } => Pattern::Segments(segments(piecewise(*from, stages))),
        };
        Some(Self { pattern, share, next: 0 })
    }

    /// The due time of the next operation, and its number within the whole plan. The first is due at once, or
    /// after the first random gap. None when no further operation will be due.
    pub fn peek(&self) -> Option<(u64, u64)> {
        let number = self.share.index + self.next * self.share.of;
        match &self.pattern {
            Pattern::Poisson { mean_gap_ns, at_ns, seed } => {
                Some(((at_ns + gap(*seed, self.next) * mean_gap_ns) as u64, number))
            }
            Pattern::Segments(segments) => {
                let count = number as f64;
                let after = segments.partition_point(|segment| segment.before <= count);
                let segment = segments.get(after.checked_sub(1)?)?;
                let due_ns = segment.due_ns(count - segment.before);
                due_ns.is_finite().then_some((due_ns.round() as u64, number))
            }
        }
    }

    /// As [`Self::peek`], and advances.
    pub fn take(&mut self) -> Option<(u64, u64)> {
        let next = self.peek()?;
        if let Pattern::Poisson { mean_gap_ns, at_ns, seed } = &mut self.pattern {
            *at_ns += gap(*seed, self.next) * *mean_gap_ns;
        }
        self.next += 1;
        Some(next)
    }
}

/// Each stage as (rate, rate at its end, length in nanoseconds), and the last rate for ever. A stage without
/// length is a jump and has no period.
fn piecewise(from: f64, stages: &[Stage<f64>]) -> impl Iterator<Item = (f64, f64, f64)> {
    let mut rate = from;
    let mut moved = Vec::with_capacity(stages.len() + 1);
    for stage in stages {
        if stage.over.as_ns() > 0 {
            moved.push((rate, stage.to, stage.over.as_ns() as f64));
        }
        rate = stage.to;
    }
    moved.push((rate, rate, f64::INFINITY));
    moved.into_iter()
}

fn segments(stretches: impl IntoIterator<Item = (f64, f64, f64)>) -> Vec<Segment> {
    let mut built: Vec<Segment> = Vec::new();
    for (rate, rate_end, length_ns) in stretches {
        let (from_ns, before) = built
            .last()
            .map_or((0.0, 0.0), |last| (last.from_ns + last.length_ns, last.before + last.operations()));
        built.push(Segment { from_ns, length_ns, rate, rate_end, before });
    }
    built
}

/// The `index`-th exponential gap of mean one.
fn gap(seed: u64, index: u64) -> f64 {
    // 53 random bits, shifted off zero so that the logarithm stays finite.
    let uniform = ((scramble(seed, index) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -uniform.log2() * LN_2
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::duration::Span;

    use super::*;

    fn due(arrivals: &Arrivals, share: Share, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, share, 42).unwrap();
        (0..count).map(|_| schedule.take().unwrap().0).collect()
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let arrivals = Arrivals::Constant { rate: 1000.0, connections: 1 };
        assert_eq!(due(&arrivals, Share::WHOLE, 4), [0, 1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn the_shares_of_all_workers_make_the_whole() {
        for arrivals in [
            Arrivals::Constant { rate: 777.0, connections: 1 },
            Arrivals::Ramp { from: 0.0, to: 500.0, over: Span::from_secs(2), connections: 1 },
            Arrivals::Steps { rates: vec![100.0, 300.0], every: Span::from_secs(1), connections: 1 },
            stages(0.0, &[(100.0, 1), (300.0, 0), (50.0, 2)]),
        ] {
            let whole = due(&arrivals, Share::WHOLE, 300);
            let mut parts: Vec<_> =
                (0..3).flat_map(|index| due(&arrivals, Share { index, of: 3 }, 100)).collect();
            parts.sort_unstable();
            assert_eq!(parts, whole, "{arrivals:?}");
        }
    }

    #[test]
    fn a_ramp_sends_half_of_its_end_rate_on_average() {
        let arrivals = Arrivals::Ramp { from: 0.0, to: 1000.0, over: Span::from_secs(10), connections: 1 };
        let on_the_way =
            due(&arrivals, Share::WHOLE, 6000).into_iter().filter(|ns| *ns < 10 * SECOND_NS).count();
        assert_eq!(on_the_way, 5000);
        assert!(due(&arrivals, Share::WHOLE, 6000).is_sorted());
    }

    #[test]
    fn a_ramp_to_nothing_ends() {
        let arrivals = Arrivals::Ramp { from: 100.0, to: 0.0, over: Span::from_secs(2), connections: 1 };
        let mut schedule = Schedule::new(&arrivals, Share::WHOLE, 0).unwrap();
        let count = std::iter::from_fn(|| schedule.take()).take(1000).count();
        assert!((100..=101).contains(&count), "{count}");
    }

    #[test]
    fn steps_jump_to_the_next_rate() {
        let arrivals = Arrivals::Steps { rates: vec![10.0, 20.0], every: Span::from_secs(1), connections: 1 };
        let times = due(&arrivals, Share::WHOLE, 51);
        assert_eq!(times.iter().filter(|ns| **ns < SECOND_NS).count(), 10);
        assert_eq!(times.iter().filter(|ns| (SECOND_NS..2 * SECOND_NS).contains(*ns)).count(), 20);
        assert_eq!(times[50], 3 * SECOND_NS);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let arrivals = Arrivals::Poisson { rate: 1000.0, connections: 1 };
        let times = due(&arrivals, Share::WHOLE, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "mean {mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "deviation {deviation}");
    }

    fn stages(from: f64, stages: &[(f64, u64)]) -> Arrivals {
        let stages = stages.iter().map(|(to, over_s)| Stage { to: *to, over: Span::from_secs(*over_s) });
        Arrivals::Rates { from, stages: stages.collect(), connections: 1 }
    }

    #[test]
    fn stages_are_due_where_the_integral_of_the_rate_says() {
        // Up to 8/s in 2 s (8 operations), 3 s at 8/s (24), down to zero in 2 s (8).
        let arrivals = stages(0.0, &[(8.0, 2), (8.0, 3), (0.0, 2)]);
        let mut schedule = Schedule::new(&arrivals, Share::WHOLE, 0).unwrap();
        let times: Vec<u64> = std::iter::from_fn(|| schedule.take()).take(100).map(|(due, _)| due).collect();
        // The 41st is never due: the rate has reached zero.
        assert_eq!(times.len(), 40);
        let second = SECOND_NS as f64;
        for (number, due) in times.iter().enumerate() {
            let n = number as f64;
            let exact = match n {
                n if n <= 8.0 => (n / 2.0).sqrt(),
                n if n <= 32.0 => 2.0 + (n - 8.0) / 8.0,
                n => 7.0 - ((40.0 - n) / 2.0).sqrt(),
            };
            assert_eq!(*due, (exact * second).round() as u64, "operation {number}");
        }
    }

    #[test]
    fn a_stage_without_length_jumps_and_a_stage_at_zero_pauses() {
        let arrivals = stages(2.0, &[(2.0, 1), (0.0, 0), (0.0, 10), (4.0, 0), (4.0, 1)]);
        let times = due(&arrivals, Share::WHOLE, 6);
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(times, [ms(0), ms(500), ms(11_000), ms(11_250), ms(11_500), ms(11_750)]);
    }
}
