//! What a suite of tests says, for a terminal and as a page: above all its cost stack.

mod figure;
mod page;
mod state;
mod tables;
mod words;

pub use page::page;
pub use state::{after, before, cleared, made_anew, read_back};
pub use words::{ended, heading, progress};

use plimsoll_measure::suite::{Outcome, Suite};

use crate::tables::{Table, Tone};
use crate::text::{Style, lines, paint, wrap};

/// Columns of the summary at most.
const WIDTH: usize = 100;
/// Reasons that are listed.
const REASONS_MAX: usize = 20;

/// The summary of a suite, at most 100 columns wide, with a line feed at its end; `directory` is where its files are.
pub fn summary(suite: &Suite, directory: Option<&str>, style: Style) -> String {
    let title = wrap(&suite.title, "", WIDTH).into_iter().map(|line| paint(&line, Tone::Strong, style));
    let facts = wrap(&words::facts(suite).join(" · "), "", WIDTH);
    let (word, tone) = words::headline(suite);
    let mut sections = vec![title.chain(facts).collect(), vec![paint(&word, tone, style)]];
    sections.push(shown(&tables::stack(suite, WIDTH), style));
    sections.push(bullets(&words::besides(suite)));
    sections.push(bullets(&words::conclusions(suite)));
    sections.push(bullets(&reasons(suite)));
    sections.push(shown(&tables::ranges(suite), style));
    sections.extend(directory.map(|directory| {
        vec![format!("Everything is in {directory}; look at suite.html, or take results.csv")]
    }));
    sections.retain(|section: &Vec<String>| !section.is_empty());
    let text: Vec<_> = sections.iter().map(|section| section.join("\n")).collect();
    text.join("\n\n") + "\n"
}

fn shown(table: &Table, style: Style) -> Vec<String> {
    if table.rows.is_empty() {
        return Vec::new();
    }
    let heading = wrap(&table.title, "", WIDTH).into_iter().map(|line| paint(&line, Tone::Strong, style));
    heading.chain(lines(table, WIDTH, style)).collect()
}

fn bullets(sentences: &[String]) -> Vec<String> {
    sentences.iter().flat_map(|said| wrap(said, "  • ", WIDTH)).collect()
}

/// What speaks against tests, each with its name.
fn reasons(suite: &Suite) -> Vec<String> {
    let told = suite.tests.iter().flat_map(|test| {
        test.reasons.iter().map(|reason| format!("{}: {reason}", test.name)).collect::<Vec<_>>()
    });
    let mut all: Vec<String> = told.collect();
    let more = all.len().saturating_sub(REASONS_MAX);
    all.truncate(REASONS_MAX);
    all.extend((more > 0).then(|| format!("and {more} more, in suite.json")));
    all
}

/// How an outcome is to be taken.
const fn outcome_tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Completed => Tone::Good,
        Outcome::Failed | Outcome::Hung => Tone::Bad,
        Outcome::Interrupted | Outcome::Refused => Tone::Doubtful,
    }
}

#[cfg(test)]
pub(crate) mod tests;
