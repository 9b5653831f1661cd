//! Renders the head of a run's summary: its identity and its load line.

use plimsoll_measure::line::Line;
use plimsoll_measure::run::Run;

use crate::derived::{doubt, interval, objective};
use crate::layout::{Style, WIDTH, paint, wrap};
use crate::tables::{Tone, server_in_words};
use crate::units::{duration, exact_rate};

/// The headline's label; details are indented by its length.
const LABEL: &str = "LOAD LINE  ";

/// The facts that identify a run.
pub(super) fn facts(run: &Run) -> [String; 5] {
    [
        run.scenario.name.clone(),
        format!("run {}", run.id),
        run.started.clone(),
        format!("{} under load", duration(run.duration_s)),
        server_in_words(&run.server),
    ]
}

/// The load line as a headline: rate, interval, objective and bottleneck.
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
    let suspects: Vec<_> = line.bottlenecks.iter().map(|suspect| suspect.name.as_str()).collect();
    let bottleneck = if suspects.is_empty() { "not found".to_owned() } else { suspects.join(", ") };
    let unchecked: Vec<_> = line.not_seen.iter().map(|suspect| suspect.name.as_str()).collect();
    let facts = [
        ("load", Some(line.load.clone()).filter(|load| !load.is_empty())),
        ("background", Some(line.background.join("; ")).filter(|loads| !loads.is_empty())),
        ("interval", interval(line)),
        ("objective", Some(objective(line))),
        ("bottleneck", line.rate.map(|_| bottleneck)),
        ("not checked", line.rate.filter(|_| !unchecked.is_empty()).map(|_| unchecked.join(", "))),
    ];
    let indent = " ".repeat(LABEL.len());
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    facts.flat_map(|(name, value)| wrap(&value, &format!("{indent}{name:<14}"), WIDTH)).collect()
}
