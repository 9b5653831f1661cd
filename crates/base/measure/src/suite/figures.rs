//! Sums up the repetitions of a test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Measured, Outcome, Row};
use crate::matrix::Spread;

/// The figures of a test over its completed runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// The number of runs.
    pub runs: u32,
    /// The counted unit: `documents`, `operations`, or `events` of a pipeline.
    pub unit: String,
    /// The number of units per second.
    pub rate_per_s: Spread,
    /// The number of units over all runs.
    pub total: u64,
    /// Median response time of an operation in nanoseconds; absent if too few values support it.
    pub p50_ns: Option<Spread>,
    /// The mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<Spread>,
    /// The 95th percentile, in the form of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ns: Option<Spread>,
    /// The longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<Spread>,
    /// The 99th percentile, in the same form.
    pub p99_ns: Option<Spread>,
    /// The 99.9th percentile, in the same form.
    pub p99_9_ns: Option<Spread>,
    /// Failed operations in all runs.
    pub errors: u64,
    /// Lost acknowledged documents in all runs; absent if one of them did not count them.
    pub lost: Option<u64>,
    /// CPU of the tool per counted unit, in microseconds.
    pub client_cpu_us: Option<Spread>,
    /// CPU of the server's process per counted unit, in microseconds; local servers only.
    pub server_cpu_us: Option<Spread>,
}

impl Figures {
    /// The figures of a test from its results; nothing without a completed run.
    pub fn of(rows: &[&Row]) -> Option<Self> {
        let completed = rows.iter().filter(|row| row.outcome == Outcome::Completed);
        let all: Vec<&Measured> = completed.filter_map(|row| row.measured.as_ref()).collect();
        let unit = all.first()?.unit.clone();
        // If runs count different units, only those that agree with the first are summed up.
        let runs: Vec<&Measured> = all.into_iter().filter(|run| run.unit == unit).collect();
        let time = |pick: fn(&Measured) -> Option<u64>| {
            Spread::of(runs.iter().filter_map(|run| pick(run)).map(|ns| ns as f64))
        };
        let cost = |pick: fn(&Measured) -> Option<f64>| Spread::of(runs.iter().filter_map(|run| pick(run)));
        Some(Self {
            runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            rate_per_s: Spread::of(runs.iter().map(|run| run.rate_per_s))?,
            unit,
            total: runs.iter().map(|run| run.total).sum(),
            p50_ns: time(|run| run.p50_ns),
            mean_ns: time(|run| run.mean_ns),
            p95_ns: time(|run| run.p95_ns),
            max_ns: time(|run| run.max_ns),
            p99_ns: time(|run| run.p99_ns),
            p99_9_ns: time(|run| run.p99_9_ns),
            errors: runs.iter().map(|run| run.errors).sum(),
            lost: runs.iter().map(|run| run.lost).sum(),
            client_cpu_us: cost(|run| run.client_cpu_us),
            server_cpu_us: cost(|run| run.server_cpu_us),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn only_completed_runs_count() {
        let rows = [
            row(1, "a", Outcome::Completed, 5.0),
            row(2, "a", Outcome::Failed, 50.0),
            row(3, "a", Outcome::Completed, 7.0),
            row(4, "a", Outcome::Hung, 0.0),
        ];
        let figures = Figures::of(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((figures.runs, figures.total), (2, 20));
        assert_eq!((figures.rate_per_s.median, figures.rate_per_s.max), (6.0, 7.0));
        assert_eq!(Figures::of(&[&rows[1]]), None);
    }

    #[test]
    fn lost_documents_are_unknown_if_one_run_did_not_count_them() {
        let mut rows = [row(1, "a", Outcome::Completed, 5.0), row(2, "a", Outcome::Completed, 5.0)];
        rows[0].measured.as_mut().unwrap().lost = Some(0);
        assert_eq!(Figures::of(&rows.iter().collect::<Vec<_>>()).unwrap().lost, None);
        rows[1].measured.as_mut().unwrap().lost = Some(3);
        assert_eq!(Figures::of(&rows.iter().collect::<Vec<_>>()).unwrap().lost, Some(3));
    }
}
