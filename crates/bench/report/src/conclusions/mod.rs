//! Writes the conclusions of a run: the results, and how far to trust them.

mod faults;
mod integrity;
mod line;
mod load;
mod probes;
mod validity;

use plimsoll_measure::run::Run;

/// Writes part of the conclusions: any number of sentences.
type Part = fn(&Run) -> Vec<String>;

/// Broken promises first, then the result, then its limits.
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
    line::run_bottleneck,
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

/// Whether a search or a ladder varied the load: then its mean says nothing.
fn varies(run: &Run) -> bool {
    run.line.is_some() || run.ladder.is_some()
}

#[cfg(test)]
mod tests;
