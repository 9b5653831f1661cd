//! Writes the conclusions on the load.

use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::run::{Operation, Run};

use crate::derived::{ACHIEVED_MIN, classes};
use crate::expectation;
use crate::units::{Sent, counted, counted_in, exact_rate, percent, percentile, sent_in};

/// A second with less than this share of the median second's documents is a stall.
const STALL_SHARE: f64 = 0.5;

/// The work of each operation. A search works at many rates, which its probes describe.
pub(super) fn work(run: &Run) -> Vec<String> {
    if super::varies(run) {
        return Vec::new();
    }
    run.operations
        .iter()
        .filter(|(_, operation)| operation.count > 0)
        .map(|(name, it)| done(name, it, counted_in(run).1, sent_in(run)))
        .collect()
}

fn done(name: &str, operation: &Operation, unit: &str, sent: Sent) -> String {
    let Operation { count, documents, response_ns: response, .. } = operation;
    let amount = if documents == count || *documents == 0 {
        counted(*count, sent.one)
    } else {
        format!("{} in {}", counted(*documents, "document"), counted(*count, sent.one))
    };
    let rate = match documents {
        0 => format!("{} {}", exact_rate(operation.rate_per_s), sent.rate),
        _ => format!("{} {unit}", exact_rate(operation.documents_per_s)),
    };
    let verb = if *count == 1 && *documents <= 1 { "was" } else { "were" };
    format!(
        "{name}: {amount} {verb} acknowledged, {rate}. The median response took {}, p99 {}, the longest {}.",
        percentile(response.p50, response),
        percentile(response.p99, response),
        percentile(response.max, response)
    )
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

/// Rates that were asked for and not reached. A search asks for such rates on purpose.
pub(super) fn target(run: &Run) -> Vec<String> {
    if super::varies(run) {
        return Vec::new();
    }
    let sent = sent_in(run);
    let sentences = |(name, operation)| [missed(name, operation, sent), skipped(name, operation, sent)];
    run.operations.iter().flat_map(sentences).flatten().collect()
}

fn missed(name: &String, operation: &Operation, sent: Sent) -> Option<String> {
    let achieved = operation.achieved.filter(|achieved| *achieved < ACHIEVED_MIN)?;
    Some(format!(
        "{name}: the target rate was not reached: {} of the {} that became due were completed, under 99 %.",
        percent(achieved),
        counted(operation.due, sent.one)
    ))
}

fn skipped(name: &String, operation: &Operation, sent: Sent) -> Option<String> {
    let skipped = operation.skipped;
    (skipped > 0).then(|| {
        let verb = if skipped == 1 { "was" } else { "were" };
        format!(
            "{name}: {} {verb} given up, which breaks every objective.",
            counted(skipped, &format!("overdue {}", sent.one))
        )
    })
}

/// Operations and documents that failed, by class.
pub(super) fn errors(run: &Run) -> Vec<String> {
    run.operations.iter().filter_map(|(name, operation)| failed(name, operation, sent_in(run))).collect()
}

fn failed(name: &str, operation: &Operation, sent: Sent) -> Option<String> {
    let operations = classes(&operation.errors);
    let documents =
        classes(&operation.document_errors).filter(|documents| Some(documents) != operations.as_ref());
    let say = |(count, list): (u64, String), thing| match list.split_once(' ') {
        Some((_, class)) if !list.contains(',') => format!(" {} failed ({class}).", counted(count, thing)),
        _ => format!(" {} failed: {list}.", counted(count, thing)),
    };
    let operations = operations.map(|classes| say(classes, sent.one));
    let documents = documents.map(|classes| say(classes, "document"));
    let sentences = format!("{}{}", operations.unwrap_or_default(), documents.unwrap_or_default());
    (!sentences.is_empty()).then(|| format!("{name}:{sentences}"))
}

/// Seconds in which next to nothing happened, which a mean hides. A search changes its rate on purpose.
pub(super) fn stalls(run: &Run) -> Vec<String> {
    if super::varies(run) {
        return Vec::new();
    }
    let counted = counted_in(run).0;
    run.operations.iter().filter_map(|(name, operation)| stall(name, operation, counted)).collect()
}

fn stall(name: &str, operation: &Operation, counted: &str) -> Option<String> {
    let spread = operation.documents_in_a_second.filter(|it| it.min < it.p50 * STALL_SHARE)?;
    Some(format!(
        "{name}: throughput stalled: the slowest second did {} {counted}, the median second {}.",
        exact_rate(spread.min),
        exact_rate(spread.p50)
    ))
}

/// Operations that spent their time before they were sent.
pub(super) fn queueing(run: &Run) -> Vec<String> {
    if super::varies(run) {
        return Vec::new();
    }
    run.operations.iter().filter_map(|(name, operation)| queued(name, operation, sent_in(run))).collect()
}

fn queued(name: &str, operation: &Operation, sent: Sent) -> Option<String> {
    let (response, service) = (operation.response_ns.p99?, operation.service_ns.p99?);
    (response > 2 * service && response - service > MILLISECOND_NS).then(|| {
        format!(
            "{name}: {} queued: p99 is {} from the moment they were due and {} from the moment they were sent.",
            sent.many,
            percentile(Some(response), &operation.response_ns),
            percentile(Some(service), &operation.service_ns)
        )
    })
}
