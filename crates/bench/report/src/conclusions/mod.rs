//! Writes the conclusions of a run: the results, and how far to trust them.

mod consistency;
mod faults;
mod integrity;
mod line;
mod load;
mod validity;

use plimsoll_measure::run::{Operation, Run};

use crate::units::{Sent, counted_in, sent_in};

/// Writes part of the conclusions.
enum Part {
    /// On the whole run.
    Run(fn(&Run) -> Vec<String>),
    /// On the whole run, unless a search or a ladder varied the load: averages mislead then.
    Steady(fn(&Run) -> Vec<String>),
    /// On each operation.
    Each(fn(&Named<'_>) -> Option<String>),
    /// On each operation, unless a search or a ladder varied the load.
    EachSteady(fn(&Named<'_>) -> Option<String>),
}

/// An operation with its name, and the words for it.
struct Named<'a> {
    name: &'a str,
    it: &'a Operation,
    sent: Sent,
    /// The noun of the count, such as documents, and the unit of its rate.
    counted: (&'static str, &'static str),
}

use Part::{Each, EachSteady, Steady};

/// Broken promises first, then the result, then its limits.
const PARTS: [Part; 24] = [
    Part::Run(integrity::violations),
    Part::Run(consistency::violations),
    Part::Run(validity::interrupted),
    Part::Run(line::line),
    Part::Run(line::ladder),
    EachSteady(load::done),
    Part::Run(faults::faults),
    Part::Run(faults::servers),
    Part::Run(integrity::proof),
    Part::Run(consistency::proof),
    Part::Run(integrity::leftovers),
    Part::Run(load::expectations),
    EachSteady(load::missed),
    EachSteady(load::skipped),
    Part::Run(line::run_bottleneck),
    Each(load::failed),
    Each(load::first_errors),
    Part::Run(validity::client),
    EachSteady(load::stall),
    EachSteady(load::queued),
    Steady(validity::closed),
    Steady(validity::steadiness),
    Each(validity::wake),
    Part::Run(validity::build),
];

/// Plain sentences about `run`, the most important first.
pub fn conclusions(run: &Run) -> Vec<String> {
    let is_steady = run.line.is_none() && run.ladder.is_none();
    let (sent, counted) = (sent_in(run), counted_in(run));
    let each = |write: &fn(&Named<'_>) -> Option<String>| {
        run.operations.iter().filter_map(|(name, it)| write(&Named { name, it, sent, counted })).collect()
    };
    let sentences = |part: &Part| match part {
        Part::Run(write) => write(run),
        Steady(write) if is_steady => write(run),
        Each(write) => each(write),
        EachSteady(write) if is_steady => each(write),
        Steady(_) | EachSteady(_) => Vec::new(),
    };
    PARTS.iter().flat_map(sentences).collect()
}

#[cfg(test)]
mod tests;
