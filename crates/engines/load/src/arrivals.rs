//! Defines when operations are due: a pure function of their number, which never waits for a response.

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default number of connections of an open load.
pub const CONNECTIONS_DEFAULT: u32 = 16;
/// The highest accepted rate: a higher one counts as a typing error.
pub const RATE_MAX: f64 = 100_000_000.0;
/// The limit of connections of one load.
pub const CONNECTIONS_MAX: u32 = 20_000;
/// The limit of stages.
pub const STAGES_MAX: usize = 1000;

/// A period in which a rate, or a number of writers, changes linearly to the next value, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage<T> {
    /// The value at the end of the stage.
    pub to: T,
    /// The length of the stage; zero jumps to the value.
    pub over: Span,
}

/// How operations arrive. Rates are operations per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Each writer sends its next operation after the last answer. Saturation stays hidden.
    Closed {
        /// Connections, each with one operation in flight.
        writers: u32,
    },
    /// As closed, with a number of writers that changes by stages: a surplus writer finishes its operation
    /// and pauses.
    Writers {
        /// Writers at the start.
        #[serde(default)]
        from: u32,
        /// The stages of the number; the last value stays.
        stages: Vec<Stage<u32>>,
    },
    /// Evenly spaced.
    Constant {
        /// Operations per second.
        rate: f64,
        /// Connections, which limit the operations in flight.
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
    /// The rate changes linearly from one value to another.
    Ramp {
        /// Operations per second at the start.
        from: f64,
        /// Operations per second at the end.
        to: f64,
        /// The length of the change; the last rate stays.
        over: Span,
        /// Connections.
        #[serde(default = "connections_default")]
        connections: u32,
    },
    /// The rate jumps from one value to the next.
    Steps {
        /// Operations per second, one value for each step.
        rates: Vec<f64>,
        /// The length of a step; the last rate stays.
        every: Span,
        /// Connections.
        #[serde(default = "connections_default")]
        connections: u32,
    },
    /// The rate changes linearly from one value to the next, stage by stage.
    Rates {
        /// Operations per second at the start.
        #[serde(default)]
        from: f64,
        /// The stages of the rate; the last value stays.
        stages: Vec<Stage<f64>>,
        /// Connections.
        #[serde(default = "connections_default")]
        connections: u32,
    },
}

const fn connections_default() -> u32 {
    CONNECTIONS_DEFAULT
}

/// An arrival model is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A rate is out of bounds.
    #[error("a rate of {0} operations/s: give a number over 0 and up to {RATE_MAX}")]
    Rate(f64),
    /// The number of connections is out of bounds.
    #[error("{0} connections: give a number from 1 to {CONNECTIONS_MAX}")]
    Connections(u32),
    /// The list of steps is empty.
    #[error("steps without a rate: list at least one, for example rates: [100, 200, 400]")]
    NoSteps,
    /// The list of stages is empty or too long.
    #[error("{0} stages: list from 1 to {STAGES_MAX}, for example stages: [{{to: 100, over: 30s}}]")]
    Stages(usize),
    /// A length is zero.
    #[error("`{0}` must be longer than zero, for example 10s")]
    NoTime(&'static str),
}

impl Arrivals {
    /// Connections, which bound the operations in flight.
    pub fn connections(&self) -> u32 {
        match self {
            Self::Closed { writers } => *writers,
            Self::Writers { from, stages } => stages.iter().map(|stage| stage.to).fold(*from, u32::max),
            Self::Constant { connections, .. }
            | Self::Poisson { connections, .. }
            | Self::Ramp { connections, .. }
            | Self::Steps { connections, .. }
            | Self::Rates { connections, .. } => *connections,
        }
    }

    /// The highest rate, in operations per second; none for closed arrivals.
    pub fn peak(&self) -> Option<f64> {
        match self {
            Self::Closed { .. } | Self::Writers { .. } => None,
            Self::Constant { rate, .. } | Self::Poisson { rate, .. } => Some(*rate),
            Self::Ramp { from, to, .. } => Some(from.max(*to)),
            Self::Steps { rates, .. } => Some(rates.iter().copied().fold(0.0, f64::max)),
            Self::Rates { from, stages, .. } => {
                Some(stages.iter().map(|stage| stage.to).fold(*from, f64::max))
            }
        }
    }

    /// Whether arrivals are open, that is, never wait for responses.
    pub const fn is_open(&self) -> bool {
        !matches!(self, Self::Closed { .. } | Self::Writers { .. })
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
            Self::Writers { stages, .. } => check_stages(stages.len()),
            Self::Rates { from, stages, .. } => {
                check_stages(stages.len())?;
                let rates = || std::iter::once(*from).chain(stages.iter().map(|stage| stage.to));
                // A rate may be zero for a time, but not always.
                rates().try_for_each(|rate| check_rate(rate, -1.0))?;
                check_rate(rates().fold(0.0, f64::max), 0.0)
            }
            Self::Constant { rate, .. } | Self::Poisson { rate, .. } => check_rate(*rate, 0.0),
            Self::Ramp { from, to, over, .. } => {
                check_length(*over, "over")?;
                // A ramp may start or end at zero, not both.
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

    /// Formats the arrivals for reports: `constant 1000/s over 16 connections`.
    pub fn describe(&self) -> String {
        let connections = self.connections();
        match self {
            Self::Closed { writers } => format!("closed, {writers} writers"),
            Self::Writers { from, stages } => {
                let stages: Vec<_> =
                    stages.iter().map(|stage| format!("{} in {}", stage.to, stage.over)).collect();
                format!("closed, {from} writers, then {}", stages.join(", "))
            }
            Self::Rates { from, stages, .. } => {
                let stages: Vec<_> =
                    stages.iter().map(|stage| format!("{:.0}/s in {}", stage.to, stage.over)).collect();
                format!("rates {from:.0}/s, then {} over {connections} connections", stages.join(", "))
            }
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

const fn check_stages(count: usize) -> Result<(), Error> {
    if count == 0 || count > STAGES_MAX { Err(Error::Stages(count)) } else { Ok(()) }
}

fn check_length(span: Span, name: &'static str) -> Result<(), Error> {
    if span.as_ns() > 0 { Ok(()) } else { Err(Error::NoTime(name)) }
}

/// The share of a plan's operations that one worker sends: every `of`-th, starting at `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The worker's index over all shards.
    pub index: u64,
    /// The number of workers over all shards.
    pub of: u64,
}

impl Share {
    /// The whole plan in one worker.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// This worker's part of `total`.
    pub const fn part(self, total: u64) -> u64 {
        total / self.of + (self.index < total % self.of) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(from: f64, to: &[f64]) -> Arrivals {
        let stages = to.iter().map(|to| Stage { to: *to, over: Span::from_secs(1) }).collect();
        Arrivals::Rates { from, stages, connections: 1 }
    }

    #[test]
    fn a_rate_may_be_zero_at_either_end_and_peaks_in_between() {
        assert_eq!(rates(0.0, &[100.0, 0.0]).check(), Ok(()));
        assert_eq!(rates(5.0, &[100.0, 0.0]).peak(), Some(100.0));
        assert_eq!(Arrivals::Closed { writers: 3 }.peak(), None);
    }

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        for (arrivals, message) in [
            (Arrivals::Constant { rate: 0.0, connections: 1 }, "over 0"),
            (Arrivals::Poisson { rate: f64::NAN, connections: 1 }, "over 0"),
            (Arrivals::Closed { writers: 0 }, "from 1"),
            (Arrivals::Steps { rates: vec![], every: Span::from_secs(1), connections: 1 }, "at least one"),
            (Arrivals::Ramp { from: 0.0, to: 0.0, over: Span::from_secs(1), connections: 1 }, "over 0"),
            (Arrivals::Writers { from: 1, stages: vec![] }, "0 stages"),
            (
                Arrivals::Writers { from: 0, stages: vec![Stage { to: 0, over: Span::from_secs(1) }] },
                "from 1",
            ),
            (rates(0.0, &[0.0]), "over 0"),
            (rates(1.0, &[-1.0]), "over 0"),
            (rates(1.0, &[f64::INFINITY]), "over 0"),
            (rates(1.0, &[]), "0 stages"),
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
