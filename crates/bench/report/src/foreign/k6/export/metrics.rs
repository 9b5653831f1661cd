//! Writes the metrics of a run under k6's names.

use std::collections::BTreeMap;

use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::run::{Check, Run};
use serde_json::{Map, Value, json};

use crate::foreign::k6::assemble::SERVICE;

/// The numbers of a distribution. Percentiles are written even from too few values, because k6's form has no mark for that.
/// `count` shows the number of values.
pub(super) const STATISTICS: [&str; 9] =
    ["avg", "min", "med", "max", "p(90)", "p(95)", "p(99)", "p(99.9)", "count"];
/// k6's limit for names.
const NAME_MAX: usize = 128;

/// A metric in k6's form.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    /// `counter`, `gauge`, `rate` or `trend`.
    pub kind: &'static str,
    /// `time`, `data` or `default`.
    pub contains: &'static str,
    /// The numbers; times in milliseconds.
    pub values: Map<String, Value>,
    /// Expressions and whether they held.
    pub thresholds: BTreeMap<String, bool>,
}

/// Metrics by name.
pub(super) type Metrics = BTreeMap<String, Metric>;

/// All metrics of a run.
pub(super) fn of(run: &Run, tallies: &BTreeMap<String, Tally>) -> Metrics {
    let mut whole = Tally::default();
    tallies.values().for_each(|tally| whole.merge(tally));
    let mut metrics = requests(&whole, run.duration_s, "");
    metrics.extend(totals(run, &whole));
    let mut ids: Vec<String> = Vec::new();
    for (name, tally) in tallies {
        metrics.extend(requests(tally, run.duration_s, &format!("{{name:{name}}}")));
        let id = fresh(id(name), &ids);
        metrics.extend(own(run, name, &id, tally));
        metrics.extend(checked(run, name, &id));
        ids.push(id);
    }
    metrics.extend(integrity(run));
    metrics.retain(|_, metric| !metric.values.is_empty());
    metrics
}

/// k6's metrics of requests, with `tags` appended to the names.
fn requests(tally: &Tally, seconds: f64, tags: &str) -> Metrics {
    let duration = Metric::time(&tally.response);
    let expected = if tags.is_empty() { "{expected_response:true}" } else { "" };
    let failed = Metric::share(tally.errors.total(), tally.count);
    let mut metrics = Metrics::from([
        (format!("http_reqs{tags}"), Metric::counter(tally.completed() as f64, seconds, "default")),
        (format!("http_req_failed{tags}"), failed),
        (format!("http_req_duration{tags}"), duration.clone()),
        (format!("{SERVICE}{tags}"), Metric::time(&tally.service)),
        (format!("http_req_blocked{tags}"), Metric::time(&tally.wait)),
    ]);
    if !expected.is_empty() {
        metrics.insert(format!("http_req_duration{expected}"), duration);
    }
    metrics
}

fn totals(run: &Run, whole: &Tally) -> Metrics {
    let (seconds, connections) = (run.duration_s, f64::from(run.client.connections));
    let mut metrics = Metrics::from([
        ("iterations".to_owned(), Metric::counter(whole.completed() as f64, seconds, "default")),
        ("iteration_duration".to_owned(), Metric::time(&whole.response)),
        ("data_sent".to_owned(), Metric::counter(whole.bytes_sent as f64, seconds, "data")),
        ("data_received".to_owned(), Metric::counter(whole.bytes_received as f64, seconds, "data")),
        ("vus".to_owned(), Metric::gauge(connections)),
        ("vus_max".to_owned(), Metric::gauge(connections)),
    ]);
    if whole.skipped > 0 {
        let dropped = Metric::counter(whole.skipped as f64, seconds, "default");
        metrics.insert("dropped_iterations".to_owned(), dropped);
    }
    metrics
}

/// Our additional metrics of one operation.
fn own(run: &Run, name: &str, id: &str, tally: &Tally) -> Metrics {
    let seconds = run.duration_s;
    let times = [
        ("response", &tally.response),
        ("service", &tally.service),
        ("wait", &tally.wait),
        ("wake", &tally.wake),
        ("failed_response", &tally.failed_response),
    ];
    let times = times.map(|(what, times)| (format!("{id}_{what}"), Metric::time(times)));
    let counts = [
        ("operations", tally.count),
        ("completed", tally.completed()),
        ("documents", tally.documents),
        ("skipped", tally.skipped),
    ];
    let counts = counts
        .map(|(what, count)| (format!("{id}_{what}"), Metric::counter(count as f64, seconds, "default")));
    let errors = (format!("{id}_errors"), Metric::share(tally.errors.total(), tally.count));
    let achieved = run.operations.get(name).and_then(|operation| operation.achieved);
    let achieved = achieved.map(|achieved| (format!("{id}_achieved"), Metric::gauge(achieved)));
    times.into_iter().chain(counts).chain([errors]).chain(achieved).collect()
}

/// The share of answers to one operation that passed their checks.
fn checked(run: &Run, name: &str, id: &str) -> Metrics {
    let answers = run.answers.iter().find(|answers| answers.operation == name);
    let Some(answers) = answers.filter(|answers| !answers.checks.is_empty()) else { return Metrics::new() };
    let sum = |count: fn(&Check) -> u64| answers.checks.iter().map(count).sum::<u64>();
    let share = Metric::share(sum(|check| check.passed), sum(|check| check.failed));
    Metrics::from([(format!("checks{{name:{name}}}"), share.clone()), (format!("{id}_checks"), share)])
}

fn integrity(run: &Run) -> Metrics {
    let Some(found) = run.integrity.as_ref().filter(|integrity| integrity.is_known()) else {
        return Metrics::new();
    };
    let counts = [
        ("acknowledged", found.acknowledged),
        ("found", found.found),
        ("lost", found.lost),
        ("phantom", found.phantom),
        ("duplicated", found.duplicated),
        ("corrupted", found.corrupted),
    ];
    let metric = |count: u64| Metric::counter(count as f64, run.duration_s, "default");
    counts.into_iter().map(|(what, count)| (format!("integrity_{what}"), metric(count))).collect()
}

impl Metric {
    /// A metric without numbers.
    pub(super) fn empty(kind: &'static str, contains: &'static str) -> Self {
        Self { kind, contains, values: Map::new(), thresholds: BTreeMap::new() }
    }

    fn with(kind: &'static str, contains: &'static str, values: &[(&str, f64)]) -> Self {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), number(*value))).collect();
        Self { values, ..Self::empty(kind, contains) }
    }

    fn counter(count: f64, seconds: f64, contains: &'static str) -> Self {
        let rate = if seconds > 0.0 { count / seconds } else { 0.0 };
        Self::with("counter", contains, &[("count", count), ("rate", rate)])
    }

    fn gauge(value: f64) -> Self {
        Self::with("gauge", "default", &[("value", value), ("min", value), ("max", value)])
    }

    /// A rate: the share of `yes` in `yes` and `no` together.
    pub(super) fn share(yes: u64, no: u64) -> Self {
        let total = yes.saturating_add(no);
        let rate = yes as f64 / total.max(1) as f64;
        Self::with("rate", "default", &[("rate", rate), ("passes", yes as f64), ("fails", no as f64)])
    }

    /// A distribution; without numbers if it is empty.
    fn time(times: &Histogram) -> Self {
        if times.count() == 0 {
            return Self::empty("trend", "time");
        }
        let ms = |ns: u64| ns as f64 / MILLISECOND_NS as f64;
        let at = |percentile: f64| ms(times.at(percentile));
        let values = [
            times.mean() / MILLISECOND_NS as f64,
            at(0.0),
            at(50.0),
            ms(times.max()),
            at(90.0),
            at(95.0),
            at(99.0),
            at(99.9),
            times.count() as f64,
        ];
        let values: Vec<_> = STATISTICS.into_iter().zip(values).collect();
        Self::with("trend", "time", &values)
    }

    /// The form in which k6 passes it to `handleSummary`.
    pub(super) fn as_summary(&self) -> Value {
        let mut value = json!({"type": self.kind, "contains": self.contains, "values": self.values});
        if !self.thresholds.is_empty() {
            let held = self.thresholds.iter().map(|(it, held)| (it.clone(), json!({"ok": held})));
            value["thresholds"] = Value::Object(held.collect());
        }
        value
    }

    /// The form that `k6 run --summary-export` writes.
    pub(super) fn as_legacy(&self) -> Value {
        let rename =
            |name: &str| if self.kind == "rate" && name == "rate" { "value" } else { name }.to_owned();
        let mut flat: Map<_, _> = self.values.iter().map(|(name, it)| (rename(name), it.clone())).collect();
        if !self.thresholds.is_empty() {
            let failed = self.thresholds.iter().map(|(it, held)| (it.clone(), json!(!held)));
            flat.insert("thresholds".to_owned(), Value::Object(failed.collect()));
        }
        Value::Object(flat)
    }
}

/// A number as k6 writes it: whole numbers have no decimal point.
pub(super) fn number(value: f64) -> Value {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX { json!(value as i64) } else { json!(value) }
}

/// `name` as k6 allows it: letters, digits and underscores, and no digit in front.
pub(super) fn id(name: &str) -> String {
    const LONGEST_ENDING: usize = "_failed_response".len();
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let id: String = name.chars().map(allowed).take(NAME_MAX - LONGEST_ENDING - 4).collect();
    if id.starts_with(|c: char| c.is_ascii_digit()) { format!("_{id}") } else { id }
}

/// `id`, with a number appended if taken.
fn fresh(id: String, taken: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{id}_{number}"));
    let mut all = std::iter::once(id.clone()).chain(numbered);
    all.find(|candidate| !taken.contains(candidate)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_that_k6_allows_and_stay_apart() {
        assert_eq!((id("read-by key").as_str(), id("2nd").as_str()), ("read_by_key", "_2nd"));
        assert!(id(&"x".repeat(500)).len() < NAME_MAX);
        assert_eq!(fresh("a".into(), &["a".into(), "a_2".into()]), "a_3");
    }
}
