//! Finds the measured value of an expectation.

use super::{Checks, Operation};
use crate::histogram::{Histogram, supported};
use crate::integrity::{Integrity, Proof};
use crate::metric::{COUNTERS, INTEGRITY, LATENCIES, Metric};
use crate::threshold::Aggregate;

/// Counts that are valid only if the audit can tell documents apart, and documents do not vanish.
const CLAIMS: [&str; 11] = [
    "lost",
    "phantom",
    "duplicated",
    "corrupted",
    "read_then_gone",
    "half_transactions",
    "lost_increments",
    "extra_increments",
    "missing_from_index",
    "member_differences",
    "unplaced",
];

/// A count of the audit, or the reason why it is unknown.
pub(super) fn integrity_value(name: &str, integrity: Option<&Integrity>) -> Result<f64, String> {
    let found = integrity.ok_or_else(|| "no audit was made".to_owned())?;
    if !found.is_known() && !["acknowledged", "rejected"].contains(&name) {
        return Err(found.reason.clone().unwrap_or_else(|| "the documents were not read back".to_owned()));
    }
    if matches!(found.proof, Proof::Counted | Proof::NotApplicable) && CLAIMS.contains(&name) {
        return Err(found.reason.clone().unwrap_or_else(|| "the documents are indistinguishable".to_owned()));
    }
    let count = find(&INTEGRITY, name).map(|count| count(found) as f64)?;
    match unmeasured(name, found) {
        // A violation that was found counts, also if the audit could not find all.
        Some(reason) if count == 0.0 => Err(reason),
        _ => Ok(count),
    }
}

/// The reason why the audit could not find any violation of this kind; `None` if it could.
fn unmeasured(name: &str, found: &Integrity) -> Option<String> {
    let Integrity { indexes, members, shards, .. } = found;
    let (is_measured, left_out, otherwise) = match name {
        "missing_from_index" => (!indexes.checked.is_empty(), &indexes.skipped, "no index was checked"),
        "member_differences" => {
            (!members.compared.is_empty(), &members.open, "no member was compared with its primary")
        }
        "unplaced" => {
            let left_out = if shards.open.is_empty() { &shards.skipped } else { &shards.open };
            // A document may be on any shard that was not read.
            let is_measured = !shards.documents.is_empty() && shards.open.is_empty();
            (is_measured, left_out, "no shard was read past a mongos")
        }
        _ => return None,
    };
    (!is_measured).then(|| left_out.first().map_or_else(|| otherwise.to_owned(), Clone::clone))
}

/// The entry of a table with this name.
fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, pick)| *pick).ok_or_else(|| "no such metric".to_owned())
}

/// The measured value of a metric, or the reason why it is unknown.
pub(super) fn operation_value(
    operation: &Operation<'_>,
    metric: &Metric,
    aggregate: Aggregate,
) -> Result<f64, String> {
    let (tally, name) = (operation.tally, metric.name);
    if name == "errors" {
        let errors = metric.class.map_or_else(|| tally.errors.total(), |class| tally.errors_of_class(class));
        let completed = tally.completed().max(1) as f64;
        return Ok(if aggregate == Aggregate::Rate { errors as f64 / completed } else { errors as f64 });
    }
    if let Ok(latency) = find(&LATENCIES, name) {
        let failed = if FAILURES_COUNT.contains(&name) { tally.errors.total() + tally.skipped } else { 0 };
        return latency_value(latency(tally), failed, aggregate);
    }
    match (name, aggregate) {
        ("checks", _) => checks_value(operation.checks, aggregate),
        ("achieved", _) => {
            operation.achieved.ok_or_else(|| "closed arrivals have no rate to achieve".to_owned())
        }
        (_, Aggregate::Rate) => find(&COUNTERS, name).map(|count| count(tally) as f64 / operation.seconds),
        _ => find(&COUNTERS, name).map(|count| count(tally) as f64),
    }
}

/// The share of passed checks, or their number.
fn checks_value(checks: Option<Checks>, aggregate: Aggregate) -> Result<f64, String> {
    let Checks { passed, failed } = checks.ok_or_else(|| "no answer was checked".to_owned())?;
    match (aggregate, passed + failed) {
        (Aggregate::Rate, 0) => Err("no answer was checked".to_owned()),
        (Aggregate::Rate, made) => Ok(passed as f64 / made as f64),
        (_, made) => Ok(made as f64),
    }
}

/// The latencies in which a failed operation counts as infinitely slow: leaving it out would reward failures.
const FAILURES_COUNT: [&str; 2] = ["response", "service"];

/// A value of a latency, in nanoseconds. It is infinite if it depends on a failed operation.
fn latency_value(counts: &Histogram, failed: u64, aggregate: Aggregate) -> Result<f64, String> {
    if aggregate == Aggregate::Count {
        return Ok(counts.count() as f64);
    }
    let all = counts.count() + failed;
    if all == 0 {
        return Err("nothing was measured".to_owned());
    }
    let percentile = |p: f64| {
        if !supported(all, p) {
            return Err(format!("n = {all} is too small"));
        }
        Ok(counts.at_among(p, failed).map_or(f64::INFINITY, |ns| ns as f64))
    };
    match aggregate {
        Aggregate::Percentile(p) if p < 100.0 => percentile(p),
        Aggregate::Med => percentile(50.0),
        Aggregate::Min if counts.count() > 0 => Ok(counts.at(0.0) as f64),
        _ if failed > 0 => Ok(f64::INFINITY),
        Aggregate::Avg => Ok(counts.mean()),
        _ => Ok(counts.max() as f64),
    }
}
