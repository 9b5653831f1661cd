//! Reads k6's machine-readable summary, schema 1.0.0. It has no thresholds.

use serde::Deserialize;

use super::assemble::{Parts, assemble};
use super::groups::Answer;
use super::metric::{Contains, Kind, Named, Numbers};
use crate::foreign::error::Error;
use crate::foreign::value::{Foreign, Form, Tool};

#[derive(Deserialize)]
struct Summary {
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
    /// A file's name, or all that is in it.
    script: Option<String>,
}

#[derive(Deserialize)]
struct Results {
    checks: Option<Checks>,
    #[serde(default)]
    metrics: Vec<Measured>,
}

#[derive(Deserialize)]
struct Checks {
    #[serde(default)]
    metrics: Vec<Measured>,
    #[serde(default)]
    results: Vec<Answer>,
}

#[derive(Deserialize)]
struct Measured {
    name: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    contains: Contains,
    #[serde(default)]
    values: Numbers,
}

/// Reads k6's machine-readable summary.
pub(in crate::foreign) fn machine(bytes: &[u8]) -> Result<Foreign, Error> {
    let summary: Summary = serde_json::from_slice(bytes).map_err(|error| Error::of_json(&error))?;
    let mut foreign = Foreign::new(Tool::K6, Form::K6MachineSummary);
    foreign.version = summary.metadata.and_then(|metadata| metadata.k6_version);
    foreign.notes.push("this form of k6 leaves thresholds out: whether they held is not known".to_owned());
    if let Some(version) = summary.version.filter(|version| !version.starts_with("1.")) {
        foreign
            .notes
            .push(format!("the form has version {version}; 1.0.0 is known, so something may be missed"));
    }
    let duration_s = summary.config.as_ref().and_then(|config| config.duration);
    let script = summary.config.and_then(|config| config.script);
    foreign.title = script.filter(|script| !script.contains('\n'));
    let checks = summary.results.checks.unwrap_or(Checks { metrics: Vec::new(), results: Vec::new() });
    let measured = summary.results.metrics.iter().chain(&checks.metrics);
    let named = measured.map(|it| Named::new(&it.name, it.kind, it.contains, &it.values)).collect();
    let checks = checks.results.into_iter().map(|it| it.into_check("")).collect();
    Ok(assemble(Parts { foreign, named, duration_s, thresholds: Vec::new(), checks }))
}
