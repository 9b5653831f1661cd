//! Defines the results of a suite of tests: `suite.json`, format 1.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::macros::named;

mod figures;
mod stack;

pub use figures::Figures;
pub use stack::{Delta, Extreme};

/// The version of the file's form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// The tests of a suite and the cost of each compared with the test above it. Unknown values are absent or null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// Version of this form: 1.
    pub format: u32,
    /// The suite's name: the file's stem.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The question that it answers.
    pub question: Option<String>,
    /// When it was first started, in UTC (RFC 3339).
    pub started: String,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
    /// Whether every run was made, with any outcome.
    pub complete: bool,
    /// The machine.
    pub environment: Environment,
    /// The tests in the order of the file. Each is compared with the test above.
    pub tests: Vec<Test>,
    /// The runs in the order in which they are made: one of each test, then the next of each.
    pub runs: Vec<Planned>,
    /// The results of started runs in the order in which they ended, one for each run.
    pub rows: Vec<Row>,
}

named! {
    /// The kind of a test, named as the column of a suite that holds it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        /// A scenario.
        #[default]
        Scenario = "scenario",
        /// A pipeline.
        Pipeline = "pipeline",
    }
}

/// One test: a row of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The scenario or pipeline.
    pub what: String,
    /// SHA-256 of that as resolved, in hex.
    pub hash: String,
    /// Its other columns: `column=value`, without passwords.
    pub settings: Vec<String>,
    /// Its number of runs.
    pub repetitions: u32,
    /// The figures of its completed runs; absent before the first one.
    pub figures: Option<Figures>,
    /// Its change from the test above; absent if one of the two was not measured, or they count different units.
    pub delta: Option<Delta>,
    /// Whether it is the slowest or the fastest of the suite.
    #[serde(rename = "standing")]
    pub extreme: Extreme,
    /// A published rate to compare with, from the suite's file.
    #[serde(default, alias = "beside", skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// Why runs did not complete, and warnings about them.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Warnings about the addresses of its scenario or pipeline, such as options without effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A published rate, as the suite's file gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// Events, documents or operations per second.
    pub rate_per_s: u64,
    /// Its source: the author, the machine and the date.
    pub of: String,
}

/// A run that belongs to the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Its number, from 1, in the order in which runs are made.
    pub number: u32,
    /// The name of its test.
    pub test: String,
    /// The repetition, from 1.
    pub repetition: u32,
    /// Its directory, below that of the suite.
    pub directory: String,
}

named! {
    /// The end of a run.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        /// The run ended, and every check held.
        Completed = "completed",
        /// The run could not begin or go on, or a check failed.
        Failed = "failed",
        /// The run made no progress or exceeded its timeout, and was ended.
        Hung = "hung",
        /// The user ended it.
        #[default]
        Interrupted = "interrupted",
        /// The run was not started: its server was unavailable, or its collection was not empty.
        Refused = "refused",
    }
}

/// The result of a run: a row of `results.csv`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The run's number, from 1.
    pub run: u32,
    /// The name of its test.
    pub test: String,
    /// The kind of the test.
    pub kind: Kind,
    /// The scenario or pipeline.
    pub what: String,
    /// The repetition, from 1.
    pub repetition: u32,
    /// Its end.
    pub outcome: Outcome,
    /// When its load process started, in milliseconds since 1970 UTC; for a refused run, the moment of the refusal.
    pub from_ms: u64,
    /// When that process ended, in the same unit.
    pub to_ms: u64,
    /// Its figures; absent if nothing was measured.
    pub measured: Option<Measured>,
    /// Its own exit code.
    pub exit: u8,
    /// Its directory, below that of the suite.
    pub directory: String,
    /// Why it did not complete, or a warning.
    pub reason: Option<String>,
}

/// The figures of a run, from the last phase of its load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The counted unit: `documents`, `operations`, or `events` of a pipeline.
    pub unit: String,
    /// The number of units per second.
    pub rate_per_s: f64,
    /// The number of units in all.
    pub total: u64,
    /// Median response time of an operation in nanoseconds; absent if too few values support it.
    pub p50_ns: Option<u64>,
    /// The mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<u64>,
    /// The 95th percentile, in the form of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ns: Option<u64>,
    /// The 99th percentile, in the same form.
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile, in the same form.
    pub p99_9_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Operations that failed.
    pub errors: u64,
    /// Lost acknowledged documents; absent if no audit ran or nothing was promised.
    pub lost: Option<u64>,
    /// CPU of the tool per counted unit, in microseconds.
    pub client_cpu_us: Option<f64>,
    /// CPU of the server's process per counted unit, in microseconds; local servers only.
    pub server_cpu_us: Option<f64>,
}

impl Suite {
    /// Replaces the known result of a run.
    pub fn record(&mut self, row: Row) {
        self.rows.retain(|known| known.run != row.run);
        self.rows.push(row);
        self.conclude();
    }

    /// The result of a run, if it was started.
    pub fn row(&self, run: u32) -> Option<&Row> {
        self.rows.iter().find(|row| row.run == run)
    }

    /// Sums up every test from its runs, and compares it with the test above.
    pub fn conclude(&mut self) {
        for test in &mut self.tests {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.test == test.name).collect();
            test.figures = Figures::of(&rows);
            test.reasons = reasons(&rows);
        }
        stack::build(&mut self.tests);
        let made = |run: &Planned| self.rows.iter().any(|row| row.run == run.number && row.is_final());
        self.complete = self.runs.iter().all(made);
    }
}

impl Row {
    /// Whether the result is final: interrupted and refused runs are repeated.
    pub const fn is_final(&self) -> bool {
        matches!(self.outcome, Outcome::Completed | Outcome::Failed | Outcome::Hung)
    }
}

/// The reasons of failed runs, without duplicates.
fn reasons(rows: &[&Row]) -> Vec<String> {
    let has_reason = |row: &&&Row| row.outcome != Outcome::Completed || row.reason.is_some();
    let reason = |row: &&Row| {
        let why = row.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{}{why}", row.outcome.name())
    };
    let all: BTreeSet<String> = rows.iter().filter(has_reason).map(reason).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn row(run: u32, test: &str, outcome: Outcome, rate_per_s: f64) -> Row {
        let measured = Measured { unit: "documents".into(), rate_per_s, total: 10, ..Measured::default() };
        Row { run, test: test.into(), outcome, measured: Some(measured), ..Row::default() }
    }

    pub(super) fn suite(tests: &[&str], repetitions: u32) -> Suite {
        let test = |name: &&str| Test { name: (*name).into(), repetitions, ..Test::default() };
        let run = |(number, name): (u32, &str)| Planned { number, test: name.into(), ..Planned::default() };
        let rounds = (0..repetitions).flat_map(|_| tests.iter().copied());
        Suite {
            format: FORMAT,
            tests: tests.iter().map(test).collect(),
            runs: (1..).zip(rounds).map(run).collect(),
            ..Suite::default()
        }
    }

    #[test]
    fn a_suite_is_complete_when_every_run_has_a_final_outcome() {
        let mut suite = suite(&["a", "b"], 1);
        suite.record(row(1, "a", Outcome::Completed, 5.0));
        suite.record(row(2, "b", Outcome::Interrupted, 5.0));
        assert!(!suite.complete, "an interrupted run must be repeated");
        suite.record(row(2, "b", Outcome::Hung, 5.0));
        assert!(suite.complete);
        assert_eq!((suite.rows.len(), suite.row(2).unwrap().outcome), (2, Outcome::Hung));
        assert_eq!(suite.tests[1].reasons, ["hung"]);
    }

    #[test]
    fn a_suite_reads_back_from_its_file() {
        let mut suite = suite(&["a"], 2);
        suite.record(row(1, "a", Outcome::Completed, 5.0));
        let text = serde_json::to_string(&suite).unwrap();
        assert_eq!(serde_json::from_str::<Suite>(&text).unwrap(), suite);
    }
}
