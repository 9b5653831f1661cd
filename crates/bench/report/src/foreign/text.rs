//! A result of another tool for a terminal.

use super::tables;
use super::value::{Foreign, Form, Since, Threshold, Tool};
use crate::prose::sentence;
use crate::tables::{Table, Tone};
use crate::text::{Style, cut, lines, paint, wrap};
use crate::units::{counted, duration};

/// Columns at most.
const WIDTH: usize = 100;

/// A result, at most 100 columns wide, with a line feed at its end. Times that count from different moments never
/// stand in one table.
pub fn summary(foreign: &Foreign, style: Style) -> String {
    let mut sections = vec![head(foreign, style), verdict(&foreign.thresholds, style)];
    let mut all = vec![tables::operations(foreign)];
    all.extend([Since::Due, Since::Sent, Since::Unknown].map(|since| tables::times(foreign, since)));
    all.extend([tables::errors(foreign), tables::seconds(foreign), tables::thresholds(foreign)]);
    all.extend([tables::checks(foreign), tables::metrics(foreign)]);
    let shown = all.iter().filter(|table| !table.rows.is_empty());
    sections.extend(shown.map(|table| section(table, style)));
    sections.push(notes(foreign, style));
    sections.retain(|section| !section.is_empty());
    let text: Vec<_> = sections.iter().map(|section| section.join("\n")).collect();
    text.join("\n\n") + "\n"
}

/// Text that comes from a file, without what could command a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn head(foreign: &Foreign, style: Style) -> Vec<String> {
    let version = foreign.version.as_ref().map(|version| format!(" {}", plain(version))).unwrap_or_default();
    let title = format!("{}{version}: {}", tool(foreign.tool), form(foreign.form));
    let facts = [
        foreign.title.as_deref().map(plain),
        foreign.started.as_deref().map(plain),
        foreign.duration_s.map(duration),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    let title = wrap(&title, "", WIDTH).into_iter().map(|line| paint(&line, Tone::Strong, style));
    let facts = (!facts.is_empty()).then(|| wrap(&facts.join(" · "), "", WIDTH));
    title.chain(facts.into_iter().flatten()).collect()
}

const fn tool(tool: Tool) -> &'static str {
    match tool {
        Tool::K6 => "k6",
        Tool::Wrk => "wrk",
        Tool::Wrk2 => "wrk2",
        Tool::Ycsb => "YCSB",
        Tool::Oha => "oha",
        Tool::Plimsoll => "Plimsoll",
    }
}

const fn form(form: Form) -> &'static str {
    match form {
        Form::K6Summary => "a summary in the form of k6's handleSummary",
        Form::K6SummaryExport => "a summary of --summary-export",
        Form::K6MachineSummary => "the machine-readable summary",
        Form::K6Samples => "the samples of --out json",
        Form::Text => "what it printed",
        Form::Json => "its JSON",
    }
}

/// Whether the thresholds held, if there are any.
fn verdict(thresholds: &[Threshold], style: Style) -> Vec<String> {
    if thresholds.is_empty() {
        return Vec::new();
    }
    let failed: Vec<_> = thresholds.iter().filter(|it| it.held == Some(false)).collect();
    let unknown = thresholds.iter().any(|it| it.held.is_none());
    let (words, tone) = match (failed.is_empty(), unknown) {
        (false, _) => ("THRESHOLDS FAILED", Tone::Bad),
        (true, true) => ("NOT ALL THRESHOLDS ARE KNOWN", Tone::Doubtful),
        (true, false) => ("THRESHOLDS HELD", Tone::Good),
    };
    let bullet = |it: &&Threshold| wrap(&plain(&format!("{} {}", it.metric, it.expression)), "  • ", WIDTH);
    let of = format!("{words}: {} of {}", thresholds.len() - failed.len(), counted_thresholds(thresholds));
    let head = if unknown || failed.is_empty() { words.to_owned() } else { of + " held" };
    std::iter::once(paint(&head, tone, style)).chain(failed.iter().flat_map(bullet)).collect()
}

fn counted_thresholds(thresholds: &[Threshold]) -> String {
    counted(thresholds.len() as u64, "threshold")
}

fn notes(foreign: &Foreign, style: Style) -> Vec<String> {
    let few = tables::has_few(foreign).then_some(tables::FEW_IN_WORDS);
    let all = foreign.notes.iter().map(String::as_str).chain(few);
    let bullets: Vec<_> = all.flat_map(|note| wrap(&sentence(&plain(note)), "  • ", WIDTH)).collect();
    if bullets.is_empty() {
        return bullets;
    }
    std::iter::once(paint("What to know", Tone::Strong, style)).chain(bullets).collect()
}

fn section(table: &Table, style: Style) -> Vec<String> {
    let title = paint(&cut(&table.title, WIDTH), Tone::Strong, style);
    std::iter::once(title).chain(lines(table, WIDTH, style)).collect()
}
