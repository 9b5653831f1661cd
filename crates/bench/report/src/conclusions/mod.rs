//! What a run says, in plain sentences: what was measured, and what it means.

mod faults;
mod held_back;
mod integrity;
mod line;
mod load;
mod tries;
mod validity;

pub(crate) use integrity::promise;
pub(crate) use line::{doubt, interval, objective};
pub(crate) use load::{ACHIEVED_MIN, classes};
use plimsoll_measure::run::Run;
pub(crate) use tries::at as probes_at;
pub(crate) use validity::HEADROOM_MIN;

/// A part of the conclusions: no sentence, one or several.
type Part = fn(&Run) -> Vec<String>;

/// Broken promises first, then the result, then what limits its worth.
const PARTS: [Part; 20] = [
    integrity::violations,
    validity::interrupted,
    line::line,
    line::ladder,
    load::work,
    faults::faults,
    faults::servers,
    integrity::proof,
    integrity::leftovers,
    load::expectations,
    load::target,
    held_back::held_back,
    load::errors,
    validity::client,
    load::stalls,
    load::queueing,
    validity::closed,
    validity::steadiness,
    validity::wake,
    validity::build,
];

/// Plain sentences about `run`, the most important first.
pub fn conclusions(run: &Run) -> Vec<String> {
    PARTS.iter().flat_map(|part| part(run)).collect()
}

/// Whether the load was varied on purpose, so that its mean says nothing: by a search or on a ladder.
fn varies(run: &Run) -> bool {
    run.line.is_some() || run.ladder.is_some()
}

/// A class of errors as words: `duplicate_key` is written `duplicate key`.
pub(crate) fn class(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests;
