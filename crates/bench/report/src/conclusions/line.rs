//! The load line in sentences.

use plimsoll_measure::line::{Line, NotSeen, Suspect};
use plimsoll_measure::run::Run;
use plimsoll_measure::scalability::Scalability;

use super::tries::{Tries, failed_between};
use crate::expectation::in_words;
use crate::prose::sentence;
use crate::units::{exact_rate, percent, small, three_digits};

/// The line with its interval and objective, what held it back, and what the search could not establish.
pub(super) fn line(run: &Run) -> Vec<String> {
    let Some(line) = &run.line else { return Vec::new() };
    let mut sentences = vec![headline(line)];
    sentences.extend(failed_within(line));
    sentences.extend(beside(line));
    if let Some(rate) = line.rate {
        sentences.extend(in_operations(line, rate));
        sentences.extend(held_back(line));
        sentences.extend(unseen(&line.not_seen));
    }
    sentences.extend(line.notes.iter().map(|note| sentence(note)));
    sentences
}

fn headline(line: &Line) -> String {
    let (unit, objective, of) = (&line.unit, objective(line), of(line));
    match (line.rate, line.low, line.high) {
        (None, _, None) => format!("No load line{of} was found: no rate that was tried held {objective}."),
        (None, _, Some(high)) => format!(
            "No load line{of} was found: no rate that was tried held {objective}, and {} {unit}, the lowest, {}.",
            exact_rate(high),
            Tries::of(line, high).failed()
        ),
        (Some(rate), _, None) => format!(
            "The load line{of} is at least {} {unit}: that rate {} to hold {objective}, and no rate that was tried failed.",
            exact_rate(rate),
            established(line)
        ),
        (Some(rate), low, Some(high)) => {
            let low = low.unwrap_or(rate);
            format!(
                "The load line{of} is {} {unit}: the highest rate that {} to hold {objective}. It lies between {}, which {}, \
                 and {}, which {}.",
                exact_rate(rate),
                established(line),
                exact_rate(low),
                Tries::of(line, low).held(),
                exact_rate(high),
                Tries::of(line, high).failed()
            )
        }
    }
}

/// The lowest rate that failed: no end of the interval where it, or a higher one, has held as well.
fn failed_within(line: &Line) -> Option<String> {
    let lowest = failed_between(line)?;
    let failed = Tries::of(line, lowest).failed();
    Some(format!("The lowest rate that failed is {}, which {failed}.", exact_rate(lowest)))
}

/// Whose line it is.
fn of(line: &Line) -> String {
    if line.load.is_empty() { String::new() } else { format!(" of {}", line.load) }
}

/// What went on beside the search, if anything did.
fn beside(line: &Line) -> Option<String> {
    let beside = line.beside.join("; ");
    (!beside.is_empty()).then(|| {
        format!("Beside it went on {beside}: these had to keep up without errors, and their latency was not judged.")
    })
}

/// How sure it is that `rate` holds.
fn established(line: &Line) -> &'static str {
    if line.confirmed { "was confirmed" } else { "was found, but not confirmed," }
}

/// That the rate that is told was not confirmed to hold, if that is so.
pub(crate) fn doubt(line: &Line) -> Option<&'static str> {
    (line.rate.is_some() && !line.confirmed).then_some("not confirmed")
}

/// What had to hold, as an enumeration.
pub(crate) fn objective(line: &Line) -> String {
    let bounds: Vec<_> = line.objective.iter().map(|bound| in_words(bound)).collect();
    match bounds.as_slice() {
        [] => "its objective".to_owned(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn in_operations(line: &Line, rate: f64) -> Option<String> {
    let documents = line.documents_per_operation;
    (documents > 1.0 && line.unit == "documents/s").then(|| {
        format!(
            "In operations of {} documents each that is {} operations/s.",
            exact_rate(documents),
            exact_rate(rate / documents)
        )
    })
}

fn held_back(line: &Line) -> Option<String> {
    match line.held_back_by.as_slice() {
        [] if line.high.is_none() => None,
        [] => Some("What held it back was not found.".to_owned()),
        [Suspect { name, evidence, .. }] => Some(format!("It was held back by {name}: {evidence}.")),
        several => {
            let list: Vec<_> = several.iter().map(|it| format!("{}: {}", it.name, it.evidence)).collect();
            Some(format!("It may be held back by, most likely first, {}.", list.join("; ")))
        }
    }
}

/// What is not reported may be the cause all the same.
pub(super) fn unseen(not_seen: &[NotSeen]) -> Option<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for unseen in not_seen {
        if !reasons.contains(&unseen.reason.as_str()) {
            reasons.push(&unseen.reason);
        }
    }
    let of = |reason: &str| {
        let unseen = not_seen.iter().filter(|it| it.reason == reason);
        let names: Vec<_> = unseen.map(|it| it.name.as_str()).collect();
        format!("{} ({reason})", names.join(", "))
    };
    let unseen: Vec<_> = reasons.into_iter().map(of).collect();
    (!unseen.is_empty())
        .then(|| format!("Could not be looked at and may be the cause as well: {}.", unseen.join("; ")))
}

/// What a ladder shows.
pub(super) fn ladder(run: &Run) -> Vec<String> {
    let Some(ladder) = &run.ladder else { return Vec::new() };
    let law = ladder.scalability.iter().map(|law| scalability(law, &ladder.unit));
    let note = ladder.note.iter().map(|note| format!("The ladder follows no law that can be named: {note}."));
    law.chain(note).collect()
}

/// How throughput grows with concurrency.
fn scalability(law: &Scalability, unit: &str) -> String {
    let fit = format!(
        "One operation at a time does {} {unit}, and throughput follows the universal scalability law (contention {}, \
         coherency {}, R² {:.3})",
        exact_rate(law.lambda),
        percent(law.sigma),
        small(law.kappa),
        law.r_squared
    );
    match (law.peak, law.bound) {
        (Some(peak), _) => {
            let at = three_digits(peak.concurrency);
            let most = exact_rate(peak.throughput);
            let seen = if law.is_peak_beyond() { ", which is beyond what was measured" } else { "" };
            format!("{fit}: it is highest at {at} operations in flight{seen}, with {most} {unit}.")
        }
        (None, Some(bound)) => format!("{fit}: it never falls and stays under {} {unit}.", exact_rate(bound)),
        (None, None) => format!("{fit}: it grows in proportion, and no peak follows from what was measured."),
    }
}

/// The interval in a few words: `163,000 to 171,000 documents/s`; nothing if there is no line.
pub(crate) fn interval(line: &Line) -> Option<String> {
    let low = line.low.or(line.rate)?;
    Some(match line.high {
        Some(high) => format!("{} to {} {}", exact_rate(low), exact_rate(high), line.unit),
        None => format!("at least {} {}", exact_rate(low), line.unit),
    })
}
