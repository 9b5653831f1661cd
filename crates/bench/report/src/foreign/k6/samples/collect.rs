//! Adds up samples as they arrive.

use std::collections::BTreeMap;

use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::line::{Data, Line, Tags, tag};
use super::requests::Requests;
use super::seconds::Seconds;
use super::series::Series;
use super::trend::{Room, ns};
use crate::foreign::distribution::Source;
use crate::foreign::error::Error;
use crate::foreign::k6::assemble::{Parts, assemble};
use crate::foreign::value::{Check, Foreign, Form, Tool, Values};
use crate::units::exact;

/// The maximum number of metrics and submetrics.
const ACCUMULATORS_MAX: usize = 1000;
/// The maximum number of distinct checks.
const CHECKS_MAX: usize = 1000;
/// The name under which checks beyond the maximum are counted together.
const OTHER_CHECKS: &str = "(other checks)";
/// The name of all requests together, as in the summaries.
const REQUESTS: &str = "http requests";

/// The sums of all samples so far.
#[derive(Debug, Default)]
pub(super) struct Collected {
    series: BTreeMap<String, Series>,
    accumulators: usize,
    requests: Requests,
    seconds: Seconds,
    checks: BTreeMap<(String, String), [u64; 2]>,
    room: Room,
    span: Option<Span>,
}

/// The time range of operations, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The start of the first operation.
    from_ns: u64,
    /// The moment of the last sample.
    to_ns: u64,
    /// The moment of the first sample in the file. Seconds count from here.
    origin_ns: u64,
}

impl Collected {
    /// Takes the line `number`.
    pub(super) fn take(&mut self, number: u64, line: Line<'_>) -> Result<(), Error> {
        let metric = line.metric.as_str();
        match line.kind.as_str() {
            "Metric" => self.describe(number, metric, line.data),
            "Point" => self.sample(number, metric, line.data),
            other => {
                let problem = format!("unknown type `{other}`: not `Metric` or `Point`");
                Err(Error::malformed(number, problem))
            }
        }
    }

    fn describe(&mut self, number: u64, metric: &str, mut data: Data<'_>) -> Result<(), Error> {
        let kind = data.kind.ok_or_else(|| Error::malformed(number, "a metric without `type`"))?;
        if self.series.contains_key(metric) {
            return Ok(());
        }
        let series = Series::new(kind, &mut data);
        self.accumulators += series.accumulators();
        if self.accumulators > ACCUMULATORS_MAX {
            let (what, remedy) = ("metrics and submetrics", "leave out the ones that you do not need");
            return Err(Error::too_much(number, ACCUMULATORS_MAX as u64, what, remedy));
        }
        self.series.insert(metric.to_owned(), series);
        Ok(())
    }

    fn sample(&mut self, number: u64, metric: &str, data: Data<'_>) -> Result<(), Error> {
        let missing = |what: &str| Error::malformed(number, format!("a sample without `{what}`"));
        let value = data.value.ok_or_else(|| missing("value"))?;
        let time = data.time.ok_or_else(|| missing("time"))?;
        let at_ns = nanoseconds(time.as_str()).ok_or_else(|| {
            Error::malformed(number, format!("`{}` is not an RFC 3339 time", time.as_str()))
        })?;
        let tags = data.tags.unwrap_or_default();
        let Some(series) = self.series.get_mut(metric) else {
            let problem = format!("a sample of `{metric}`, which no earlier line defines");
            return Err(Error::malformed(number, problem));
        };
        series.record(value, &tags, &mut self.room);
        let span = Span::with(self.span, at_ns, if is_duration(metric) { ns(value) } else { 0 });
        self.span = Some(span);
        let second = at_ns.saturating_sub(span.origin_ns) / SECOND_NS;
        self.understand(metric, value, &tags, second);
        Ok(())
    }

    /// Handles built-in metrics of k6.
    fn understand(&mut self, metric: &str, value: f64, tags: &Tags<'_>, second: u64) {
        match metric {
            "http_req_duration" => {
                let name = self.requests.name(tags);
                self.requests.took(&name, value, &mut self.room);
                let failed = tag(tags, "expected_response") == "false";
                self.seconds.record(second, REQUESTS, ns(value), failed);
                self.seconds.record(second, &name, ns(value), failed);
            }
            "http_req_failed" if value != 0.0 => {
                let name = self.requests.name(tags);
                self.requests.failed(&name, tags);
            }
            "iteration_duration" => self.seconds.record(second, "iterations", ns(value), false),
            "checks" => self.check(tag(tags, "group"), tag(tags, "check"), value),
            _ => {}
        }
    }

    fn check(&mut self, group: &str, name: &str, value: f64) {
        let mut key = (group.to_owned(), name.to_owned());
        if self.checks.len() >= CHECKS_MAX && !self.checks.contains_key(&key) {
            key = (String::new(), OTHER_CHECKS.to_owned());
        }
        self.checks.entry(key).or_default()[usize::from(value == 0.0)] += 1;
    }

    /// The result of a file with this number of lines.
    pub(super) fn into_foreign(self, lines: u64) -> Foreign {
        let seconds = self.span.map_or(0.0, Span::seconds);
        let mut foreign = Foreign::new(Tool::K6, Form::K6Samples);
        foreign.started = self.span.and_then(|span| moment(span.from_ns));
        foreign.notes.push(format!(
            "recomputed from {} lines of samples; rates are over the time from the first sample to the last, which is \
             a little less than k6's own; thresholds of submetrics are not in this form",
            exact(lines)
        ));
        let (list, rest) = self.seconds.into_list();
        foreign.seconds = list;
        foreign.notes.extend(of_seconds(&rest));
        let closed = self.series.into_iter().map(|(name, series)| series.close(&name, seconds));
        let (named, thresholds): (Vec<_>, Vec<_>) = closed.unzip();
        let check = |((group, name), [passes, fails]): ((String, String), [u64; 2])| Check {
            group,
            name,
            passes,
            fails,
        };
        let parts = Parts {
            foreign,
            named: named.into_iter().flatten().collect(),
            duration_s: Some(seconds),
            thresholds: thresholds.into_iter().flatten().collect(),
            checks: self.checks.into_iter().map(check).collect(),
        };
        with_requests(assemble(parts), self.requests, seconds)
    }
}

/// Puts the single requests after the sum of all requests, and drops the histograms of other metrics.
fn with_requests(mut foreign: Foreign, requests: Requests, seconds: f64) -> Foreign {
    let (errors, each) = requests.close(seconds);
    if let Some(at) = foreign.operations.iter().position(|it| it.name == REQUESTS) {
        foreign.operations[at].errors = errors;
        foreign.operations.splice(at + 1..at + 1, each);
    }
    for metric in &mut foreign.metrics {
        if let Values::Trend(trend) = &mut metric.values {
            trend.histogram = None;
        }
    }
    let counted = |source| source == Source::Histogram;
    if foreign.operations.iter().flat_map(|it| &it.times).any(|times| counted(times.ns.source)) {
        let note = "there are too many samples to keep each: percentiles of the most frequent operations are to three \
                    digits";
        foreign.notes.push(note.to_owned());
    }
    foreign
}

fn of_seconds(rest: &Seconds) -> Vec<String> {
    let late = (rest.late > 0).then(|| {
        format!(
            "{} samples came more than 5 s late and are missing in the percentiles of their seconds",
            exact(rest.late)
        )
    });
    let cut = rest.cut.then(|| "only the first seconds are listed: there are too many".to_owned());
    late.into_iter().chain(cut).collect()
}

/// Whether a metric is the duration of an operation that ended at the moment of the sample.
fn is_duration(metric: &str) -> bool {
    matches!(metric, "http_req_duration" | "iteration_duration")
}

impl Span {
    fn with(known: Option<Self>, at_ns: u64, took_ns: u64) -> Self {
        let began = at_ns.saturating_sub(took_ns);
        known.map_or(Self { from_ns: began, to_ns: at_ns, origin_ns: at_ns }, |span| Self {
            from_ns: span.from_ns.min(began),
            to_ns: span.to_ns.max(at_ns),
            ..span
        })
    }

    fn seconds(self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / SECOND_NS as f64
    }
}

/// A time in nanoseconds since 1970.
fn nanoseconds(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos()).ok()
}

/// A moment to the millisecond, in UTC.
fn moment(at_ns: u64) -> Option<String> {
    let whole = i128::from(at_ns / MILLISECOND_NS * MILLISECOND_NS);
    OffsetDateTime::from_unix_timestamp_nanos(whole).ok()?.format(&Rfc3339).ok()
}
