//! Reads the output of `k6 run --summary-export`: the older form, in which a threshold that is `true` has **failed**.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::assemble::{Parts, assemble};
use super::groups::Group;
use super::metric::{Contains, Kind, Named, Numbers, measured};
use super::writer::{Writer, written_by};
use crate::foreign::error::Error;
use crate::foreign::value::{Foreign, Form, Threshold};

#[derive(Deserialize)]
struct Export {
    root_group: Option<Group>,
    metrics: BTreeMap<String, BTreeMap<String, Entry>>,
    /// Only where Plimsoll wrote it.
    plimsoll: Option<Writer>,
}

/// The keys next to a metric's numbers, which are not nested.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Number(Option<f64>),
    /// By expression, whether it failed.
    Thresholds(BTreeMap<String, bool>),
}

/// Reads the output of `k6 run --summary-export`.
pub(in crate::foreign) fn legacy(bytes: &[u8]) -> Result<Foreign, Error> {
    let export: Export = serde_json::from_slice(bytes).map_err(|error| Error::of_json(&error))?;
    let mut foreign = written_by(export.plimsoll, Form::K6SummaryExport);
    let tool = foreign.tool;
    let mut thresholds = Vec::new();
    let mut named = Vec::new();
    for (name, entries) in export.metrics {
        let mut numbers = Numbers::new();
        let mut failed = BTreeMap::new();
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
        named.push(Named::new(&name, Kind::of(&numbers), Contains::of(tool, &name), &numbers));
    }
    if !thresholds.is_empty() {
        let turned =
            "in this form k6 writes `true` for a threshold that has failed; it is told here as it is meant";
        foreign.notes.push(turned.to_owned());
    }
    let checks = export.root_group.unwrap_or_default().checks();
    Ok(assemble(Parts { foreign, named, duration_s: None, thresholds, checks }))
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
}
