//! Writes the text that Prometheus reads (exposition format 0.0.4).

use std::fmt::{Display, Write};

/// The page.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Its content type.
    pub const TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a metric: `kind` is `counter`, `gauge` or `histogram`.
    pub fn begin(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// Writes a sample of the current metric. `labels` have the form `a="b",c="d"`.
    pub fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    /// Writes a metric with one sample.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.sample(name, "", value);
    }

    /// Writes a histogram. `buckets` gives the upper bound and the count of each bucket, not cumulated; `all`
    /// is the total count, and `sum` the sum of the values.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        buckets: impl Iterator<Item = (String, u64)>,
        all: u64,
        sum: f64,
    ) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        for (bound, count) in buckets {
            total += count;
            self.sample(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), total);
        }
        self.sample(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"+Inf\""), all);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, all);
    }

    /// The text.
    pub fn text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        writeln!(self.0, "{line}").unwrap_or_default();
    }
}
