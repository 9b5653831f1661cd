//! What another tool measured, in the words of this house.
//!
//! Only what the file says, or what follows exactly from its samples. What it does not say is absent.

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
    /// Who wrote it.
    pub tool: Tool,
    /// Its version, where the file says so.
    pub version: Option<String>,
    /// In which of the tool's forms.
    pub form: Form,
    /// What was run, in the tool's words: a script, an address.
    pub title: Option<String>,
    /// When it began (RFC 3339), where the file says so.
    pub started: Option<String>,
    /// How long it took, in seconds.
    pub duration_s: Option<f64>,
    /// What each operation did.
    pub operations: Vec<Operation>,
    /// What had to hold.
    pub thresholds: Vec<Threshold>,
    /// What was looked at in the answers.
    pub checks: Vec<Check>,
    /// Everything else that was measured.
    pub metrics: Vec<Metric>,
    /// Every second, where the file holds samples.
    pub seconds: Vec<Second>,
    /// What must be known before a figure is believed or compared, in sentences.
    pub notes: Vec<String>,
}

impl Foreign {
    /// A result of `tool` of which nothing is known yet.
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

/// A tool whose results can be read.
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
    /// What k6 hands to `handleSummary`, as JSON.
    K6Summary,
    /// What `k6 run --summary-export` writes.
    K6SummaryExport,
    /// k6's machine-readable summary 1.0.0.
    K6MachineSummary,
    /// What `k6 run --out json` writes: every sample.
    K6Samples,
    /// What the tool prints.
    Text,
    /// The tool's JSON.
    Json,
}

/// From when latencies are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// From when the operation was due: what a user of the service waits, as in our response time.
    Due,
    /// From when it was sent: what was held back while the service stalled is not in it (coordinated omission is
    /// possible), as in our service time.
    Sent,
    /// The file does not say.
    Unknown,
}

/// Which operations latencies are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// All that were answered, failed ones among them.
    All,
    /// Those that succeeded.
    Successes,
    /// Those that failed.
    Failures,
}

/// One kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// How many ended, failed ones among them.
    pub count: Option<u64>,
    /// How many ended in a second.
    pub rate_per_s: Option<f64>,
    /// How many of them failed.
    pub failed: Option<u64>,
    /// What failed, by the tool's classes. These need not add up to `failed`: a tool may count errors that are no
    /// operation, such as connections that could not be made.
    pub errors: BTreeMap<String, u64>,
    /// How long they took, once for each way of counting.
    pub times: Vec<Times>,
}

/// How long operations took, counted in one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// From when.
    pub since: Since,
    /// Of which operations.
    pub of: Of,
    /// The numbers, in nanoseconds.
    pub ns: Distribution,
}

/// One thing that had to hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// The metric, as the tool names it.
    pub metric: String,
    /// The expression, in the tool's grammar and units.
    pub expression: String,
    /// What was measured, in the expression's unit.
    pub value: Option<f64>,
    /// Whether it held; absent where that cannot be known.
    pub held: Option<bool>,
}

/// One thing that was looked at in answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The groups that it is in, such as `::login::token`; empty for none.
    pub group: String,
    /// What had to be so.
    pub name: String,
    /// How often it was.
    pub passes: u64,
    /// How often it was not.
    pub fails: u64,
}

/// Something that was measured besides operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Its name, as the tool gives it.
    pub name: String,
    /// What it is counted in.
    pub unit: Unit,
    /// Its numbers.
    pub values: Values,
}

/// What a metric is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Nothing, or the file does not say.
    Plain,
}

/// The numbers of a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Values {
    /// Something that adds up.
    Counter {
        /// The sum.
        count: f64,
        /// The sum in a second.
        rate_per_s: Option<f64>,
    },
    /// Something that goes up and down.
    Gauge {
        /// The last value.
        value: f64,
        /// The smallest.
        min: Option<f64>,
        /// The largest.
        max: Option<f64>,
    },
    /// Something that is so, or is not.
    Share {
        /// How much of the whole was so, 0 to 1.
        share: f64,
        /// How often it was so.
        yes: Option<u64>,
        /// How often it was looked at.
        total: Option<u64>,
    },
    /// Something that spreads.
    Trend(Distribution),
}

/// One second, by operation. An operation belongs to the second that it ended in.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Seconds from the first sample to this second's start.
    pub from_s: u64,
    /// What each operation did in it.
    pub operations: BTreeMap<String, SecondLine>,
}

/// One operation in one second. The percentiles of one second are for the eye and carry no promise of support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SecondLine {
    /// How many ended.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Largest in nanoseconds.
    pub max_ns: u64,
}
