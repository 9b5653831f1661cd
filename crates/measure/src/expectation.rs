//! What a scenario expects of a run, held against what was measured.

use crate::histogram::Histogram;
use crate::integrity::{Integrity, Proof};
use crate::interval::Tally;
use crate::run::Expectation;
use crate::threshold::{Aggregate, Bound, Threshold};

/// What each metric of an operation is called behind the operation's name.
const LATENCIES: [&str; 5] = ["response", "service", "wake", "wait", "failed_response"];
const COUNTERS: [&str; 5] = ["operations", "documents", "errors", "skipped", "achieved"];
const INTEGRITY: [&str; 9] = [
    "acknowledged",
    "found",
    "lost",
    "phantom",
    "duplicated",
    "corrupted",
    "rejected",
    "unknown_present",
    "unknown_absent",
];

/// A metric that no run can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expect.{metric}: {problem}")]
pub struct Error {
    metric: String,
    problem: String,
}

/// One operation as measured.
#[derive(Clone, Debug)]
pub struct Operation<'a> {
    /// Its name.
    pub name: &'a str,
    /// Everything it did.
    pub tally: &'a Tally,
    /// Seconds under load.
    pub seconds: f64,
    /// Completed ÷ due, for open arrivals.
    pub achieved: Option<f64>,
}

/// Reads an expectation and checks that `operations` can have its metric.
///
/// # Errors
/// What is wrong with the metric or the expression.
pub fn check(metric: &str, expression: &str, operations: &[String]) -> Result<Threshold, Error> {
    let fail = |problem: String| Error { metric: metric.to_owned(), problem };
    let threshold: Threshold =
        expression.parse().map_err(|error: crate::threshold::ParseError| fail(error.to_string()))?;
    let Some((owner, name)) = metric.rsplit_once('.') else {
        return Err(fail(format!("write OPERATION.METRIC, for example {}.response", first(operations))));
    };
    let known: &[&str] = match owner {
        "integrity" => &INTEGRITY,
        _ if operations.iter().any(|operation| operation == owner) => &[LATENCIES, COUNTERS].concat(),
        _ => {
            let known = operations.join(", ");
            return Err(fail(format!("there is no operation `{owner}`; there are {known} and integrity")));
        }
    };
    if !known.contains(&name) {
        return Err(fail(format!("there is no metric `{name}`; there are {}", known.join(", "))));
    }
    check_aggregate(name, &threshold).map_err(fail)?;
    Ok(threshold)
}

fn first(operations: &[String]) -> &str {
    operations.first().map_or("insert", String::as_str)
}

fn check_aggregate(name: &str, threshold: &Threshold) -> Result<(), String> {
    let latency = LATENCIES.contains(&name);
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

/// Holds one expectation against what was measured.
pub fn judge(
    metric: &str,
    expression: &str,
    threshold: &Threshold,
    operations: &[Operation<'_>],
    integrity: Option<&Integrity>,
) -> Expectation {
    let value = match metric.rsplit_once('.') {
        Some(("integrity", name)) => integrity_value(name, integrity),
        Some((owner, name)) => (operations.iter().find(|operation| operation.name == owner))
            .ok_or_else(|| "the operation was not run".to_owned())
            .and_then(|operation| operation_value(operation, name, threshold.aggregate)),
        None => Err("no such metric".to_owned()),
    };
    let bound = bound(metric, threshold);
    Expectation {
        metric: metric.to_owned(),
        expression: expression.to_owned(),
        held: value.as_ref().is_ok_and(|value| threshold.comparison.holds(*value, bound)),
        value: value.as_ref().ok().copied(),
        reason: value.err(),
    }
}

fn bound(metric: &str, threshold: &Threshold) -> f64 {
    let latency = metric.rsplit_once('.').is_some_and(|(_, name)| LATENCIES.contains(&name));
    match threshold.bound {
        Bound::Plain(number) if !latency || threshold.aggregate == Aggregate::Count => number,
        bound => bound.as_ns(),
    }
}

fn integrity_value(name: &str, integrity: Option<&Integrity>) -> Result<f64, String> {
    let found = integrity.ok_or_else(|| "no audit was made".to_owned())?;
    if !found.is_known() && !["acknowledged", "rejected"].contains(&name) {
        return Err(found.reason.clone().unwrap_or_else(|| "the documents were not read back".to_owned()));
    }
    let claims = ["lost", "phantom", "duplicated", "corrupted"];
    if matches!(found.proof, Proof::Counted | Proof::NotApplicable) && claims.contains(&name) {
        return Err(found.reason.clone().unwrap_or_else(|| "the documents cannot be told apart".to_owned()));
    }
    let values = [
        found.acknowledged,
        found.found,
        found.lost,
        found.phantom,
        found.duplicated,
        found.corrupted,
        found.rejected,
        found.unknown_present,
        found.unknown_absent,
    ];
    let value = INTEGRITY.iter().zip(values).find(|(known, _)| **known == name);
    value.map(|(_, value)| value as f64).ok_or_else(|| "no such metric".to_owned())
}

fn operation_value(operation: &Operation<'_>, name: &str, aggregate: Aggregate) -> Result<f64, String> {
    let tally = operation.tally;
    let counted = |count: u64| {
        Ok(if aggregate == Aggregate::Rate { count as f64 / operation.seconds } else { count as f64 })
    };
    match name {
        "response" => latency_value(&tally.response, aggregate),
        "service" => latency_value(&tally.service, aggregate),
        "wake" => latency_value(&tally.wake, aggregate),
        "wait" => latency_value(&tally.wait, aggregate),
        "failed_response" => latency_value(&tally.failed_response, aggregate),
        "operations" => counted(tally.count),
        "documents" => counted(tally.documents),
        "skipped" => counted(tally.skipped),
        "errors" if aggregate == Aggregate::Rate => {
            Ok(tally.errors.total() as f64 / tally.completed().max(1) as f64)
        }
        "errors" => Ok(tally.errors.total() as f64),
        "achieved" => operation.achieved.ok_or_else(|| "closed arrivals have no rate to achieve".to_owned()),
        _ => Err("no such metric".to_owned()),
    }
}

fn latency_value(counts: &Histogram, aggregate: Aggregate) -> Result<f64, String> {
    if aggregate == Aggregate::Count {
        return Ok(counts.count() as f64);
    }
    if counts.count() == 0 {
        return Err("nothing was measured".to_owned());
    }
    let percentile =
        |p| counts.supported_at(p).map(|ns| ns as f64).ok_or(format!("n = {} is too small", counts.count()));
    match aggregate {
        Aggregate::Percentile(p) if p < 100.0 => percentile(p),
        Aggregate::Med => percentile(50.0),
        Aggregate::Avg => Ok(counts.mean()),
        Aggregate::Min => Ok(counts.at(0.0) as f64),
        _ => Ok(counts.max() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;
    use crate::interval::{Instants, Reply};

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

    fn judged(metric: &str, expression: &str) -> Expectation {
        let tally = tally();
        let operations = [Operation { name: "insert", tally: &tally, seconds: 10.0, achieved: None }];
        let threshold = check(metric, expression, &["insert".to_owned()]).unwrap();
        let integrity = Integrity { lost: 3, ..Integrity::default() };
        judge(metric, expression, &threshold, &operations, Some(&integrity))
    }

    #[test]
    fn each_metric_is_held_against_its_bound() {
        for (metric, expression, held) in [
            ("insert.response", "p(99)<2ms", true),
            ("insert.response", "p(99)<0.98", false),
            ("insert.response", "max<=1001us", true),
            ("insert.documents", "rate>999", true),
            ("insert.operations", "count==1000", true),
            ("insert.errors", "rate<0.01", true),
            ("integrity.lost", "count==0", false),
            ("integrity.found", "count==0", true),
        ] {
            assert_eq!(judged(metric, expression).held, held, "{metric} {expression}");
        }
    }

    #[test]
    fn integrity_that_was_not_read_back_does_not_hold() {
        let threshold = check("integrity.lost", "count==0", &[]).unwrap();
        let unread = Integrity { proof: Proof::NotAudited, ..Integrity::default() };
        assert!(!judge("integrity.lost", "count==0", &threshold, &[], Some(&unread)).held);
    }

    #[test]
    fn what_cannot_be_known_does_not_hold_and_says_why() {
        let rare = judged("insert.response", "p(99.9)<1s");
        assert_eq!((rare.held, rare.value), (false, None));
        assert_eq!(rare.reason.as_deref(), Some("n = 1000 is too small"));
        assert_eq!(
            judged("insert.achieved", "value>0.99").reason.as_deref(),
            Some("closed arrivals have no rate to achieve")
        );
    }

    #[test]
    fn metrics_that_no_run_can_have_are_refused_before_it() {
        for (metric, expression, part) in [
            ("insrt.response", "p(99)<1", "there is no operation `insrt`"),
            ("insert.respons", "p(99)<1", "there is no metric `respons`"),
            ("response", "p(99)<1", "write OPERATION.METRIC"),
            ("insert.response", "rate<1", "is a latency"),
            ("insert.errors", "p(99)<1", "is a counter"),
            ("integrity.lost", "count<1ms", "without a unit"),
            ("insert.response", "p99<1", "write for example"),
        ] {
            let message = check(metric, expression, &["insert".to_owned()]).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
