//! Reads k6's three summaries: the data of `handleSummary`, the output of `--summary-export`, and the machine-readable summary.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::assemble::{Parts, assemble};
use super::metric::{Contains, Kind, Named, Numbers, measured};
use super::writer::{Writer, written_by};
use crate::foreign::error::{Error, from_json};
use crate::foreign::value::{Check, Foreign, Form, Threshold, Tool};

#[derive(Deserialize)]
struct Summary {
    root_group: Option<Group>,
    state: Option<State>,
    metrics: BTreeMap<String, Measured>,
    /// Present only if Plimsoll wrote the file.
    plimsoll: Option<Writer>,
}

#[derive(Deserialize)]
struct State {
    #[serde(rename = "testRunDurationMs")]
    duration_ms: Option<f64>,
}

/// A metric. Only the machine-readable form names it here, and only the data of `handleSummary` has thresholds.
#[derive(Deserialize)]
struct Measured {
    #[serde(default)]
    name: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    contains: Contains,
    #[serde(default)]
    values: Numbers,
    thresholds: Option<BTreeMap<String, Held>>,
}

#[derive(Deserialize)]
struct Held {
    ok: bool,
}

/// Reads the data of k6's `handleSummary`. Plimsoll's output in the same form has a mark.
pub(in crate::foreign) fn summary(bytes: &[u8]) -> Result<Foreign, Error> {
    let summary: Summary = from_json(bytes)?;
    let (mut named, mut thresholds) = (Vec::new(), Vec::new());
    for (name, it) in summary.metrics {
        named.push(Named::new(&name, it.kind, it.contains, &it.values));
        thresholds.extend(it.thresholds.into_iter().flatten().map(|(expression, held)| Threshold {
            metric: name.clone(),
            value: measured(&expression, &it.values),
            expression,
            held: Some(held.ok),
        }));
    }
    let duration_ms = summary.state.and_then(|state| state.duration_ms);
    Ok(assemble(Parts {
        foreign: written_by(summary.plimsoll, Form::K6Summary),
        named,
        duration_s: duration_ms.map(|ms| ms / 1000.0),
        thresholds,
        checks: summary.root_group.unwrap_or_default().checks(),
    }))
}

#[derive(Deserialize)]
struct Export {
    root_group: Option<Group>,
    metrics: BTreeMap<String, BTreeMap<String, Entry>>,
    /// Present only if Plimsoll wrote the file.
    plimsoll: Option<Writer>,
}

/// A value of a metric: a number, or an object next to the numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Number(Option<f64>),
    /// By expression, whether it failed.
    Thresholds(BTreeMap<String, bool>),
}

/// Reads the output of `k6 run --summary-export`: the older form, in which a threshold that is `true` has **failed**.
pub(in crate::foreign) fn legacy(bytes: &[u8]) -> Result<Foreign, Error> {
    let export: Export = from_json(bytes)?;
    let mut foreign = written_by(export.plimsoll, Form::K6SummaryExport);
    let (mut named, mut thresholds) = (Vec::new(), Vec::new());
    for (name, entries) in export.metrics {
        let (mut numbers, mut failed) = (Numbers::new(), BTreeMap::new());
        for (key, entry) in entries {
            match entry {
                Entry::Number(number) => drop(numbers.insert(key, number)),
                Entry::Thresholds(all) => failed = all,
            }
        }
        thresholds.extend(failed.into_iter().map(|(expression, failed)| Threshold {
            metric: name.clone(),
            value: measured(&expression, &numbers),
            expression,
            held: Some(!failed),
        }));
        named.push(Named::new(&name, Kind::of(&numbers), Contains::of(foreign.tool, &name), &numbers));
    }
    if !thresholds.is_empty() {
        let note =
            "in this form k6 writes `true` for a failed threshold; the table below says `failed` instead";
        foreign.notes.push(note.to_owned());
    }
    let checks = export.root_group.unwrap_or_default().checks();
    Ok(assemble(Parts { foreign, named, duration_s: None, thresholds, checks }))
}

#[derive(Deserialize)]
struct Machine {
    version: Option<String>,
    metadata: Option<Metadata>,
    config: Option<Config>,
    results: Results,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(alias = "k6Version")]
    k6_version: Option<String>,
}

#[derive(Deserialize)]
struct Config {
    /// In seconds.
    duration: Option<f64>,
    /// The name of a file, or its content.
    script: Option<String>,
}

#[derive(Deserialize)]
struct Results {
    checks: Option<Checks>,
    #[serde(default)]
    metrics: Vec<Measured>,
}

#[derive(Default, Deserialize)]
struct Checks {
    #[serde(default)]
    metrics: Vec<Measured>,
    #[serde(default)]
    results: Vec<Answer>,
}

/// Reads k6's machine-readable summary, schema 1.0.0. It has no thresholds.
pub(in crate::foreign) fn machine(bytes: &[u8]) -> Result<Foreign, Error> {
    let summary: Machine = from_json(bytes)?;
    let mut foreign = Foreign::new(Tool::K6, Form::K6MachineSummary);
    foreign.version = summary.metadata.and_then(|metadata| metadata.k6_version);
    foreign.notes.push("this form of k6 leaves thresholds out: whether they held is not known".to_owned());
    if let Some(version) = summary.version.filter(|version| !version.starts_with("1.")) {
        foreign.notes.push(format!(
            "the form has version {version}, but only 1.0.0 is known: some data may be missing"
        ));
    }
    let (duration_s, script) = summary.config.map_or((None, None), |config| (config.duration, config.script));
    foreign.title = script.filter(|script| !script.contains('\n'));
    let checks = summary.results.checks.unwrap_or_default();
    let measured = summary.results.metrics.iter().chain(&checks.metrics);
    let named = measured.map(|it| Named::new(&it.name, it.kind, it.contains, &it.values)).collect();
    let checks = checks.results.into_iter().map(|it| it.into_check("")).collect();
    Ok(assemble(Parts { foreign, named, duration_s, thresholds: Vec::new(), checks }))
}

/// A group of checks, with the groups below it: lists in k6's newer forms, objects by name in its older one.
#[derive(Debug, Default, Deserialize)]
struct Group {
    /// The names of the groups around it and its own, each after `::`.
    #[serde(default)]
    path: String,
    groups: Option<Many<Group>>,
    checks: Option<Many<Answer>>,
}

/// One check.
#[derive(Debug, Deserialize)]
struct Answer {
    name: String,
    passes: u64,
    fails: u64,
}

/// A list of values, with or without their names before them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Many<T> {
    List(Vec<T>),
    Named(BTreeMap<String, T>),
}

impl<T> Many<T> {
    fn into_each(self) -> Vec<T> {
        match self {
            Self::List(list) => list,
            Self::Named(named) => named.into_values().collect(),
        }
    }
}

impl Group {
    /// Every check in the group and in the groups below, the outer ones first.
    fn checks(self) -> Vec<Check> {
        let own = self.checks.map(Many::into_each).unwrap_or_default();
        let own = own.into_iter().map(|it| it.into_check(&self.path));
        let below = self.groups.map(Many::into_each).unwrap_or_default();
        own.chain(below.into_iter().flat_map(Self::checks)).collect()
    }
}

impl Answer {
    fn into_check(self, group: &str) -> Check {
        Check { group: group.to_owned(), name: self.name, passes: self.passes, fails: self.fails }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_that_is_true_has_failed() {
        let text = br#"{"metrics":{"http_req_duration":{"avg":1.0,"p(95)":600.0,
            "thresholds":{"p(95)<500":true,"avg<500":false}}}}"#;
        let found = legacy(text).unwrap().thresholds;
        let found: Vec<_> = found.iter().map(|it| (it.expression.as_str(), it.value, it.held)).collect();
        assert_eq!(found, [("avg<500", Some(1.0), Some(true)), ("p(95)<500", Some(600.0), Some(false))]);
    }

    #[test]
    fn both_forms_hold_the_same_checks() {
        let list = r#"{"name":"","path":"","checks":[{"name":"a","passes":1,"fails":2}],"groups":[
            {"name":"g","path":"::g","groups":[],"checks":[{"name":"b","passes":3,"fails":0}]}]}"#;
        let named = r#"{"name":"","path":"","checks":{"a":{"name":"a","passes":1,"fails":2}},"groups":{"g":
            {"name":"g","path":"::g","groups":{},"checks":{"b":{"name":"b","passes":3,"fails":0}}}}}"#;
        let read = |text| serde_json::from_str::<Group>(text).unwrap().checks();
        let found = read(list);
        assert_eq!(found, read(named));
        let found: Vec<_> = found.iter().map(|it| (it.group.as_str(), it.name.as_str(), it.passes)).collect();
        assert_eq!(found, [("", "a", 1), ("::g", "b", 3)]);
    }
}
