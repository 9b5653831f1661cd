//! Checks a run against the expectations of its scenario.

use crate::duration::Span;
use crate::integrity::Integrity;
use crate::interval::Tally;
use crate::metric::{Metric, Scope, Selector, Subject};
use crate::outcome::Rejection;
use crate::rule::Rule;
use crate::run::{Check, Expectation};
use crate::threshold::{Aggregate, Bound, ParseError, Threshold};

/// The reason for a latency without a value.
const INFINITE: &str = "too many operations failed for this bound: a failure counts as infinitely slow";

mod value;

use value::{integrity_value, operation_value};

/// An invalid expectation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expect.{metric}: {problem}")]
pub struct Error {
    metric: String,
    problem: String,
}

/// A resolved expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The metric as typed.
    pub typed: String,
    /// The expression as typed.
    pub expression: String,
    /// The metric.
    pub metric: Metric,
    /// Its threshold.
    pub threshold: Threshold,
    /// The time under load after which the run ends if the expectation does not hold.
    pub abort_after: Option<Span>,
}

/// The checks of operations' answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The number of passed checks.
    pub passed: u64,
    /// The number of failed checks.
    pub failed: u64,
}

impl Checks {
    /// All checks of one operation's answers together.
    pub fn of(checks: &[Check]) -> Self {
        let passed = checks.iter().map(|check| check.passed).sum();
        Self { passed, failed: checks.iter().map(|check| check.failed).sum() }
    }
}

/// Operations as measured.
#[derive(Clone, Debug)]
pub struct Operation<'a> {
    /// Their counters.
    pub tally: &'a Tally,
    /// Seconds under load.
    pub seconds: f64,
    /// Completed ÷ due, for open arrivals.
    pub achieved: Option<f64>,
    /// The checks of their answers, if any.
    pub checks: Option<Checks>,
}

/// Reads an expectation and checks that at least one of `subjects` can have its metric.
///
/// # Errors
/// If the metric or the expression is invalid.
pub fn read(metric: &str, rule: &Rule, subjects: &[Subject<'_>]) -> Result<Wanted, Error> {
    let fail = |problem: String| Error { metric: metric.to_owned(), problem };
    let threshold: Threshold = rule.threshold.parse().map_err(|error: ParseError| fail(error.to_string()))?;
    let resolved = Metric::read(metric, subjects).map_err(fail)?;
    resolved.check(&threshold).map_err(fail)?;
    if rule.abort_on_fail && resolved.name == "checks" {
        return Err(fail(
            "checks are summed up at the end of the run: use `errors` to end it early".to_owned(),
        ));
    }
    if rule.abort_on_fail && resolved.scope == Scope::Integrity {
        return Err(fail("the audit runs after the load, so it cannot end the load".to_owned()));
    }
    Ok(Wanted {
        typed: metric.to_owned(),
        expression: rule.threshold.clone(),
        metric: resolved,
        threshold,
        abort_after: rule.abort_after(),
    })
}

impl Wanted {
    /// The covered operations; nothing for integrity.
    pub const fn selector(&self) -> Option<&Selector> {
        match &self.metric.scope {
            Scope::Operations(selector) => Some(selector),
            Scope::Integrity => None,
        }
    }

    /// Whether the expectation bounds the errors of this class and of this part of the load. An expectation of checks
    /// bounds the errors of answers that fail a check.
    pub fn allows(&self, class: &str, subject: &Subject<'_>) -> bool {
        let refused = self.metric.name == "checks" && class == Rejection::Unexpected.name();
        let bounds = refused || self.metric.counts_errors(class);
        bounds && self.selector().is_some_and(|selector| selector.matches(subject))
    }

    /// Judges the expectation by the sum of its operations, or by the audit.
    pub fn judge(&self, measured: Option<&Operation<'_>>, integrity: Option<&Integrity>) -> Expectation {
        let value = match self.metric.scope {
            Scope::Integrity => integrity_value(self.metric.name, integrity),
            Scope::Operations(_) => self.value(measured),
        };
        let held = value.as_ref().is_ok_and(|value| self.holds(*value));
        let value =
            value.and_then(|value| if value.is_finite() { Ok(value) } else { Err(INFINITE.to_owned()) });
        Expectation {
            metric: self.typed.clone(),
            expression: self.expression.clone(),
            held,
            value: value.as_ref().ok().copied(),
            reason: value.err(),
            by_default: false,
        }
    }

    /// The value so far, if it is known and does not hold.
    pub fn broken(&self, measured: &Operation<'_>) -> Option<f64> {
        self.value(Some(measured)).ok().filter(|value| !self.holds(*value))
    }

    /// Whether it bounds a number of operations, not their latencies.
    pub fn counts(&self) -> bool {
        !self.metric.is_latency() || self.threshold.aggregate == Aggregate::Count
    }

    fn holds(&self, value: f64) -> bool {
        self.threshold.comparison.holds(value, self.bound())
    }

    fn bound(&self) -> f64 {
        match self.threshold.bound {
            Bound::Plain(number) if self.counts() => number,
            bound => bound.as_ns(),
        }
    }

    fn value(&self, measured: Option<&Operation<'_>>) -> Result<f64, String> {
        let measured = measured.ok_or_else(|| "the operation was not run".to_owned())?;
        operation_value(measured, &self.metric, self.threshold.aggregate)
    }
}

/// The default expectation for a class of errors without an expectation: no such error occurs.
pub fn unexpected_errors(operation: &str, class: &str, count: u64) -> Expectation {
    let metric = format!("{operation}.errors{{class:{class}}}");
    Expectation {
        reason: Some(format!("only an expectation allows errors, such as `{metric}: [\"rate<0.01\"]`")),
        metric,
        expression: "count==0".to_owned(),
        value: Some(count as f64),
        held: false,
        by_default: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;
    use crate::integrity::Proof;
    use crate::interval::{Instants, Reply};
    use crate::metric::Tags;
    use crate::outcome::{Doubt, Outcome};

    fn tally() -> Tally {
        let mut tally = Tally::default();
        for number in 1..=1000 {
            let at = Instant::from_ns(0);
            tally.record(
                &Instants { due: at, awake: at, sent: at, done: at + number * 1000 },
                &Reply::acknowledged(10),
            );
        }
        tally
    }

    fn wanted(metric: &str, expression: &str) -> Result<Wanted, Error> {
        let tags = Tags::new();
        let subject = Subject { phase: "load", load: "insert", operation: "insert", tags: &tags };
        read(metric, &Rule::new(expression), &[subject])
    }

    fn judged(metric: &str, expression: &str) -> Expectation {
        let tally = tally();
        let checks = Some(Checks { passed: 197, failed: 3 });
        let measured = Operation { tally: &tally, seconds: 10.0, achieved: None, checks };
        let integrity = Integrity { lost: 3, ..Integrity::default() };
        wanted(metric, expression).unwrap().judge(Some(&measured), Some(&integrity))
    }

    #[test]
    fn each_metric_is_compared_with_its_bound() {
        for (metric, expression, held) in [
            ("insert.response", "p(99)<2ms", true),
            ("insert.response", "p(99)<0.98", false),
            ("insert.response", "max<=1001us", true),
            ("insert.documents", "rate>999", true),
            ("insert.operations", "count==1000", true),
            ("insert.errors", "rate<0.01", true),
            ("insert.completed", "rate==100", true),
            ("http_req_duration", "p(95)<500", true),
            ("http_req_duration{operation:insert}", "p(95)<0.5", false),
            ("http_req_failed", "rate<0.01", true),
            ("checks", "rate>0.98", true),
            ("insert.checks", "rate>=0.99", false),
            ("checks{operation:insert}", "count==200", true),
            ("http_reqs", "count>=1000", true),
            ("dropped_iterations", "count==0", true),
            ("integrity.lost", "count==0", false),
            ("integrity.found", "count==0", true),
        ] {
            assert_eq!(judged(metric, expression).held, held, "{metric} {expression}");
        }
    }

    /// 1,000 operations of up to 1 ms, and `failed` failed ones that took no longer.
    fn with_failures(failed: u64, expression: &str) -> Expectation {
        let (mut tally, at) = (tally(), Instant::from_ns(0));
        let instants = Instants { due: at, awake: at, sent: at, done: at + 1000 };
        let timeout = Reply::failed(Outcome::Unknown(Doubt::Timeout), 1);
        (0..failed).for_each(|_| tally.record(&instants, &timeout));
        let measured = Operation { tally: &tally, seconds: 10.0, achieved: None, checks: None };
        wanted("insert.response", expression).unwrap().judge(Some(&measured), None)
    }

    #[test]
    fn a_failure_counts_as_infinitely_slow_in_a_percentile() {
        assert!(with_failures(0, "p(99)<50ms").held);
        assert!(with_failures(9, "p(99)<50ms").held, "fewer than one in a hundred");
        let failed = with_failures(53, "p(99)<50ms");
        assert!(
            !failed.held && failed.value.is_none() && failed.reason == Some(INFINITE.to_owned()),
            "{failed:?}"
        );
        let median = with_failures(500, "med<1ms");
        assert!(median.held && (median.value.unwrap() / 750_000.0 - 1.0).abs() < 0.01, "{median:?}");
        assert!(!with_failures(1001, "med<1ms").held);
    }

    #[test]
    fn a_failure_counts_as_infinitely_slow_in_a_maximum_and_a_mean() {
        for bound in ["max<1s", "avg<1s"] {
            assert!(with_failures(0, bound).held, "{bound}");
            let failed = with_failures(1, bound);
            let reason = failed.reason.unwrap_or_default();
            assert!(
                !failed.held
                    && failed.value.is_none()
                    && reason.contains("a failure counts as infinitely slow"),
                "{bound}: {reason}"
            );
        }
        assert!(with_failures(1, "min<1s").held, "the fastest operation succeeded");
    }

    #[test]
    fn integrity_that_was_not_read_back_does_not_hold() {
        let unread = Integrity { proof: Proof::NotAudited, ..Integrity::default() };
        assert!(!wanted("integrity.lost", "count==0").unwrap().judge(None, Some(&unread)).held);
    }

    #[test]
    fn a_count_of_copies_or_indexes_that_were_not_looked_at_does_not_hold_and_has_a_reason() {
        let judged = |metric, integrity: &Integrity| {
            let expectation = wanted(metric, "count==0").unwrap().judge(None, Some(integrity));
            (expectation.held, expectation.reason.unwrap_or_default())
        };
        let nothing = Integrity::default();
        for (metric, reason) in [
            ("integrity.missing_from_index", "no index was checked"),
            ("integrity.member_differences", "no member was compared with its primary"),
            ("integrity.unplaced", "no shard was read past a mongos"),
        ] {
            assert_eq!(judged(metric, &nothing), (false, reason.to_owned()));
        }
        let mut looked = Integrity::default();
        looked.indexes.checked = vec!["_id_".into()];
        looked.members.compared = vec!["a:1".into()];
        looked.shards.documents.insert("s0".into(), 0);
        for metric in ["integrity.missing_from_index", "integrity.member_differences", "integrity.unplaced"] {
            assert_eq!(judged(metric, &looked), (true, String::new()));
        }
        let mut left_out = Integrity::default();
        left_out.indexes.skipped = vec!["The index a_1 was not checked.".into()];
        assert_eq!(
            judged("integrity.missing_from_index", &left_out),
            (false, "The index a_1 was not checked.".into())
        );
    }

    #[test]
    fn an_unknown_value_does_not_hold_and_has_a_reason() {
        let rare = judged("insert.response", "p(99.9)<1s");
        assert_eq!((rare.held, rare.value), (false, None));
        assert_eq!(rare.reason.as_deref(), Some("n = 1000 is too small"));
        assert_eq!(
            judged("insert.achieved", "value>0.99").reason.as_deref(),
            Some("closed arrivals have no rate to achieve")
        );
    }

    #[test]
    fn metrics_that_no_run_can_have_are_refused_before_the_run() {
        for (metric, expression, part) in [
            ("insrt.response", "p(99)<1", "unknown operation `insrt`"),
            ("insert.respons", "p(99)<1", "unknown metric `respons`"),
            ("respons", "p(99)<1", "write OPERATION.METRIC"),
            ("insert.response", "rate<1", "is a latency"),
            ("insert.errors", "p(99)<1", "is a counter"),
            ("integrity.lost", "count<1ms", "without a unit"),
            ("insert.response", "p99<1", "write for example"),
        ] {
            let message = wanted(metric, expression).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_unknown_value_breaks_no_expectation() {
        let tally = tally();
        let measured = Operation { tally: &tally, seconds: 10.0, achieved: None, checks: None };
        let broken = |metric: &str, expression: &str| wanted(metric, expression).unwrap().broken(&measured);
        assert_eq!(broken("insert.operations", "count<1000"), Some(1000.0));
        assert_eq!(broken("insert.operations", "count<=1000"), None);
        assert_eq!(broken("insert.response", "p(99.9)<1ns"), None);
        assert_eq!(broken("insert.achieved", "value>0.99"), None);
        assert_eq!(broken("checks", "rate>0.99"), None);
    }

    #[test]
    fn an_audited_metric_cannot_end_the_load() {
        let rule = Rule { abort_on_fail: true, ..Rule::new("count==0") };
        let message = read("integrity.lost", &rule, &[]).unwrap_err().to_string();
        assert!(message.contains("after the load"), "{message}");
    }
}
