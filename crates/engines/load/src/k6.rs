//! Translates k6's executors, under their own names, into arrivals.

use std::borrow::Cow;

use plimsoll_measure::duration::{Span, milliseconds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::arrivals::{Arrivals, CONNECTIONS_DEFAULT, Stage};
use crate::stop::Stop;

mod typed;

pub use typed::Typed;

/// The default time limit of an executor of iterations.
const MAX_DURATION: Time = Time(Span::from_secs(600));
/// One of k6's executors. An iteration is one operation, a VU one connection. Latencies count from the due time, and an arrival
/// without a free connection is sent late and not dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Executor {
    /// `closed`, for a time.
    ConstantVus {
        /// Writers.
        #[serde(default = "one")]
        vus: u32,
        /// The length of the load.
        duration: Time,
    },
    /// `writers`: the number changes by stages, and the load ends with the last stage.
    #[serde(rename_all = "camelCase")]
    RampingVus {
        /// Writers at the start.
        #[serde(default = "one", rename = "startVUs")]
        start_vus: u32,
        /// The stages of the number.
        stages: Vec<Target<u32>>,
        /// Accepted without effect: a surplus writer finishes its operation within the operation's own time
        /// limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        graceful_ramp_down: Option<Time>,
    },
    /// `closed`, with a number of operations for each writer.
    #[serde(rename_all = "camelCase")]
    PerVuIterations {
        /// Writers.
        #[serde(default = "one")]
        vus: u32,
        /// Operations of each writer.
        #[serde(default = "one_operation")]
        iterations: u64,
        /// The time limit of the load.
        #[serde(default = "max_duration")]
        max_duration: Time,
    },
    /// `closed`, with a number of operations of all writers together; the workers have equal parts.
    #[serde(rename_all = "camelCase")]
    SharedIterations {
        /// Writers.
        #[serde(default = "one")]
        vus: u32,
        /// Operations in all.
        #[serde(default = "one_operation")]
        iterations: u64,
        /// The time limit of the load.
        #[serde(default = "max_duration")]
        max_duration: Time,
    },
    /// `constant`, for a time.
    #[serde(rename_all = "camelCase")]
    ConstantArrivalRate {
        /// Operations in each `timeUnit`.
        rate: f64,
        /// The time unit of the rate.
        #[serde(default = "second", deserialize_with = "time_unit")]
        #[schemars(with = "Time")]
        time_unit: Time,
        /// The length of the load.
        duration: Time,
        /// Connections, unless `maxVUs` is larger.
        #[serde(default, rename = "preAllocatedVUs", skip_serializing_if = "Option::is_none")]
        pre_allocated_vus: Option<u32>,
        /// Connections: all are opened before the load.
        #[serde(default, rename = "maxVUs", skip_serializing_if = "Option::is_none")]
        max_vus: Option<u32>,
    },
    /// `rates`: the rate changes by stages, and the load ends with the last stage.
    #[serde(rename_all = "camelCase")]
    RampingArrivalRate {
        /// Operations in each `timeUnit` at the start.
        #[serde(default)]
        start_rate: f64,
        /// The time unit of the rates.
        #[serde(default = "second", deserialize_with = "time_unit")]
        #[schemars(with = "Time")]
        time_unit: Time,
        /// The stages of the rate.
        stages: Vec<Target<f64>>,
        /// Connections, unless `maxVUs` is larger.
        #[serde(default, rename = "preAllocatedVUs", skip_serializing_if = "Option::is_none")]
        pre_allocated_vus: Option<u32>,
        /// Connections: all are opened before the load.
        #[serde(default, rename = "maxVUs", skip_serializing_if = "Option::is_none")]
        max_vus: Option<u32>,
    },
}

/// A stage in k6's form.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target<T> {
    /// The length of the stage; zero jumps to the target.
    pub duration: Time,
    /// The value at the end of the stage.
    pub target: T,
}

const fn one() -> u32 {
    1
}

const fn one_operation() -> u64 {
    1
}

const fn max_duration() -> Time {
    MAX_DURATION
}

const fn second() -> Time {
    Time(Span::from_secs(1))
}

/// Reads the time unit of a rate, which must not be zero.
fn time_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let time = Time::deserialize(deserializer)?;
    if time.0.as_ns() == 0 {
        return Err(D::Error::custom("timeUnit: 0 is invalid: write for example 1s or 1m"));
    }
    Ok(time)
}

/// A duration in k6's form: `1h2m3.5s`, or a number of milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Time(pub Span);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        milliseconds::deserialize(deserializer).map(Self)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<Span>();
        json_schema!({
            "description": "A number with its unit, or several, for example 1h2m3.5s; a bare number counts milliseconds.",
            "anyOf": [span, {"type": "number"}]
        })
    }
}

/// Resolved arrivals and their end.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedExecutor {
    /// The arrivals.
    pub arrivals: Arrivals,
    /// The end of the load; no limit for arrivals in Plimsoll's own form.
    pub stop: Stop,
}

impl Executor {
    /// Resolves the executor.
    pub fn resolve(&self) -> ResolvedExecutor {
        let lasting = |Time(span): &Time| Stop { duration: Some(*span), ..Stop::default() };
        match self {
            Self::ConstantVus { vus, duration } => {
                ResolvedExecutor { arrivals: Arrivals::Closed { writers: *vus }, stop: lasting(duration) }
            }
            Self::RampingVus { start_vus, stages, .. } => ResolvedExecutor {
                stop: lasting(&length(stages)),
                arrivals: Arrivals::Writers { from: *start_vus, stages: scaled(stages, |target| target) },
            },
            Self::PerVuIterations { vus, iterations, max_duration } => ResolvedExecutor {
                arrivals: Arrivals::Closed { writers: *vus },
                stop: Stop { operations_each: Some(*iterations), ..lasting(max_duration) },
            },
            Self::SharedIterations { vus, iterations, max_duration } => ResolvedExecutor {
                arrivals: Arrivals::Closed { writers: *vus },
                stop: Stop { operations: Some(*iterations), ..lasting(max_duration) },
            },
            Self::ConstantArrivalRate { rate, time_unit, duration, pre_allocated_vus, max_vus } => {
                ResolvedExecutor {
                    arrivals: Arrivals::Constant {
                        rate: rate / time_unit.0.as_secs(),
                        connections: connections(*pre_allocated_vus, *max_vus),
                    },
                    stop: lasting(duration),
                }
            }
            Self::RampingArrivalRate { start_rate, time_unit, stages, pre_allocated_vus, max_vus } => {
                ResolvedExecutor {
                    stop: lasting(&length(stages)),
                    arrivals: Arrivals::Rates {
                        from: start_rate / time_unit.0.as_secs(),
                        stages: scaled(stages, |target| target / time_unit.0.as_secs()),
                        connections: connections(*pre_allocated_vus, *max_vus),
                    },
                }
            }
        }
    }
}

fn connections(allocated: Option<u32>, most: Option<u32>) -> u32 {
    allocated.max(most).unwrap_or(CONNECTIONS_DEFAULT)
}

fn length<T>(stages: &[Target<T>]) -> Time {
    Time(Span::from_ns(stages.iter().map(|stage| stage.duration.0.as_ns()).fold(0, u64::saturating_add)))
}

fn scaled<T: Copy>(stages: &[Target<T>], scale: impl Fn(T) -> T) -> Vec<Stage<T>> {
    stages.iter().map(|stage| Stage { to: scale(stage.target), over: stage.duration.0 }).collect()
}

#[cfg(test)]
mod tests;
