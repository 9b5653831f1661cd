//! Reads the data of k6's `handleSummary`, as JSON.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::assemble::{Parts, assemble};
use super::groups::Group;
use super::metric::{Contains, Kind, Named, Numbers, measured};
use super::writer::{Writer, written_by};
use crate::foreign::error::Error;
use crate::foreign::value::{Foreign, Form, Threshold};

#[derive(Deserialize)]
struct Summary {
    root_group: Option<Group>,
    state: Option<State>,
    metrics: BTreeMap<String, Measured>,
    /// Only where Plimsoll wrote it.
    plimsoll: Option<Writer>,
}

#[derive(Deserialize)]
struct State {
    #[serde(rename = "testRunDurationMs")]
    duration_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Measured {
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

/// Reads the data of k6's `handleSummary`, and distinguishes Plimsoll's output in the same form.
pub(in crate::foreign) fn summary(bytes: &[u8]) -> Result<Foreign, Error> {
    let summary: Summary = serde_json::from_slice(bytes).map_err(|error| Error::of_json(&error))?;
    let thresholds = summary.metrics.iter().flat_map(|(name, it)| thresholds(name, it)).collect();
    let named =
        summary.metrics.iter().map(|(name, it)| Named::new(name, it.kind, it.contains, &it.values)).collect();
    let duration_ms = summary.state.and_then(|state| state.duration_ms);
    Ok(assemble(Parts {
        foreign: written_by(summary.plimsoll, Form::K6Summary),
        named,
        duration_s: duration_ms.map(|ms| ms / 1000.0),
        thresholds,
        checks: summary.root_group.unwrap_or_default().checks(),
    }))
}

fn thresholds(name: &str, metric: &Measured) -> Vec<Threshold> {
    let all = metric.thresholds.iter().flatten();
    all.map(|(expression, held)| Threshold {
        metric: name.to_owned(),
        expression: expression.clone(),
        value: measured(expression, &metric.values),
        held: Some(held.ok),
    })
    .collect()
}
