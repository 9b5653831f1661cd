//! The number that an expectation is held against.

use super::{Checks, Operation};
use crate::histogram::Histogram;
use crate::integrity::{Integrity, Proof};
use crate::metric::INTEGRITY;
use crate::threshold::Aggregate;

/// A count of the audit.
pub(super) fn integrity_value(name: &str, integrity: Option<&Integrity>) -> Result<f64, String> {
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

/// A measured value.
pub(super) fn operation_value(
    operation: &Operation<'_>,
    name: &str,
    aggregate: Aggregate,
) -> Result<f64, String> {
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
        "completed" => counted(tally.completed()),
        "bytes_sent" => counted(tally.bytes_sent),
        "bytes_received" => counted(tally.bytes_received),
        "documents" => counted(tally.documents),
        "skipped" => counted(tally.skipped),
        "errors" if aggregate == Aggregate::Rate => {
            Ok(tally.errors.total() as f64 / tally.completed().max(1) as f64)
        }
        "errors" => Ok(tally.errors.total() as f64),
        "checks" => checks_value(operation.checks, aggregate),
        "achieved" => operation.achieved.ok_or_else(|| "closed arrivals have no rate to achieve".to_owned()),
        _ => Err("no such metric".to_owned()),
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
