//! Defines the result of another tool in our terms.
//!
//! It holds only values from the file or derived exactly from its samples. Other values are absent.

use std::collections::BTreeMap;

use serde::Serialize;

use super::distribution::Distribution;

/// The version of the JSON form of [`Foreign`].
pub const FORMAT: u32 = 1;

/// A result of another tool. All times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Foreign {
    /// Version of this form: 1.
    pub format: u32,
    /// The tool that wrote it.
    pub tool: Tool,
    /// Its version, if the file has it.
    pub version: Option<String>,
    /// The form of the file.
    pub form: Form,
    /// The title in the tool's words: a script, an address.
    pub title: Option<String>,
    /// Its start (RFC 3339), if the file has it.
    pub started: Option<String>,
    /// The duration in seconds.
    pub duration_s: Option<f64>,
    /// The figures of each operation.
    pub operations: Vec<Operation>,
    /// The thresholds.
    pub thresholds: Vec<Threshold>,
    /// The checks of answers.
    pub checks: Vec<Check>,
    /// All other metrics.
    pub metrics: Vec<Metric>,
    /// Every second, where the file holds samples.
    pub seconds: Vec<Second>,
    /// Caveats for the figures, in sentences.
    pub notes: Vec<String>,
}

impl Foreign {
    /// An empty result of `tool`.
    pub const fn new(tool: Tool, form: Form) -> Self {
        Self {
            format: FORMAT,
            tool,
            version: None,
            form,
            title: None,
            started: None,
            duration_s: None,
            operations: Vec::new(),
            thresholds: Vec::new(),
            checks: Vec::new(),
            metrics: Vec::new(),
            seconds: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// A supported tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// k6.
    K6,
    /// wrk.
    Wrk,
    /// wrk2.
    Wrk2,
    /// YCSB.
    Ycsb,
    /// oha.
    Oha,
    /// Plimsoll, in k6's form.
    Plimsoll,
}

/// A form that a tool writes its results in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The data of k6's `handleSummary`, as JSON.
    K6Summary,
    /// The output of `k6 run --summary-export`.
    K6SummaryExport,
    /// k6's machine-readable summary 1.0.0.
    K6MachineSummary,
    /// The output of `k6 run --out json`: every sample.
    K6Samples,
    /// The tool's printed output.
    Text,
    /// The tool's JSON.
    Json,
}

/// The moment from which latencies count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// From the due time, as our response time: the wait of a user of the service.
    Due,
    /// From sending, as our service time. Waiting before sending is missing: coordinated omission is possible.
    Sent,
    /// The file does not say.
    Unknown,
}

/// The operations that latencies cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// All answered operations, failed ones included.
    All,
    /// Successful operations.
    Successes,
    /// Failed operations.
    Failures,
}

/// One kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// The number of ended operations, failed ones included.
    pub count: Option<u64>,
    /// The number of ended operations per second.
    pub rate_per_s: Option<f64>,
    /// The number of failed operations.
    pub failed: Option<u64>,
    /// Failures by the tool's classes. They need not add up to `failed`: a tool may count errors that are not failed
    /// operations.
    pub errors: BTreeMap<String, u64>,
    /// The latencies, once for each way of counting.
    pub times: Vec<Times>,
}

/// Latencies of operations, counted in one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The moment from which they count.
    pub since: Since,
    /// The covered operations.
    pub of: Of,
    /// The numbers, in nanoseconds.
    pub ns: Distribution,
}

/// A threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// The metric, as the tool names it.
    pub metric: String,
    /// The expression, in the tool's grammar and units.
    pub expression: String,
    /// The measured value, in the expression's unit.
    pub value: Option<f64>,
    /// Whether it held; absent where that cannot be known.
    pub held: Option<bool>,
}

/// A check of answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The groups around the check, such as `::login::token`; empty for none.
    pub group: String,
    /// Its name.
    pub name: String,
    /// The number of answers that passed.
    pub passes: u64,
    /// The number of answers that failed.
    pub fails: u64,
}

/// A metric that belongs to no operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Its name, as the tool gives it.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Its numbers.
    pub values: Values,
}

impl Metric {
    /// A sum, with its rate per second.
    pub(super) fn counter(name: &str, unit: Unit, count: f64, rate_per_s: Option<f64>) -> Self {
        Self { name: name.to_owned(), unit, values: Values::Counter { count, rate_per_s } }
    }

    /// A single value without a unit.
    pub(super) fn gauge(name: impl Into<String>, value: f64) -> Self {
        let values = Values::Gauge { value, min: None, max: None };
        Self { name: name.into(), unit: Unit::Plain, values }
    }
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// No unit, or an unknown one.
    Plain,
}

/// The numbers of a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Values {
    /// A sum.
    Counter {
        /// The sum.
        count: f64,
        /// The sum per second of the test.
        rate_per_s: Option<f64>,
    },
    /// A value that rises and falls.
    Gauge {
        /// The last value.
        value: f64,
        /// The smallest.
        min: Option<f64>,
        /// The largest.
        max: Option<f64>,
    },
    /// A share of observations.
    Share {
        /// The share of true observations, 0 to 1.
        share: f64,
        /// The number of true observations.
        yes: Option<u64>,
        /// The number of observations.
        total: Option<u64>,
    },
    /// A distribution.
    Trend(Distribution),
}

/// One second, by operation. An operation belongs to the second of its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Seconds from the first sample to this second's start.
    pub from_s: u64,
    /// The counts of each operation.
    pub operations: BTreeMap<String, SecondLine>,
}

/// One operation in one second. Its percentiles may have too few values behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SecondLine {
    /// The number of ended operations.
    pub count: u64,
    /// The number of failed operations.
    pub failed: u64,
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Largest in nanoseconds.
    pub max_ns: u64,
}
