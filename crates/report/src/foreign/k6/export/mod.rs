//! A run of ours as k6 would have summed it up, so that dashboards and the steps of a build that read k6 keep working.
//!
//! What k6's names hold here: `http_reqs` and `iterations` are all operations that ended; `http_req_duration` and
//! `iteration_duration` are the response times of those that succeeded, **counted from when they were due**, which k6
//! does not; `http_req_service` is the same from when they were sent, which is what k6 calls `http_req_duration`. Each
//! operation has metrics of its own besides. The guide `docs/guides/foreign-results.md` has the whole table.

mod metrics;
mod thresholds;

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use plimsoll_measure::interval::Tally;
use plimsoll_measure::run::Run;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use metrics::{Metric, STATISTICS};

use super::writer;

/// In which of k6's forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// What k6 hands to `handleSummary`: `values` apart, thresholds with `ok`.
    Summary,
    /// What `k6 run --summary-export` writes: values beside each other, thresholds `true` where they **failed**.
    Legacy,
}

/// One check: its name, how often it was so, and how often not.
struct Check {
    name: String,
    passes: u64,
    fails: u64,
}

/// `run` in k6's form, as JSON text with a line feed at its end; `tallies` has what each operation of it did.
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

/// That each operation is done, and that the documents are there.
fn checks(run: &Run, tallies: &BTreeMap<String, Tally>) -> Vec<Check> {
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
    debug_assert!(written.is_ok(), "a value that was made here is JSON");
    bytes.push(b'\n');
    String::from_utf8_lossy(&bytes).into_owned()
}
