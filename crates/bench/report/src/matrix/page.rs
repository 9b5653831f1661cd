//! Renders a matrix as a self-contained HTML file that links to the pages of its runs.

use maud::{Markup, html};
use plimsoll_measure::matrix::{CellRun, LeftOut, Matrix, State};
use plimsoll_measure::run::Run;

use super::{facts, hidden, label, panels, reasons, tables};
use crate::chart::{Chart, draw};
use crate::page::table::{table, tone};
use crate::page::{brand, cards, section, whole};
use crate::prose::{glued, sentence};
use crate::tables::verdict_word;
use crate::units::counted;

/// The page of a matrix.
pub fn page(matrix: &Matrix) -> String {
    let content = html! {
        (head(matrix))
        (section("Side by side", side_by_side(matrix)))
        (section("Results", results(matrix)))
        (section("Left out", left_out(matrix)))
        (section("Runs", runs(matrix)))
        (section("What was run", environment(matrix)))
    };
    whole(&matrix.title, content)
}

fn head(matrix: &Matrix) -> Markup {
    let (word, colour) = verdict_word(matrix.verdict);
    let reasons = reasons(matrix);
    html! {
        header {
            (brand())
            h1 { (matrix.title) }
            @if let Some(question) = &matrix.question { p { (question) } }
            p.meta { (glued(&facts(matrix).join(" · "))) }
            p.verdict {
                strong class=[tone(colour)] { (word) }
                @if !matrix.complete { span { "not complete: continue with " code { "--resume" } } }
            }
        }
        @if !reasons.is_empty() {
            section.conclusions { ul { @for reason in &reasons { li { (glued(&sentence(reason))) } } } }
        }
    }
}

fn results(matrix: &Matrix) -> Markup {
    html! {
        @if let Some(hidden) = hidden(matrix) { p.meta { (hidden) "." } }
        (table(&tables::results(matrix)))
        (table(&tables::times(matrix)))
        (table(&tables::cost(matrix)))
        @if let Some(taken) = tables::service(matrix) { (table(&taken)) }
    }
}

fn side_by_side(matrix: &Matrix) -> Markup {
    let (charts, left_out) = panels::charts(matrix);
    if charts.is_empty() {
        return Markup::default();
    }
    html! {
        p.meta { (panels::caption(matrix)) }
        (figures(&charts))
        @if left_out > 0 {
            p.meta { (counted(left_out as u64, "further chart")) " would be too many marks for a page: the table has all of them." }
        }
    }
}

fn figures(charts: &[Chart]) -> Markup {
    match charts {
        [] => Markup::default(),
        [only] => draw(only),
        several => html! { div.pair.level { @for chart in several { (draw(chart)) } } },
    }
}

fn left_out(matrix: &Matrix) -> Markup {
    let sentence = |rule: &LeftOut| {
        let when: Vec<_> =
            rule.when.iter().map(|(axis, values)| format!("{axis} {}", values.join(" or "))).collect();
        format!("{}: {} ({})", when.join(" with "), rule.because, counted(rule.cells.into(), "cell"))
    };
    if matrix.left_out.is_empty() {
        return Markup::default();
    }
    html! { ul { @for rule in &matrix.left_out { li { (sentence(rule)) } } } }
}

fn runs(matrix: &Matrix) -> Markup {
    if matrix.runs.is_empty() {
        return Markup::default();
    }
    html! {
        div.wide { table {
            thead { tr { th.n scope="col" { "run" } th scope="col" { "cell" } th scope="col" { (if matrix.is_audited() { "collection" } else { "database" }) } th scope="col" { "state" } th scope="col" { "page" } } }
            tbody { @for run in &matrix.runs { (row(matrix, run)) } }
        } }
    }
}

fn row(matrix: &Matrix, run: &CellRun) -> Markup {
    let cell = matrix.cells.iter().find(|cell| cell.number == run.cell);
    let name = cell.map(|cell| label(matrix, cell)).unwrap_or_default();
    let page = format!("{}/report.html", run.directory);
    let has_page = matches!(run.state, State::Done | State::Interrupted);
    html! {
        tr {
            td.n { (run.number) }
            th scope="row" { (name) @if matrix.repetitions > 1 { span.faint { " (" (run.repetition) " of " (matrix.repetitions) ")" } } }
            td { code { (run.collection) } }
            td { (state(run)) }
            td { @if has_page { a href=(page) { (run.directory) } } }
        }
    }
}

fn state(run: &CellRun) -> Markup {
    match (run.state, run.verdict) {
        (State::Done, Some(verdict)) => {
            let (word, colour) = verdict_word(verdict);
            html! { span class=[tone(colour)] { (word) } }
        }
        (State::Interrupted, _) => html! { span.doubtful { "cut off" } },
        (State::Failed, _) => html! { span.bad { "could not be completed" } },
        (State::Begun, _) => html! { span.doubtful { "begun" } },
        _ => html! { span.faint { "not run" } },
    }
}

fn environment(matrix: &Matrix) -> Markup {
    let run =
        Run { server: matrix.server.clone(), environment: matrix.environment.clone(), ..Run::default() };
    cards(&[crate::tables::server(&run), crate::tables::environment(&run)])
}
