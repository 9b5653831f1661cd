//! Assembles a result from k6's metrics: finds the operations and adds caveats.

use std::collections::BTreeMap;

use super::metric::{Named, base};
use crate::foreign::value::{
    Check, Foreign, Metric, Of, Operation, Since, Threshold, Times, Tool, Unit, Values,
};
use crate::units::{counted, exact};

/// The data that was read from a file of k6.
#[derive(Debug)]
pub(super) struct Parts {
    /// The result so far, which holds only its origin.
    pub foreign: Foreign,
    /// Every metric.
    pub named: Vec<Named>,
    /// The length of the test, if the form has it.
    pub duration_s: Option<f64>,
    pub thresholds: Vec<Threshold>,
    /// The checks of answers.
    pub checks: Vec<Check>,
}

/// A built-in k6 metric: the duration of a whole operation.
struct Known {
    trend: &'static str,
    words: &'static str,
    counter: Option<&'static str>,
    failures: Option<&'static str>,
}

const KNOWN: [Known; 4] = [
    Known {
        trend: "http_req_duration",
        words: "http requests",
        counter: Some("http_reqs"),
        failures: Some("http_req_failed"),
    },
    Known { trend: "iteration_duration", words: "iterations", counter: Some("iterations"), failures: None },
    Known { trend: "grpc_req_duration", words: "grpc requests", counter: None, failures: None },
    Known { trend: "group_duration", words: "groups", counter: None, failures: None },
];

/// Plimsoll's name for the service time of all requests.
pub(super) const SERVICE: &str = "http_req_service";

/// Built-in k6 durations of parts of operations.
const PARTS: [&str; 3] = ["ws_connecting", "ws_session_duration", "ws_ping"];

/// The operation that a duration metric measures, and the moment from which the metric counts.
struct Role {
    /// The position among the operations.
    rank: usize,
    operation: String,
    since: Since,
    of: Of,
    counter: Option<String>,
    failures: Option<String>,
}

/// The result that consists of these parts.
pub(super) fn assemble(parts: Parts) -> Foreign {
    let Parts { mut foreign, named, duration_s, thresholds, checks } = parts;
    let mut rest: BTreeMap<String, Named> = named.into_iter().map(|it| (it.name.clone(), it)).collect();
    foreign.duration_s = duration_s.or_else(|| derived(&rest));
    if duration_s.is_none() && foreign.duration_s.is_some() {
        foreign.notes.push("the duration is a counter's sum ÷ its rate, because this form lacks it".into());
    }
    let dropped = dropped(&rest);
    foreign.operations = operations(foreign.tool, foreign.duration_s, &mut rest);
    let metric = |it: Named| Metric { name: it.name, unit: it.unit, values: it.values };
    foreign.metrics = rest.into_values().map(metric).collect();
    (foreign.thresholds, foreign.checks) = (thresholds, checks);
    foreign.notes.extend(dropped.filter(|_| foreign.tool == Tool::K6));
    foreign.notes.extend(failures_among(&foreign.operations));
    foreign
}

fn operations(tool: Tool, duration_s: Option<f64>, rest: &mut BTreeMap<String, Named>) -> Vec<Operation> {
    let times = rest.values().filter(|it| it.unit == Unit::Nanoseconds);
    let mut roles: Vec<_> = times.filter_map(|it| Some((role(tool, &it.name)?, it.name.clone()))).collect();
    roles.sort_by(|(one, its), (other, others)| (one.rank, its).cmp(&(other.rank, others)));
    let mut operations: Vec<Operation> = Vec::new();
    for (role, name) in roles {
        let Some(Named { values: Values::Trend(mut ns), .. }) = rest.remove(&name) else { continue };
        let (since, of) = (role.since, role.of);
        let known = operations.iter().position(|it| it.name == role.operation);
        let index = known.unwrap_or_else(|| {
            operations.push(counts(role, duration_s, rest));
            operations.len() - 1
        });
        let operation = &mut operations[index];
        let ended = operation.count.map(|count| match of {
            Of::All => count,
            Of::Successes => count - operation.failed.unwrap_or(0).min(count),
            Of::Failures => operation.failed.unwrap_or(0),
        });
        ns.count = ns.count.or(ended);
        operation.count = operation.count.or(ns.count);
        operation.times.push(Times { since, of, ns });
    }
    operations
}

/// The counts of all and of failed operations, removed from the other metrics.
fn counts(role: Role, duration_s: Option<f64>, rest: &mut BTreeMap<String, Named>) -> Operation {
    let counter = role.counter.and_then(|name| rest.remove(&name));
    let failures = role.failures.and_then(|name| rest.remove(&name));
    let (mut count, mut rate_per_s, mut failed) = (None, None, None);
    if let Some(Named { values: Values::Share { yes, total, .. }, .. }) = failures {
        (failed, count) = (yes, total);
    }
    if let Some(Named { values: Values::Counter { count: sum, rate_per_s: rate }, .. }) = counter {
        (count, rate_per_s) = (Some(sum.max(0.0) as u64), rate);
    }
    let over = |count: u64| duration_s.filter(|seconds| *seconds > 0.0).map(|seconds| count as f64 / seconds);
    let rate_per_s = rate_per_s.or_else(|| count.and_then(over));
    Operation { name: role.operation, count, rate_per_s, failed, ..Operation::default() }
}

/// The operation that the duration metric `name` measures; `None` if it measures only a part of an operation.
fn role(tool: Tool, name: &str) -> Option<Role> {
    let tags = &name[base(name).len()..];
    let of = match (tool, tags) {
        (Tool::Plimsoll, _) => Of::Successes,
        (_, tags) if tags.contains("expected_response:true") => Of::Successes,
        (_, tags) if tags.contains("expected_response:false") => Of::Failures,
        _ => Of::All,
    };
    let with_tags = |words: &str| if tags.is_empty() { words.to_owned() } else { format!("{words} {tags}") };
    if let Some(rank) = KNOWN.iter().position(|known| known.trend == base(name)) {
        let known = &KNOWN[rank];
        let tagged = |name: &str| format!("{name}{tags}");
        return Some(Role {
            rank,
            operation: with_tags(known.words),
            since: if tool == Tool::Plimsoll { Since::Due } else { Since::Sent },
            of,
            counter: known.counter.map(tagged),
            failures: known.failures.map(tagged),
        });
    }
    if tool == Tool::Plimsoll {
        return own(name);
    }
    let part = base(name).starts_with("http_req_") || PARTS.contains(&base(name));
    (!part).then(|| Role::custom(name, Since::Unknown, of))
}

/// The operation that a trend written by Plimsoll measures.
fn own(name: &str) -> Option<Role> {
    let tags = &name[base(name).len()..];
    if base(name) == SERVICE {
        let response = role(Tool::Plimsoll, &format!("{}{tags}", KNOWN[0].trend))?;
        return Some(Role { since: Since::Sent, ..response });
    }
    const ENDINGS: [(&str, Since, Of); 3] = [
        ("_failed_response", Since::Due, Of::Failures),
        ("_response", Since::Due, Of::Successes),
        ("_service", Since::Sent, Of::Successes),
    ];
    let found = ENDINGS.iter().find_map(|(ending, since, of)| Some((name.strip_suffix(ending)?, since, of)));
    let (operation, since, of) = found?;
    Some(Role { failures: Some(format!("{operation}_errors")), ..Role::custom(operation, *since, *of) })
}

impl Role {
    /// An operation that k6 does not know, without counters.
    fn custom(operation: &str, since: Since, of: Of) -> Self {
        let (rank, operation) = (KNOWN.len(), operation.to_owned());
        Self { rank, operation, since, of, counter: None, failures: None }
    }
}

/// The duration that follows from a counter's sum and rate.
fn derived(metrics: &BTreeMap<String, Named>) -> Option<f64> {
    let sums = metrics.values().filter_map(|it| match it.values {
        Values::Counter { count, rate_per_s: Some(rate) } if count > 0.0 && rate > 0.0 => Some(count / rate),
        _ => None,
    });
    sums.filter(|seconds| seconds.is_finite()).reduce(f64::max)
}

fn dropped(metrics: &BTreeMap<String, Named>) -> Option<String> {
    match metrics.get("dropped_iterations")?.values {
        Values::Counter { count, .. } if count > 0.0 => Some(format!(
            "{} dropped, because k6 had no free VU at the due time: no figure here contains such operations; \
             Plimsoll sends them late and counts them from when they were due",
            if count == 1.0 {
                "1 iteration was".to_owned()
            } else {
                format!("{} iterations were", exact(count as u64))
            },
        )),
        _ => None,
    }
}

fn failures_among(operations: &[Operation]) -> Option<String> {
    let all = |it: &&Operation| it.times.iter().any(|times| times.of == Of::All);
    let failed =
        operations.iter().filter(all).filter_map(|it| it.failed).max().filter(|failed| *failed > 0)?;
    Some(format!(
        "the latencies include those of {}; Plimsoll reports latencies of failures separately",
        counted(failed, "failed request")
    ))
}
