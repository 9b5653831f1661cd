//! Writes a run in k6's form, for dashboards and build steps that expect k6.
//!
//! `http_reqs` and `iterations` count all operations that ended. `http_req_duration` and `iteration_duration` are the response
//! times of successful operations, **counted from when they were due**, unlike k6's. `http_req_service` is the service time,
//! which k6 calls `http_req_duration`. Each operation also has its own metrics. The guide `docs/guides/foreign-results.md` has
//! the whole table.

mod metrics;
mod thresholds;

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use plimsoll_measure::interval::Tally;
use plimsoll_measure::run::{Answers, Run};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use metrics::{Metric, STATISTICS};

use super::writer;

/// A form of k6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The data of k6's `handleSummary`: `values` nested, thresholds with `ok`.
    Summary,
    /// The output of `k6 run --summary-export`: flat values, thresholds `true` if they **failed**.
    Legacy,
}

/// One check, with the numbers of passes and failures.
struct Check {
    name: String,
    passes: u64,
    fails: u64,
}

/// `run` in k6's form, as JSON text with a line feed at its end; `tallies` holds the counts of each operation.
pub fn export(run: &Run, tallies: &BTreeMap<String, Tally>, shape: Shape) -> String {
    let checks = checks(run, tallies);
    let mut metrics = metrics::of(run, tallies);
    metrics.insert(
        "checks".to_owned(),
        Metric::share(sum(&checks, |it| it.passes), sum(&checks, |it| it.fails)),
    );
    thresholds::add(&mut metrics, &run.expectations);
    match shape {
        Shape::Summary => text(&summary(run, &metrics, &checks), b"  "),
        Shape::Legacy => text(&legacy(run, &metrics, &checks), b"    "),
    }
}

fn summary(run: &Run, metrics: &BTreeMap<String, Metric>, checks: &[Check]) -> Value {
    let metrics: Map<_, _> = metrics.iter().map(|(name, it)| (name.clone(), it.as_summary())).collect();
    let checks: Vec<_> = checks.iter().map(Check::as_value).collect();
    json!({
        "root_group": {"name": "", "path": "", "id": id(""), "groups": [], "checks": checks},
        "options": {"summaryTrendStats": STATISTICS, "summaryTimeUnit": "", "noColor": true},
        "state": {
            "isStdOutTTY": false,
            "isStdErrTTY": false,
            "testRunDurationMs": run.duration_s * 1000.0,
        },
        "metrics": metrics,
        writer::KEY: writer::mark(run),
    })
}

fn legacy(run: &Run, metrics: &BTreeMap<String, Metric>, checks: &[Check]) -> Value {
    let metrics: Map<_, _> = metrics.iter().map(|(name, it)| (name.clone(), it.as_legacy())).collect();
    let checks: Map<_, _> = checks.iter().map(|it| (it.name.clone(), it.as_value())).collect();
    json!({
        "root_group": {"name": "", "path": "", "id": id(""), "groups": {}, "checks": checks},
        "metrics": metrics,
        writer::KEY: writer::mark(run),
    })
}

/// The checks of the answers of a service, by which an expectation of `checks` is judged. A run without such checks has a check
/// for each operation instead.
fn checks(run: &Run, tallies: &BTreeMap<String, Tally>) -> Vec<Check> {
    let answered: Vec<Check> = run.answers.iter().flat_map(answered).collect();
    if answered.is_empty() { done(run, tallies) } else { answered }
}

/// The checks of the answers to one operation.
fn answered(answers: &Answers) -> impl Iterator<Item = Check> + '_ {
    answers.checks.iter().map(|check| Check {
        name: format!("{}: {}", answers.operation, check.name),
        passes: check.passed,
        fails: check.failed,
    })
}

/// Checks that each operation succeeded and that the documents exist.
fn done(run: &Run, tallies: &BTreeMap<String, Tally>) -> Vec<Check> {
    let of_operation = |(name, tally): (&String, &Tally)| Check {
        name: format!("{name} is done"),
        passes: tally.count,
        fails: tally.errors.total(),
    };
    let kept = run.integrity.as_ref().filter(|integrity| integrity.is_known() && integrity.acknowledged > 0);
    let kept = kept.map(|integrity| Check {
        name: "acknowledged documents are found".to_owned(),
        passes: integrity.found,
        fails: integrity.lost,
    });
    tallies.iter().map(of_operation).chain(kept).collect()
}

fn sum(checks: &[Check], count: impl Fn(&Check) -> u64) -> u64 {
    checks.iter().map(count).fold(0, u64::saturating_add)
}

impl Check {
    fn as_value(&self) -> Value {
        let path = format!("::{}", self.name);
        json!({"name": self.name, "path": path, "id": id(&path), "passes": self.passes, "fails": self.fails})
    }
}

/// k6 names groups and checks by the MD5 of their paths.
fn id(path: &str) -> String {
    Md5::digest(path).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(value: &Value, indent: &[u8]) -> String {
    let mut bytes = Vec::new();
    let mut writer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(indent));
    let written = value.serialize(&mut writer);
    debug_assert!(written.is_ok(), "a value of this module is valid JSON");
    bytes.push(b'\n');
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::run::{Check as Counted, Expectation};

    use super::*;

    fn answers(operation: &str, checks: &[(&str, u64, u64)]) -> Answers {
        let counted = |(name, passed, failed): &(&str, u64, u64)| Counted {
            name: (*name).to_owned(),
            passed: *passed,
            failed: *failed,
        };
        let checks = checks.iter().map(counted).collect();
        Answers { operation: operation.to_owned(), checks, ..Answers::default() }
    }

    fn expectation(metric: &str, expression: &str, value: f64, held: bool) -> Expectation {
        let (metric, expression) = (metric.to_owned(), expression.to_owned());
        Expectation { metric, expression, value: Some(value), held, reason: None, by_default: false }
    }

    /// A run over HTTP, in k6's form.
    fn exported(shape: Shape) -> Value {
        let run = Run {
            duration_s: 10.0,
            answers: vec![
                answers("ingest", &[("status 201", 97, 3), ("json id", 90, 10)]),
                answers("feed", &[("status 200", 50, 0)]),
            ],
            expectations: vec![
                expectation("checks", "rate>0.95", 237.0 / 250.0, false),
                expectation("feed.checks", "rate==1", 1.0, true),
                expectation("checks{operation:ingest}", "rate>0.9", 187.0 / 200.0, true),
            ],
            ..Run::default()
        };
        let tallies = ["feed", "ingest"].map(|name| (name.to_owned(), Tally::default()));
        serde_json::from_str(&export(&run, &BTreeMap::from(tallies), shape)).unwrap()
    }

    #[test]
    fn exported_checks_of_answers_add_up_to_the_judged_number() {
        let file = exported(Shape::Summary);
        let checks = file["root_group"]["checks"].as_array().unwrap();
        let counts_of = |it: &Value| (it["name"].clone(), it["passes"].clone(), it["fails"].clone());
        let expected =
            [("ingest: status 201", 97, 3), ("ingest: json id", 90, 10), ("feed: status 200", 50, 0)];
        let expected: [(Value, Value, Value); 3] =
            expected.map(|(name, passes, fails)| (name.into(), passes.into(), fails.into()));
        assert_eq!(checks.iter().map(counts_of).collect::<Vec<_>>(), expected);
        let metrics = &file["metrics"];
        assert_eq!(metrics["checks"]["values"], json!({"rate": 0.948, "passes": 237, "fails": 13}));
        assert_eq!(metrics["checks"]["thresholds"]["rate>0.95"]["ok"], false);
        assert_eq!(metrics["feed_checks"]["values"], json!({"rate": 1, "passes": 50, "fails": 0}));
        assert_eq!(metrics["feed_checks"]["thresholds"]["rate==1"]["ok"], true);
        assert_eq!(metrics["checks{name:ingest}"]["values"]["fails"], 13);
        let chosen = &metrics["checks{operation:ingest}"];
        assert_eq!((&chosen["type"], &chosen["values"]["rate"]), (&json!("rate"), &json!(0.935)));
    }

    #[test]
    fn the_older_form_has_the_same_checks() {
        let file = exported(Shape::Legacy);
        let check = &file["root_group"]["checks"]["ingest: json id"];
        assert_eq!((&check["passes"], &check["fails"]), (&json!(90), &json!(10)));
        assert_eq!(file["metrics"]["checks"]["value"], json!(0.948));
        assert_eq!(
            file["metrics"]["checks"]["thresholds"]["rate>0.95"], true,
            "`true` means failed in this form"
        );
    }

    #[test]
    fn a_run_without_checked_answers_exports_its_operations_as_checks() {
        let tallies = BTreeMap::from([("insert".to_owned(), Tally { count: 7, ..Tally::default() })]);
        let found = checks(&Run::default(), &tallies);
        let found: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.passes, it.fails)).collect();
        assert_eq!(found, [("insert is done", 7, 0)]);
    }
}
