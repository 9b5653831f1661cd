//! Writes the Prometheus text format 0.0.4.

use std::fmt::Write as _;

/// Appends the help and the type of a metric.
pub(super) fn put_head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Appends a sample.
pub(super) fn put(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// A label value with its special characters escaped.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
