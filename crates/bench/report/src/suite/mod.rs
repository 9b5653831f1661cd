//! Renders a suite of tests and its cost stack for a terminal and as a page.

mod cube;
mod figure;
mod page;
mod sentences;
mod state;
mod tables;

pub use page::page;
pub use sentences::{ended, heading, progress};
pub use state::{after, before, cleared, made_anew, read_back};

use plimsoll_measure::suite::{Outcome, Suite};

use crate::layout::{Document, Screen};
use crate::tables::Tone;

/// The maximum number of listed reasons.
const REASONS_MAX: usize = 20;

/// The summary of a suite for `screen`, with a line feed at its end. `directory` holds its files.
pub fn summary(suite: &Suite, directory: Option<&str>, screen: Screen) -> String {
    let mut document = Document::new(screen);
    let (word, tone) = sentences::headline(suite);
    document.title(&suite.title, &sentences::facts(suite));
    document.verdict((&word, tone), []);
    document.table(&tables::stack(suite, screen.width));
    if let Some(cube) = cube::cube(suite) {
        document.table(&cube);
    }
    document.bullets(&sentences::references(suite));
    document.bullets(&sentences::conclusions(suite));
    document.bullets(&reasons(suite));
    document.table(&tables::ranges(suite));
    if let Some(directory) = directory {
        document.ending(&format!("{directory}/suite.html"), &next(suite, directory));
    }
    document.finish()
}

/// The command that continues the suite, or shows its first run.
fn next(suite: &Suite, directory: &str) -> String {
    match suite.rows.first().filter(|_| suite.complete) {
        Some(row) => format!("plimsoll show {directory}/{}", row.directory),
        None => format!("plimsoll suite --resume {directory}"),
    }
}

/// The reasons of incomplete tests and the warnings about tests, each with the test.
fn reasons(suite: &Suite) -> Vec<String> {
    let sentences = suite.tests.iter().flat_map(|test| {
        let all = test.reasons.iter().chain(&test.warnings);
        all.map(|reason| format!("{}: {reason}", test.name)).collect::<Vec<_>>()
    });
    let mut all: Vec<String> = sentences.collect();
    let more = all.len().saturating_sub(REASONS_MAX);
    all.truncate(REASONS_MAX);
    all.extend((more > 0).then(|| format!("and {more} more, in suite.json")));
    all
}

const fn outcome_tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Completed => Tone::Good,
        Outcome::Failed | Outcome::Hung => Tone::Bad,
        Outcome::Interrupted | Outcome::Refused => Tone::Doubtful,
    }
}

#[cfg(test)]
pub(crate) mod tests;
