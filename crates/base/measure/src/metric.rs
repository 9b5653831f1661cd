//! Reads the name of a metric: `insert.response`, `response{load:feed}`, `integrity.lost`, or a supported name of k6.

use crate::histogram::Histogram;
use crate::integrity::Integrity;
use crate::interval::Tally;
use crate::outcome::Failures;
use crate::threshold::{Aggregate, Threshold};

mod selector;

pub use selector::{Selector, Subject, Tags, is_reserved};

use selector::tags;

/// Picks a latency of an operation.
type Latency = fn(&Tally) -> &Histogram;
/// Picks a counter of an operation.
type Counter = fn(&Tally) -> u64;
/// Picks a count of an audit.
type Audited = fn(&Integrity) -> u64;

/// The latencies of an operation, in nanoseconds.
pub(crate) const LATENCIES: [(&str, Latency); 5] = [
    ("response", |it| &it.response),
    ("service", |it| &it.service),
    ("wake", |it| &it.wake),
    ("wait", |it| &it.wait),
    ("failed_response", |it| &it.failed_response),
];
/// The counters of an operation.
pub(crate) const COUNTERS: [(&str, Counter); 7] = [
    ("operations", |it| it.count),
    ("completed", Tally::completed),
    ("documents", |it| it.documents),
    ("errors", |it| it.errors.total()),
    ("skipped", |it| it.skipped),
    ("bytes_sent", |it| it.bytes_sent),
    ("bytes_received", |it| it.bytes_received),
];
/// Metrics of an operation that its counters do not hold.
const OTHERS: [&str; 2] = ["checks", "achieved"];
/// The counts of an audit.
pub(crate) const INTEGRITY: [(&str, Audited); 17] = [
    ("acknowledged", |it| it.acknowledged),
    ("found", |it| it.found),
    ("lost", |it| it.lost),
    ("phantom", |it| it.phantom),
    ("duplicated", |it| it.duplicated),
    ("corrupted", |it| it.corrupted),
    ("read_then_gone", |it| it.read_then_gone),
    ("half_transactions", |it| it.half_transactions),
    ("lost_increments", |it| it.lost_increments),
    ("extra_increments", |it| it.extra_increments),
    ("missing_from_index", |it| it.missing_from_index),
    ("member_differences", |it| it.member_differences),
    ("unplaced", |it| it.unplaced),
    ("validation_errors", |it| it.validation_errors),
    ("rejected", |it| it.rejected),
    ("unknown_present", |it| it.unknown_present),
    ("unknown_absent", |it| it.unknown_absent),
];
/// The supported metrics of k6, with our names.
const K6: [(&str, &str); 7] = [
    // k6 counts from sending, which hides waiting; `response` counts from the due time.
    ("http_req_duration", "response"),
    ("http_req_failed", "errors"),
    ("http_reqs", "completed"),
    ("iterations", "completed"),
    ("dropped_iterations", "skipped"),
    ("data_sent", "bytes_sent"),
    ("data_received", "bytes_received"),
];
/// The subject of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The documents of the audit.
    Integrity,
    /// The sum over these operations.
    Operations(Selector),
}

/// A resolved metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its subject.
    pub scope: Scope,
    /// Its name.
    pub name: &'static str,
    /// The class of failures that `errors` counts, by name; `None` for all.
    pub class: Option<&'static str>,
}

impl Metric {
    /// Reads a metric and checks that one of `subjects` has it.
    ///
    /// # Errors
    /// If the metric is invalid, with the reason.
    pub fn read(text: &str, subjects: &[Subject<'_>]) -> Result<Self, String> {
        let (base, mut selector) = split(text)?;
        if let Some((theirs, ours)) = K6.iter().find(|(theirs, _)| *theirs == base) {
            let name = expected_response(theirs, ours, &mut selector);
            return Self::of(selector, name)?.checked(subjects);
        }
        match base.rsplit_once('.') {
            Some(("integrity", name)) if selector == Selector::default() => {
                let name = known(name, INTEGRITY.map(|(name, _)| name))?;
                Ok(Self { scope: Scope::Integrity, name, class: None })
            }
            Some(("integrity", _)) => {
                Err("integrity covers all documents of a run: it takes no tags".to_owned())
            }
            Some((owner, name)) => {
                check_owner(owner, subjects)?;
                let selector = selector.and_operation(owner);
                let name = known(name, of_operations())?;
                Self::of(selector, name)?.checked(subjects)
            }
            None => {
                let name = known(base, of_operations())
                    .map_err(|problem| format!("{problem}; {}", advice(subjects)))?;
                Self::of(selector, name)?.checked(subjects)
            }
        }
    }

    /// The metric of the selected operations. The tag `class` selects failures, not operations.
    fn of(mut selector: Selector, name: &'static str) -> Result<Self, String> {
        let class = if name == "errors" { selector.take("class") } else { None };
        let class = class.map(|class| known_class(&class)).transpose()?;
        Ok(Self { scope: Scope::Operations(selector), name, class })
    }

    /// Whether it counts failures of this class.
    pub fn counts_errors(&self, class: &str) -> bool {
        self.name == "errors" && self.class.is_none_or(|own| own == class)
    }

    fn checked(self, subjects: &[Subject<'_>]) -> Result<Self, String> {
        match &self.scope {
            Scope::Operations(selector) if self.name == "checks" && selector.is_of_loads() => {
                Err("checks are counted per operation: select by operation, not by load or phase".to_owned())
            }
            Scope::Operations(selector) if !subjects.iter().any(|subject| selector.matches(subject)) => {
                Err(format!("no operation has these tags; existing tags: {}", tags(subjects)))
            }
            _ => Ok(self),
        }
    }

    /// Whether it is a length of time.
    pub fn is_latency(&self) -> bool {
        matches!(self.scope, Scope::Operations(_)) && LATENCIES.iter().any(|(name, _)| *name == self.name)
    }

    /// Checks that a threshold fits the metric.
    ///
    /// # Errors
    /// If the threshold does not fit, with the reason.
    pub fn check(&self, threshold: &Threshold) -> Result<(), String> {
        let (name, latency) = (self.name, self.is_latency());
        let counting = matches!(threshold.aggregate, Aggregate::Count | Aggregate::Rate | Aggregate::Value);
        if latency && counting && threshold.aggregate != Aggregate::Count {
            return Err(format!("{name} is a latency: use p(N), med, avg, min, max or count"));
        }
        if !latency && !counting {
            return Err(format!("{name} is a counter: use count, rate or value"));
        }
        if !latency && threshold.bound.as_number().is_none() {
            return Err(format!("{name} is a counter: compare it with a number without a unit"));
        }
        Ok(())
    }
}

/// The name, and the selector in braces.
fn split(text: &str) -> Result<(&str, Selector), String> {
    let Some((base, rest)) = text.split_once('{') else { return Ok((text.trim(), Selector::default())) };
    let inside = rest.trim_end().strip_suffix('}');
    let inside = inside.ok_or("missing closing brace: write metric{tag:value}")?;
    Ok((base.trim(), Selector::read(inside)?))
}

/// k6 tags a request with whether its response was expected; here failures have a separate histogram.
fn expected_response(theirs: &str, ours: &'static str, selector: &mut Selector) -> &'static str {
    let is_latency = theirs == "http_req_duration";
    let value = if is_latency { selector.take("expected_response") } else { None };
    if value.as_deref() == Some("false") { "failed_response" } else { ours }
}

/// The metrics that an operation can have.
fn of_operations() -> impl Iterator<Item = &'static str> {
    LATENCIES.iter().map(|(name, _)| *name).chain(COUNTERS.iter().map(|(name, _)| *name)).chain(OTHERS)
}

fn known(name: &str, known: impl IntoIterator<Item = &'static str>) -> Result<&'static str, String> {
    let known: Vec<&'static str> = known.into_iter().collect();
    let found = known.iter().find(|known| **known == name);
    found.copied().ok_or_else(|| format!("unknown metric `{name}`; known metrics: {}", known.join(", ")))
}

fn known_class(name: &str) -> Result<&'static str, String> {
    let mut classes = Failures::classes();
    classes.clone().find(|known| *known == name).ok_or_else(|| {
        let all: Vec<_> = classes.by_ref().collect();
        format!("unknown class of errors `{name}`; known classes: {}", all.join(", "))
    })
}

fn check_owner(owner: &str, subjects: &[Subject<'_>]) -> Result<(), String> {
    if subjects.iter().any(|subject| subject.operation == owner) {
        return Ok(());
    }
    let names: std::collections::BTreeSet<_> = subjects.iter().map(|subject| subject.operation).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    Err(format!("unknown operation `{owner}`; known: {names}, integrity"))
}

fn advice(subjects: &[Subject<'_>]) -> String {
    let first = subjects.first().map_or("insert", |subject| subject.operation);
    let theirs: Vec<_> = K6.iter().map(|(theirs, _)| *theirs).collect();
    format!(
        "write OPERATION.METRIC, for example {first}.response, or METRIC{{tag:value}}; supported names of k6: {}",
        theirs.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operations that `text` matches, of three: one in an earlier phase, and two in parallel.
    fn matched(text: &str) -> Result<(&'static str, Vec<usize>), String> {
        let (hot, none) = (Tags::from([("kind".to_owned(), "write".to_owned())]), Tags::new());
        let subject = |phase, load, operation, tags| Subject { phase, load, operation, tags };
        let subjects = [
            subject("fill", "ingest", "ingest", &none),
            subject("main", "devices", "ingest", &hot),
            subject("main", "readers", "feed", &none),
        ];
        let metric = Metric::read(text, &subjects)?;
        let Scope::Operations(selector) = &metric.scope else { return Ok((metric.name, Vec::new())) };
        let all = subjects.iter().enumerate().filter(|(_, subject)| selector.matches(subject));
        Ok((metric.name, all.map(|(index, _)| index).collect()))
    }

    #[test]
    fn a_metric_covers_the_operations_whose_tags_match() {
        for (text, name, who) in [
            ("ingest.response", "response", &[0, 1][..]),
            ("response", "response", &[0, 1, 2]),
            ("response{}", "response", &[0, 1, 2]),
            ("response{phase:main}", "response", &[1, 2]),
            ("ingest.errors{phase:main}", "errors", &[1]),
            ("ingest.errors{class:duplicate_key}", "errors", &[0, 1]),
            ("http_req_failed{class:timeout,phase:fill}", "errors", &[0]),
            ("skipped{ load : readers , operation:feed }", "skipped", &[2]),
            ("response{kind:write}", "response", &[1]),
            ("integrity.lost", "lost", &[]),
            ("http_req_duration{scenario:devices}", "response", &[1]),
            ("http_req_duration{name:feed,expected_response:true}", "response", &[2]),
            ("http_req_duration{expected_response:false}", "failed_response", &[0, 1, 2]),
            ("http_req_failed{phase:fill}", "errors", &[0]),
            ("http_reqs", "completed", &[0, 1, 2]),
            ("iterations", "completed", &[0, 1, 2]),
            ("dropped_iterations", "skipped", &[0, 1, 2]),
            ("checks", "checks", &[0, 1, 2]),
            ("checks{operation:feed}", "checks", &[2]),
        ] {
            assert_eq!(matched(text), Ok((name, who.to_vec())), "{text}");
        }
    }

    #[test]
    fn an_unknown_metric_is_refused_with_the_known_ones() {
        for (text, part) in [
            ("inges.response", "unknown operation `inges`; known: feed, ingest, integrity"),
            ("ingest.respons", "unknown metric `respons`"),
            ("respons", "write OPERATION.METRIC"),
            ("response{phase:man}", "phase: fill | main"),
            ("response{kind:read}", "kind: write"),
            ("response{color:red}", "no operation has these tags"),
            ("response{phase}", "invalid tag `phase`"),
            (
                "errors{class:tired}",
                "unknown class of errors `tired`; known classes: duplicate_key, validation",
            ),
            ("response{class:timeout}", "no operation has these tags"),
            ("response{phase:main", "closing brace"),
            ("integrity.lost{phase:main}", "takes no tags"),
            ("integrity.los", "unknown metric `los`"),
            ("checks{load:readers}", "not by load or phase"),
            ("vus", "supported names of k6: http_req_duration"),
            ("http_req_waiting", "unknown metric `http_req_waiting`"),
            ("iteration_duration", "supported names of k6: http_req_duration"),
            ("http_req_duration{status:200}", "no operation has these tags"),
            ("http_reqs{method:GET}", "no operation has these tags"),
            ("http_req_duration{group:::cart}", "no operation has these tags"),
            ("http_req_failed{expected_response:false}", "no operation has these tags"),
        ] {
            let problem = matched(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    fn predefined_tags_are_reserved() {
        assert!(is_reserved("load") && is_reserved("operation") && is_reserved("phase"));
        assert!(!is_reserved("scenario") && !is_reserved("kind"));
    }
}
