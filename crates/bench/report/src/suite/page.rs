//! Renders a suite as a self-contained HTML file that links to the pages of its runs.

use maud::{Markup, html};
use plimsoll_measure::run::Run;
use plimsoll_measure::suite::{Kind, Planned, Row, Suite};

use super::figure::figure;
use super::{cube, outcome_tone, reasons, sentences, tables};
use crate::page::table::{table, tone};
use crate::page::{brand, cards, legend, section, whole};
use crate::prose::glued;

/// The terms that the page explains.
const TERMS: [(&str, &str); 6] = [
    (
        "cost stack",
        "The tests in the order of the file. Each test adds a step to the test above it. The difference is the cost of the step.",
    ),
    ("× above", "The median rate ÷ that of the nearest test above that was measured."),
    (
        "added time",
        "1 ÷ rate − 1 ÷ rate above: the time that the test adds to one document or operation of the whole load.",
    ),
    ("floor", "The slowest test; the ceiling is the fastest."),
    (
        "hung",
        "It made no progress for several watchdog checks, or took longer than its timeout, and was ended.",
    ),
    (
        "from, to",
        "When the process of the load began and ended, in milliseconds since 1970 in UTC, as dashboards take them.",
    ),
];

/// The page of a suite.
pub fn page(suite: &Suite) -> String {
    let content = html! {
        (head(suite))
        (section("Cost stack", html! { (figure(suite)) (table(&tables::full(suite))) (references(suite)) @if let Some(cube) = cube::cube(suite) { (table(&cube)) } (table(&tables::times(suite))) }))
        (section("Runs", runs(suite)))
        (section("What was run", environment(suite)))
        (legend(&TERMS, None))
    };
    whole(&suite.title, content)
}

fn head(suite: &Suite) -> Markup {
    let (word, colour) = sentences::headline(suite);
    let said: Vec<_> = sentences::conclusions(suite).into_iter().chain(reasons(suite)).collect();
    html! {
        header {
            (brand())
            h1 { (suite.title) }
            @if let Some(question) = &suite.question { p { (question) } }
            p.meta { (glued(&sentences::facts(suite).join(" · "))) }
            p.verdict {
                strong class=[tone(colour)] { (word) }
                @if !suite.complete { span { "continue with " code { "--resume" } } }
            }
        }
        @if !said.is_empty() {
            section.conclusions { ul { @for said in &said { li { (glued(said)) } } } }
        }
    }
}

/// The sources of the published rates.
fn references(suite: &Suite) -> Markup {
    html! { @for said in sentences::references(suite) { p.faint { (glued(&said)) } } }
}

fn runs(suite: &Suite) -> Markup {
    if suite.runs.is_empty() {
        return Markup::default();
    }
    html! {
        div.wide { table {
            thead { tr { th.n scope="col" { "run" } @for name in ["test", "outcome"] { th scope="col" { (name) } } th.n scope="col" { "rate/s" } @for name in ["from, to", "page"] { th scope="col" { (name) } } } }
            tbody { @for run in &suite.runs { (row(suite, run)) } }
        } }
    }
}

fn row(suite: &Suite, planned: &Planned) -> Markup {
    let row = suite.row(planned.number);
    let rate = row.and_then(|row| Some(crate::units::exact_rate(row.measured.as_ref()?.rate_per_s)));
    let directory = &planned.directory;
    html! {
        tr {
            td.n { (planned.number) }
            th scope="row" { (planned.test) @if suite.runs.iter().any(|run| run.test == planned.test && run.number != planned.number) { span.faint { " (" (planned.repetition) ")" } } }
            td { (outcome(row)) }
            td.n { (rate.unwrap_or_else(|| crate::units::NONE.to_owned())) }
            td { @if let Some(row) = row { span.faint { (tables::moments(row)) } br; (row.from_ms) " – " (row.to_ms) } }
            td {
                @if let Some(row) = row.filter(|row| row.measured.is_some()) { a href={ (directory) "/run/" (told_in(row.kind)) } { (directory) } }
                @else if row.is_some() { code { (directory) } }
            }
        }
    }
}

/// The file with the details of a run.
const fn told_in(kind: Kind) -> &'static str {
    match kind {
        Kind::Scenario => "report.html",
        Kind::Pipeline => "pipeline.json",
    }
}

fn outcome(row: Option<&Row>) -> Markup {
    let Some(row) = row else { return html! { span.faint { "not run" } } };
    html! {
        span class=[tone(outcome_tone(row.outcome))] { (row.outcome.name()) }
        @if let Some(reason) = &row.reason { span.faint { ": " (glued(reason)) } }
    }
}

fn environment(suite: &Suite) -> Markup {
    let run = Run { environment: suite.environment.clone(), ..Run::default() };
    html! { (table(&tables::settings(suite))) (cards(&[crate::tables::environment(&run)])) }
}
