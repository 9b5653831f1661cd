//! Renders a result of another tool for a terminal.

use super::tables;
use super::value::{Foreign, Form, Since, Threshold, Tool};
use crate::layout::{Document, Screen, bullets, paint};
use crate::prose::{plain, sentence};
use crate::tables::Tone;
use crate::units::{counted, duration};

/// A result for `screen`, with a line feed at its end. Each table holds times that count from the same
/// moment.
pub fn summary(foreign: &Foreign, screen: Screen) -> String {
    let mut document = Document::new(screen);
    head(foreign, &mut document);
    verdict(&foreign.thresholds, &mut document);
    document.table(&tables::operations(foreign));
    for since in [Since::Due, Since::Sent, Since::Unknown] {
        document.table(&tables::times(foreign, since));
    }
    document.table(&tables::errors(foreign));
    document.table(&tables::seconds(foreign));
    document.table(&tables::thresholds(foreign));
    document.table(&tables::checks(foreign));
    document.table(&tables::metrics(foreign));
    document.section(notes(foreign, screen));
    document.finish()
}

fn head(foreign: &Foreign, document: &mut Document) {
    let version = foreign.version.as_ref().map(|version| format!(" {}", plain(version))).unwrap_or_default();
    let facts = [
        foreign.title.as_deref().map(plain),
        foreign.started.as_deref().map(plain),
        foreign.duration_s.map(duration),
    ];
    let title = format!("{}{version}: {}", tool(foreign.tool), form(foreign.form));
    document.title(&title, &facts.into_iter().flatten().collect::<Vec<_>>());
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
        Form::Text => "the printed output",
        Form::Json => "its JSON",
    }
}

/// Whether the thresholds held, if there are any.
fn verdict(thresholds: &[Threshold], document: &mut Document) {
    if thresholds.is_empty() {
        return;
    }
    let failed = thresholds.iter().filter(|it| it.held == Some(false));
    let failed: Vec<_> = failed.map(|it| plain(&format!("{} {}", it.metric, it.expression))).collect();
    let unknown = thresholds.iter().any(|it| it.held.is_none());
    let (words, tone) = match (failed.is_empty(), unknown) {
        (false, _) => ("THRESHOLDS FAILED", Tone::Bad),
        (true, true) => ("NOT ALL THRESHOLDS ARE KNOWN", Tone::Doubtful),
        (true, false) => ("THRESHOLDS HELD", Tone::Good),
    };
    let all = counted(thresholds.len() as u64, "threshold");
    let held = format!("{words}: {} of {all} held", thresholds.len() - failed.len());
    let head = if unknown || failed.is_empty() { words } else { &held };
    document.verdict((head, tone), &failed);
}

fn notes(foreign: &Foreign, screen: Screen) -> Vec<String> {
    let few = tables::has_few(foreign).then_some(tables::FEW_IN_WORDS);
    let all = foreign.notes.iter().map(String::as_str).chain(few);
    let all: Vec<_> = all.map(|note| sentence(&plain(note))).collect();
    let title = (!all.is_empty()).then(|| paint("Notes", Tone::Strong, screen.style));
    title.into_iter().chain(bullets(&all, screen.width)).collect()
}
