//! Writes the conclusions on the load.

use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::first_error::FirstError;
use plimsoll_measure::run::{Operation, Run};

use super::Named;
use crate::derived::{ACHIEVED_MIN, class, classes};
use crate::expectation;
use crate::units::{
    Quantile, counted, exact_rate, latency, named_percentile, p99_with_failures, percent, percentile,
};

/// A second with less than this share of the median second's documents is a stall.
const STALL_SHARE: f64 = 0.5;

/// The work of an operation.
pub(super) fn done(&Named { name, it, sent, counted: (_, unit) }: &Named<'_>) -> Option<String> {
    let Operation { count, documents, .. } = it;
    let amount = if documents == count || *documents == 0 {
        counted(*count, sent.one)
    } else {
        format!("{} in {}", counted(*documents, "document"), counted(*count, sent.one))
    };
    let rate = match documents {
        0 => format!("{} {}", exact_rate(it.rate_per_s), sent.rate),
        _ => format!("{} {unit}", exact_rate(it.documents_per_s)),
    };
    let verb = if *count == 1 && *documents <= 1 { "was" } else { "were" };
    (*count > 0).then(|| format!("{name}: {amount} {verb} acknowledged, {rate}. {}.", times(it, sent.many)))
}

/// The median, the 99th percentile and the longest response; too few operations have no median.
fn times(it: &Operation, sent: &str) -> String {
    let response = &it.response_ns;
    let max = percentile(response.max, response);
    let Some(p50) = response.p50 else { return format!("The longest response took {max}") };
    let p99 = named_percentile(Quantile::P99, response, sent);
    format!("The median response took {}, {p99}{}, the longest {max}", latency(p50), p99_with_failures(it))
}

/// Expectations that did not hold.
pub(super) fn expectations(run: &Run) -> Vec<String> {
    let failed = run.expectations.iter().filter(|it| !it.held);
    failed
        .map(|it| {
            let outcome = match (&it.reason, it.value) {
                (Some(reason), None) => format!("which is not known: {reason}"),
                (_, None) => "which is not known".to_owned(),
                (_, Some(_)) => format!("measured {}", expectation::measured(it)),
            };
            format!("Expected {} {}, {outcome}.", it.metric, it.expression)
        })
        .collect()
}

/// A target rate that was not reached.
pub(super) fn missed(&Named { name, it, sent, .. }: &Named<'_>) -> Option<String> {
    let achieved = it.achieved.filter(|achieved| *achieved < ACHIEVED_MIN)?;
    Some(format!(
        "{name}: the target rate was not reached: {} of the {} that became due were completed, less than 99 %.",
        percent(achieved),
        counted(it.due, sent.one)
    ))
}

/// Operations that were given up.
pub(super) fn skipped(&Named { name, it, sent, .. }: &Named<'_>) -> Option<String> {
    let verb = if it.skipped == 1 { "was" } else { "were" };
    let skipped = counted(it.skipped, &format!("overdue {}", sent.one));
    (it.skipped > 0).then(|| format!("{name}: {skipped} {verb} given up, which breaks every objective."))
}

/// Operations and documents that failed, by class.
pub(super) fn failed(&Named { name, it, sent, .. }: &Named<'_>) -> Option<String> {
    let operations = classes(&it.errors);
    let documents = classes(&it.document_errors).filter(|documents| Some(documents) != operations.as_ref());
    let say = |(count, list): (u64, String), thing| match list.split_once(' ') {
        Some((_, class)) if !list.contains(',') => format!(" {} failed ({class}).", counted(count, thing)),
        _ => format!(" {} failed: {list}.", counted(count, thing)),
    };
    let operations = operations.map(|classes| say(classes, sent.one));
    let documents = documents.map(|classes| say(classes, "document"));
    let sentences = format!("{}{}", operations.unwrap_or_default(), documents.unwrap_or_default());
    (!sentences.is_empty()).then(|| format!("{name}:{sentences}"))
}

/// The first error of each class, with the command that met it.
pub(super) fn first_errors(&Named { name, it, .. }: &Named<'_>) -> Option<String> {
    let sentence = |(kind, error): (&String, &FirstError)| {
        let command = error.command.as_ref().map(|command| format!(" The command was {command}."));
        let stop = if error.message.ends_with('.') { "" } else { "." };
        format!("{name}: the first {} error was {error}{stop}{}", class(kind), command.unwrap_or_default())
    };
    (!it.first_errors.is_empty()).then(|| it.first_errors.iter().map(sentence).collect::<Vec<_>>().join(" "))
}

/// A second with almost no work, which a mean hides.
pub(super) fn stall(&Named { name, it, counted: (counted, _), .. }: &Named<'_>) -> Option<String> {
    let spread = it.documents_in_a_second.filter(|it| it.min < it.p50 * STALL_SHARE)?;
    Some(format!(
        "{name}: throughput stalled: the slowest second did {} {counted}, the median second {}.",
        exact_rate(spread.min),
        exact_rate(spread.p50)
    ))
}

/// Operations that waited before they were sent.
pub(super) fn queued(&Named { name, it, sent, .. }: &Named<'_>) -> Option<String> {
    let (response, service) = (it.response_ns.p99?, it.service_ns.p99?);
    (response > 2 * service && response - service > MILLISECOND_NS).then(|| {
        format!(
            "{name}: {} queued: p99 is {} from the moment they were due and {} from the moment they were sent.",
            sent.many,
            percentile(Some(response), &it.response_ns),
            percentile(Some(service), &it.service_ns)
        )
    })
}
