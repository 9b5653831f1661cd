//! Defines a history as JSON, format 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::comparison::{Better, Difference, Unit, Verdict};

/// The version of the form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// The runs of one scenario in order of time, and the changes of their figures. Unknown values are absent or null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Version of this form: 1.
    pub format: u32,
    /// The title of the newest run's scenario.
    pub title: String,
    /// The runs, the oldest first.
    pub runs: Vec<HistoryRun>,
    /// The differences between runs, if they were ignored with `--force`.
    pub forced: Vec<Difference>,
    /// The settings.
    pub settings: Settings,
    /// The metrics, the primary one first.
    pub metrics: Vec<Track>,
    /// Notes on the runs.
    pub notes: Vec<String>,
    /// The conclusions, in sentences.
    pub conclusions: Vec<String>,
}

/// One run of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRun {
    /// Its run directory, as the user gave it.
    pub directory: String,
    /// The run's identity.
    pub id: String,
    /// When it was started, in UTC (RFC 3339).
    pub started: String,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
}

/// The settings of the search for changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// The largest p of a change.
    pub alpha: f64,
    /// The smallest reported change of the level, as a share: 0.03 is 3 %.
    pub min_effect: f64,
    /// The fewest runs of a level.
    pub segment_min: u32,
    /// Random orders of the runs that are compared with the measured one.
    pub permutations: u32,
    /// The seed of these orders.
    pub seed: u64,
}

/// One metric over all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Track {
    /// Its name, as `--metric` takes it: the key in run.json.
    pub name: String,
    /// Its description.
    pub words: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// Whether it is the primary one.
    pub primary: bool,
    /// Its value in each run; absent if unknown or zero. Such a run is left out for this metric.
    pub values: Vec<Option<f64>>,
    /// Runs with a value.
    pub known: u32,
    /// Runs needed to report a change; absent if there are enough.
    pub needed: Option<u32>,
    /// The median since the newest change.
    pub level: Option<f64>,
    /// The changes, the oldest first.
    pub changes: Vec<Change>,
}

/// A change point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The last run before it, as a position in `runs`, from 0.
    pub before: u32,
    /// The first run after it, as a position in `runs`.
    pub after: u32,
    /// The median of the runs from the change before this one, or from the first run.
    pub from: f64,
    /// The median of the runs up to the next change, or to the last run.
    pub to: f64,
    /// `to` ÷ `from`.
    pub ratio: f64,
    /// The probability of so strong a change if the order of the runs did not matter.
    pub p: f64,
    /// `better` or `worse`.
    pub verdict: Verdict,
    /// Other differences between the two runs, such as the version of the server.
    pub differences: Vec<Difference>,
}

impl History {
    /// The primary metric.
    pub fn primary(&self) -> Option<&Track> {
        self.metrics.iter().find(|metric| metric.primary)
    }

    /// Whether the newest change of the primary metric is for the worse.
    pub fn is_regression(&self) -> bool {
        let newest = self.primary().and_then(Track::newest);
        newest.is_some_and(|change| change.verdict == Verdict::Worse)
    }

    /// Whether the primary metric was not judged: then the history does not pass.
    pub fn is_failed(&self) -> bool {
        self.primary().is_none_or(|metric| metric.needed.is_some())
    }
}

impl Track {
    /// The newest change.
    pub fn newest(&self) -> Option<&Change> {
        self.changes.last()
    }
}
