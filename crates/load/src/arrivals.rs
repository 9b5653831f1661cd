//! When operations are due: a pure function of their number, which never waits for a response.

use std::f64::consts::LN_2;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mix::scramble;

/// Connections of an open load when the scenario does not say.
pub const CONNECTIONS_DEFAULT: u32 = 16;
/// More than this many operations a second is taken for a slip of the pen.
pub const RATE_MAX: f64 = 100_000_000.0;
/// More connections than this to one load are refused.
pub const CONNECTIONS_MAX: u32 = 20_000;

/// How operations arrive, as typed. Rates are operations per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Each writer sends its next operation when the last one is answered. Saturation is hidden.
    Closed {
        /// Connections, each with one operation in flight.
        writers: u32,
    },
    /// Evenly spaced.
    Constant {
        /// Operations per second.
        rate: f64,
        /// Connections: as many operations can be in flight.
        #[serde(default = "connections_default")]
        connections: u32,
    },
    /// Randomly spaced, as independent users arrive: exponential gaps.
    Poisson {
        /// Operations per second on average.
        rate: f64,
        /// Connections.
        #[serde(default = "connections_default")]
        connections: u32,
    },
    /// The rate moves evenly from one value to another.
    Ramp {
        /// Operations per second at the start.
        from: f64,
        /// Operations per second at the end.
        to: f64,
        /// How long the way takes; the last rate stays after it.
        over: Span,
        /// Connections.
        #[serde(default = "connections_default")]
        connections: u32,
    },
    /// The rate jumps from one value to the next.
    Steps {
        /// Operations per second, one value a step.
        rates: Vec<f64>,
        /// Length of a step; the last rate stays after it.
        every: Span,
        /// Connections.
        #[serde(default = "connections_default")]
        connections: u32,
    },
}

const fn connections_default() -> u32 {
    CONNECTIONS_DEFAULT
}

/// An arrival model that cannot be meant.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A rate out of bounds.
    #[error("a rate of {0} operations/s: give a number over 0 and up to {RATE_MAX}")]
    Rate(f64),
    /// No connection, or too many.
    #[error("{0} connections: give a number from 1 to {CONNECTIONS_MAX}")]
    Connections(u32),
    /// A list of steps without a step.
    #[error("steps without a rate: list at least one, for example rates: [100, 200, 400]")]
    NoSteps,
    /// A stretch of time without length.
    #[error("`{0}` must be longer than zero, for example 10s")]
    NoTime(&'static str),
}

impl Arrivals {
    /// Connections, which bound the operations in flight.
    pub const fn connections(&self) -> u32 {
        match self {
            Self::Closed { writers } => *writers,
            Self::Constant { connections, .. }
            | Self::Poisson { connections, .. }
            | Self::Ramp { connections, .. }
            | Self::Steps { connections, .. } => *connections,
        }
    }

    /// Whether the schedule does not wait for responses.
    pub const fn is_open(&self) -> bool {
        !matches!(self, Self::Closed { .. })
    }

    /// Checks every number against its bounds.
    ///
    /// # Errors
    /// The first number that is out of bounds.
    pub fn check(&self) -> Result<(), Error> {
        let connections = self.connections();
        if connections == 0 || connections > CONNECTIONS_MAX {
            return Err(Error::Connections(connections));
        }
        match self {
            Self::Closed { .. } => Ok(()),
            Self::Constant { rate, .. } | Self::Poisson { rate, .. } => check_rate(*rate, 0.0),
            Self::Ramp { from, to, over, .. } => {
                check_length(*over, "over")?;
                // A ramp may start or end at nothing, not both.
                check_rate(*from, -1.0).and(check_rate(*to, -1.0)).and(check_rate(from + to, 0.0))
            }
            Self::Steps { rates, every, .. } => {
                check_length(*every, "every")?;
                if rates.is_empty() {
                    return Err(Error::NoSteps);
                }
                rates.iter().try_for_each(|rate| check_rate(*rate, 0.0))
            }
        }
    }

    /// A few words for reports: `constant 1000/s over 16 connections`.
    pub fn describe(&self) -> String {
        let connections = self.connections();
        match self {
            Self::Closed { writers } => format!("closed, {writers} writers"),
            Self::Constant { rate, .. } => format!("constant {rate:.0}/s over {connections} connections"),
            Self::Poisson { rate, .. } => format!("poisson {rate:.0}/s over {connections} connections"),
            Self::Ramp { from, to, over, .. } => {
                format!("ramp {from:.0}/s to {to:.0}/s in {over} over {connections} connections")
            }
            Self::Steps { rates, every, .. } => {
                let rates: Vec<_> = rates.iter().map(|rate| format!("{rate:.0}/s")).collect();
                format!("steps {} every {every} over {connections} connections", rates.join(", "))
            }
        }
    }
}

fn check_rate(rate: f64, above: f64) -> Result<(), Error> {
    if rate.is_finite() && rate > above && (0.0..=RATE_MAX).contains(&rate) {
        Ok(())
    } else {
        Err(Error::Rate(rate))
    }
}

fn check_length(span: Span, name: &'static str) -> Result<(), Error> {
    if span.as_ns() > 0 { Ok(()) } else { Err(Error::NoTime(name)) }
}

/// Which part of a plan's operations one worker sends: every `of`-th, starting at `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// This worker, counted over all shards.
    pub index: u64,
    /// Workers over all shards.
    pub of: u64,
}

impl Share {
    /// The whole plan in one worker.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// This worker's part of `total` things.
    pub const fn part(self, total: u64) -> u64 {
        total / self.of + (self.index < total % self.of) as u64
    }
}

/// The due times of one worker's operations, in nanoseconds from the phase's start, never falling.
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

/// A stretch in which the rate moves evenly.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from_ns: f64,
    length_ns: f64,
    rate: f64,
    rate_end: f64,
    /// Operations of the whole plan due before this stretch.
    before: f64,
}

impl Segment {
    fn operations(&self) -> f64 {
        (self.rate + self.rate_end) / 2.0 * self.length_ns / SECOND_NS as f64
    }

    /// When the `count`-th operation of the stretch (a real number) is due, solving
    /// `count = rate·t + slope·t²/2` for t in its numerically stable form.
    fn due_ns(&self, count: f64) -> f64 {
        let slope = (self.rate_end - self.rate) / (self.length_ns / SECOND_NS as f64);
        let root = (self.rate * self.rate + 2.0 * slope * count).max(0.0).sqrt();
        let seconds = if slope == 0.0 { count / self.rate } else { 2.0 * count / (self.rate + root) };
        self.from_ns + if count == 0.0 { 0.0 } else { seconds * SECOND_NS as f64 }
    }
}

impl Schedule {
    /// The schedule of one worker; nothing for closed arrivals, which have none.
    pub fn new(arrivals: &Arrivals, share: Share, seed: u64) -> Option<Self> {
        let pattern = match arrivals {
            Arrivals::Closed { .. } => return None,
            Arrivals::Constant { rate, .. } => Pattern::Segments(segments([(*rate, *rate, f64::INFINITY)])),
            Arrivals::Poisson { rate, .. } => Pattern::Poisson {
                // Independent Poisson streams of a K-th of the rate add up to one of the whole rate.
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
        };
        Some(Self { pattern, share, next: 0 })
    }

    /// When the next operation is due and its number within the whole plan; the first is due at once, or after the
    /// first random gap. Nothing when no further operation will ever be due.
    pub fn peek(&self) -> Option<(u64, u64)> {
        let number = self.share.index + self.next * self.share.of;
        match &self.pattern {
            Pattern::Poisson { mean_gap_ns, at_ns, seed } => {
                Some(((at_ns + gap(*seed, self.next) * mean_gap_ns) as u64, number))
            }
            Pattern::Segments(segments) => {
                let count = number as f64;
                let segment = segments.iter().rev().find(|segment| segment.before <= count)?;
                let due_ns = segment.due_ns(count - segment.before);
                due_ns.is_finite().then_some((due_ns.round() as u64, number))
            }
        }
    }

    /// As [`Self::peek`], and moves on.
    pub fn take(&mut self) -> Option<(u64, u64)> {
        let next = self.peek()?;
        if let Pattern::Poisson { mean_gap_ns, at_ns, seed } = &mut self.pattern {
            *at_ns += gap(*seed, self.next) * *mean_gap_ns;
        }
        self.next += 1;
        Some(next)
    }
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
        ] {
            let whole = due(&arrivals, Share::WHOLE, 300);
            let mut parts: Vec<_> =
                (0..3).flat_map(|index| due(&arrivals, Share { index, of: 3 }, 100)).collect();
            parts.sort_unstable();
            assert_eq!(parts, whole, "{arrivals:?}");
        }
    }

    #[test]
    fn a_ramp_sends_half_of_its_end_rate_on_the_way() {
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

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        for (arrivals, message) in [
            (Arrivals::Constant { rate: 0.0, connections: 1 }, "over 0"),
            (Arrivals::Poisson { rate: f64::NAN, connections: 1 }, "over 0"),
            (Arrivals::Closed { writers: 0 }, "from 1"),
            (Arrivals::Steps { rates: vec![], every: Span::from_secs(1), connections: 1 }, "at least one"),
            (Arrivals::Ramp { from: 0.0, to: 0.0, over: Span::from_secs(1), connections: 1 }, "over 0"),
            (
                Arrivals::Ramp { from: 1.0, to: 2.0, over: Span::default(), connections: 1 },
                "longer than zero",
            ),
        ] {
            assert!(arrivals.check().unwrap_err().to_string().contains(message), "{arrivals:?}");
        }
    }

    #[test]
    fn parts_of_a_total_add_up() {
        for total in [0, 1, 7, 1000] {
            assert_eq!((0..3).map(|index| Share { index, of: 3 }.part(total)).sum::<u64>(), total);
        }
    }
}
