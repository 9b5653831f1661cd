//! Marks Plimsoll's output in k6's forms, to distinguish its times from k6's.

use plimsoll_measure::run::Run;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::foreign::value::{Foreign, Form, Tool};

/// The key of the mark.
pub(super) const KEY: &str = "plimsoll";

/// The content of the mark.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Writer {
    version: Option<String>,
    started: Option<String>,
    title: Option<String>,
    #[serde(default)]
    not_known: Vec<String>,
}

/// The mark of a run.
pub(super) fn mark(run: &Run) -> Value {
    let unknown = run.expectations.iter().filter_map(|it| {
        let reason = it.reason.as_ref()?;
        Some(format!("{} {}: {reason}", it.metric, it.expression))
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "run": run.id,
        "title": run.scenario.title,
        "started": run.started,
        "verdict": run.verdict,
        "latencies": "from due to done",
        // The reasons of failed thresholds, because k6's form has only `ok`.
        "not_known": unknown.collect::<Vec<_>>(),
    })
}

/// A result in one of k6's forms, written by k6 or by Plimsoll.
pub(super) fn written_by(writer: Option<Writer>, form: Form) -> Foreign {
    match writer {
        None => Foreign::new(Tool::K6, form),
        Some(Writer { version, started, title, not_known }) => {
            let unheld = |what| format!("{what}; an unknown value does not hold");
            let notes = not_known.into_iter().map(unheld).collect();
            Foreign { version, started, title, notes, ..Foreign::new(Tool::Plimsoll, form) }
        }
    }
}
