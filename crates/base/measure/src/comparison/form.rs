//! Defines a comparison: `comparison.json`, format 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, ServerFacts};

/// The version of the file's form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// B compared with A. Unknown values are absent or null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this form: 1.
    pub format: u32,
    /// The title of A's scenario.
    pub title: String,
    /// When its first run was started, in UTC (RFC 3339).
    pub started: String,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
    /// Expectations of the scenario that did not hold in some run of either side.
    #[serde(default)]
    pub broken: Vec<Broken>,
    /// Whether operations failed in B but none in A, or B is shown to fail a larger share of its operations. Always false for
    /// searches, which exceed the load line on purpose.
    #[serde(default)]
    pub fails_more: bool,
    /// Whether B is shown to be invalid in more runs than A. Runs that Plimsoll itself limited do not count.
    #[serde(default)]
    pub invalid_more: bool,
    /// The baseline.
    pub a: Side,
    /// The side to judge.
    pub b: Side,
    /// The differences between the two, apart from time.
    pub differences: Vec<Difference>,
    /// The objections to the comparison that `--force` overrode.
    pub forced: Vec<String>,
    /// The settings.
    pub settings: Settings,
    /// The method of the test.
    pub method: Method,
    /// The drift of the machine.
    pub noise: Noise,
    /// The verdict on the primary metric.
    pub verdict: Verdict,
    /// The metrics, the primary one first.
    pub metrics: Vec<Metric>,
    /// Notes on the runs.
    pub notes: Vec<String>,
    /// The conclusions, in sentences.
    pub conclusions: Vec<String>,
}

/// A side of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its runs. The i-th run belongs to the i-th pair.
    pub runs: Vec<SideRun>,
    /// The server of its first run.
    pub server: ServerFacts,
    /// The machine of its first run.
    pub environment: Environment,
    /// Whether every acknowledged document of its runs exists.
    pub kept: bool,
    /// Runs that did nothing: no operation was acknowledged, or no rate held.
    #[serde(default)]
    pub idle: u32,
    /// Runs with the verdict `invalid`.
    #[serde(default)]
    pub invalid: u32,
    /// Operations that failed, in all of its runs.
    #[serde(default)]
    pub failed: u64,
}

/// An expectation that did not hold in some run of either side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Broken {
    /// The metric, such as `insert.response`.
    pub metric: String,
    /// The expression, such as `p(99)<50ms`.
    pub expression: String,
    /// Runs of A in which it did not hold.
    pub a: u32,
    /// Runs of B.
    pub b: u32,
}

/// One run of a side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideRun {
    /// Its run directory, as the user gave it.
    pub directory: String,
    /// The run's identity.
    pub id: String,
    /// When it was started, in milliseconds since 1970.
    pub started_ms: u64,
}

/// A difference between the sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// A key of the scenario as `--set` names it, or one of run.json, such as `server.version`.
    pub path: String,
    /// The value in A, as JSON; absent if missing.
    pub a: Option<String>,
    /// The value in B, as JSON; absent if missing.
    pub b: Option<String>,
}

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// The largest p of a shown difference.
    pub alpha: f64,
    /// The smallest difference that counts as better or worse, as a share: 0.03 is 3 %.
    pub min_effect: f64,
    /// The seed of the sample, if not all sign flips are tested.
    pub seed: u64,
}

/// The method of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Method {
    /// Two runs: there is nothing to test.
    #[default]
    Single,
    /// All sign flips of the pairs were tested.
    Exact {
        /// Pairs.
        pairs: u32,
    },
    /// A sample of all sign flips was tested.
    Sampled {
        /// Pairs.
        pairs: u32,
        /// Sampled sign flips, the measured one included.
        samples: u32,
    },
}

/// The drift of the machine: from the calibration before each load to the one after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// Root mean square of the change between the two calibrations against the null server, as a share; absent if no run has
    /// two.
    pub null_server: Option<f64>,
    /// The same for the round trip of an empty command.
    pub ping: Option<f64>,
}

/// The verdict on a metric of B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The difference is shown, and B is better.
    Better,
    /// The difference is shown, and B is worse.
    Worse,
    /// No difference is shown.
    NoDifference,
    /// No difference is shown, and the interval is wider than ± 20 %.
    TooNoisy,
    /// No verdict is possible.
    #[default]
    NoVerdict,
}

/// One metric over all pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name, as `--primary` takes it: the key in run.json.
    pub name: String,
    /// Its description.
    pub words: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// Whether it is the primary one.
    pub primary: bool,
    /// The values, one for each pair.
    pub pairs: Vec<Pair>,
    /// The geometric mean of A's values.
    pub a: Option<f64>,
    /// The geometric mean of B's values.
    pub b: Option<f64>,
    /// B ÷ A.
    pub ratio: Option<f64>,
    /// The smallest ratio that the test does not reject.
    pub low: Option<f64>,
    /// The largest one.
    pub high: Option<f64>,
    /// The probability of at least such a difference if A and B were equal.
    pub p: Option<f64>,
    /// The same adjusted for all tested metrics (Holm); for the primary metric it equals `p`.
    pub p_adjusted: Option<f64>,
    /// The smallest difference that yields a verdict, as a share: the minimum effect, widened by noise.
    pub must_show: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why there is no verdict, or why no difference is shown.
    pub reason: Option<String>,
    /// The approximate number of pairs that would make the interval narrow enough.
    pub pairs_needed: Option<u32>,
    /// The correlation of neighbouring pairs, if it is shown. The interval is widened for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
}

/// Neighbouring pairs that resemble each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Correlation {
    /// The correlation of the log ratios of neighbouring pairs.
    pub r: f64,
    /// The probability of at least such a correlation if the pairs were independent.
    pub p: f64,
    /// The factor by which the interval is widened.
    pub widened: f64,
}

/// The two values of a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The value of A; absent if unknown.
    pub a: Option<f64>,
    /// The value of B; absent if unknown.
    pub b: Option<f64>,
}

/// The unit of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Documents per second.
    DocumentsPerS,
    /// Operations per second.
    OperationsPerS,
    /// Requests per second, to a service.
    RequestsPerS,
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Bytes.
    Bytes,
}

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More of it.
    More,
    /// Less of it.
    Less,
}

impl Comparison {
    /// The primary metric.
    pub fn primary(&self) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.primary)
    }

    /// Pairs of runs.
    pub fn pairs(&self) -> usize {
        self.a.runs.len().min(self.b.runs.len())
    }

    /// Whether the comparison does not pass: it was not judged despite several pairs, or a side did nothing.
    pub fn is_failed(&self) -> bool {
        let unjudged = self.method != Method::Single && self.verdict == Verdict::NoVerdict;
        unjudged || self.a.idle + self.b.idle > 0
    }

    /// Whether B breaks an expectation in more runs than A. Then B fails, regardless of its gains.
    pub fn is_broken(&self) -> bool {
        self.broken.iter().any(|it| it.b > it.a)
    }

    /// Whether B fails where A does not, by its operations or its invalid runs.
    pub const fn is_unsound(&self) -> bool {
        self.fails_more || self.invalid_more
    }

    /// Whether some metric of B is shown to be worse.
    pub fn is_regression(&self) -> bool {
        self.metrics.iter().any(|metric| metric.verdict == Verdict::Worse)
    }
}

impl Metric {
    /// The difference of B from A as a share of A: 0.1 is 10 % more.
    pub fn change(&self) -> Option<f64> {
        self.ratio.map(|ratio| ratio - 1.0)
    }
}

impl Pair {
    /// B ÷ A; nothing if a value is unknown or zero.
    pub fn ratio(&self) -> Option<f64> {
        let (a, b) = (self.a?, self.b?);
        (a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite()).then(|| b / a)
    }
}
