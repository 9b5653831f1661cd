//! What comes first: which run this is, whether it passed, and its load line.

use plimsoll_measure::line::Line;
use plimsoll_measure::run::{Run, Verdict};

use super::table::{paint, wrap};
use super::{Style, WIDTH};
use crate::conclusions::{doubt, interval, objective};
use crate::tables::{Tone, server_in_words};
use crate::units::{duration, exact_rate};

/// Under the headline's words, so that they form a column.
const LABEL: &str = "LOAD LINE  ";

/// The run's title, and which run it is.
pub(super) fn title(run: &Run, style: Style) -> Vec<String> {
    let facts = [
        run.scenario.name.clone(),
        format!("run {}", run.id),
        run.started.clone(),
        format!("{} under load", duration(run.duration_s)),
        server_in_words(&run.server),
    ];
    let title =
        wrap(&run.scenario.title, "", WIDTH).into_iter().map(|line| paint(&line, Tone::Strong, style));
    title.chain(wrap(&facts.join(" · "), "", WIDTH)).collect()
}

/// Whether it passed, and why not.
pub(super) fn verdict(run: &Run, style: Style) -> Vec<String> {
    let (word, tone) = word(run.verdict);
    let reasons = run.reasons.iter().flat_map(|reason| wrap(reason, "  • ", WIDTH));
    std::iter::once(paint(word, tone, style)).chain(reasons).collect()
}

/// A verdict as a word.
pub(crate) fn word(verdict: Verdict) -> (&'static str, Tone) {
    match verdict {
        Verdict::Pass => ("PASS", Tone::Good),
        Verdict::Fail => ("FAIL", Tone::Bad),
        Verdict::Invalid => ("INVALID", Tone::Doubtful),
    }
}

/// The load line as a headline: rate, interval, objective and what held it back.
pub(super) fn line(run: &Run, style: Style) -> Vec<String> {
    let Some(line) = &run.line else { return Vec::new() };
    let rate = line
        .rate
        .map_or_else(|| "none found".to_owned(), |rate| format!("{} {}", exact_rate(rate), line.unit));
    let doubt = doubt(line).map(|doubt| format!(", {doubt}")).unwrap_or_default();
    let headline = format!("{LABEL}{}{doubt}", paint(&rate, Tone::Strong, style));
    std::iter::once(headline).chain(details(line)).collect()
}

fn details(line: &Line) -> Vec<String> {
    let suspects: Vec<_> = line.held_back_by.iter().map(|suspect| suspect.name.as_str()).collect();
    let held_back = if suspects.is_empty() { "not found".to_owned() } else { suspects.join(", ") };
    let unseen: Vec<_> = line.not_seen.iter().map(|suspect| suspect.name.as_str()).collect();
    let facts = [
        ("load", Some(line.load.clone()).filter(|load| !load.is_empty())),
        ("beside it", Some(line.beside.join("; ")).filter(|beside| !beside.is_empty())),
        ("interval", interval(line)),
        ("objective", Some(objective(line))),
        ("held back by", line.rate.map(|_| held_back)),
        ("not seen", line.rate.filter(|_| !unseen.is_empty()).map(|_| unseen.join(", "))),
    ];
    let indent = " ".repeat(LABEL.len());
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    facts.flat_map(|(name, value)| wrap(&value, &format!("{indent}{name:<14}"), WIDTH)).collect()
}
