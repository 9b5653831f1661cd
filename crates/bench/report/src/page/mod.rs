//! Renders the report of a run as a self-contained HTML file: no script, no font, no network.

mod figures;
mod head;
pub(crate) mod table;

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_measure::event::Interval;
use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::run::Run;
use plimsoll_measure::sample::ServerSample;

use crate::prose::glued;
use crate::tables::{self, Table};

/// The style: light, dark, phone and paper.
const STYLE: &str = include_str!("style.css");

/// The terms that the page explains.
const TERMS: [(&str, &str); 11] = [
    ("response", "From the moment an operation was due to its answer: the wait of a user of the service."),
    ("service", "From the moment it was sent to its answer: the time of the server and the network."),
    ("wake", "From the moment it was due to the moment the tool noticed: the tool's own delay."),
    ("wait", "From that moment to sending: no connection was free, usually because the server was slow."),
    ("operation", "One command. A batch is one operation for latency and many documents for the rate."),
    (
        "achieved",
        "Operations completed ÷ operations due. Under 99 % a rate was not reached, even with a low latency.",
    ),
    ("load line", "The rate at which the objective just holds. Its interval says how certain that rate is."),
    (
        "excess",
        "The share of due operations that broke the objective ÷ the share that it allows. The objective holds below 1.",
    ),
    (
        "headroom",
        "The tool's throughput against the null server, which answers at once, ÷ its throughput here. Under 2 the tool is the limit.",
    ),
    ("n too small", "Fewer than ten values lie beyond that percentile: it would be a matter of chance."),
    (
        "closed",
        "The next operation waits for the last answer: response equals service and saturation is hidden.",
    ),
];
/// Closes the glossary.
const NOTE: &str = "Percentiles are read from merged histograms of three significant digits and are never averaged. Charts keep the \
                    smallest and the largest value of every bucket. Unknown values are shown as unknown.";

/// The content of a page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The summary.
    pub run: &'a Run,
    /// Every second of load, in order.
    pub intervals: &'a [Interval],
    /// Every sample of the server, in order.
    pub server: &'a [ServerSample],
    /// The whole latency distribution of each operation, by name.
    pub distributions: &'a BTreeMap<String, Distribution>,
}

/// The latency distribution of one operation over the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// done − due.
    pub response: Histogram,
    /// done − sent.
    pub service: Histogram,
}

/// The self-contained HTML report, under 1 MB for an hour's run. The conclusions shown are the run's own: see
/// [`crate::conclusions()`].
pub fn page(page: &Page<'_>) -> String {
    let run = page.run;
    let timeline = figures::Timeline::of(page);
    let content = html! {
        (head::head(run))
        (knee(run))
        (ladder(run))
        (over_time(page, &timeline))
        (section("The server, second by second", figures::server(page, &timeline)))
        (section("Latency distribution", figures::distributions(page)))
        (section("Results", results(run)))
        (section("Cost and accuracy", cost(run)))
        (section("What was run", facts(run)))
        (legend(&TERMS, Some(NOTE)))
    };
    whole(&run.scenario.title, content)
}

/// A self-contained page of `content`.
pub(crate) fn whole(title: &str, content: Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Plimsoll" }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (content) } }
        }
    };
    markup.into_string()
}

/// The brand line at the top of a page: the Plimsoll mark, a circle with a line through it, and the name.
pub(crate) fn brand() -> Markup {
    html! {
        div.brand {
            svg.mark viewBox="0 0 48 32" height="22" width="33" aria-hidden="true" {
                circle cx="24" cy="16" r="11" {}
                path d="M3 16H45" {}
            }
            span { "Plimsoll" }
        }
    }
}

/// The conclusions at the top of a page; nothing without any.
pub(crate) fn conclusions(sentences: &[String]) -> Markup {
    if sentences.is_empty() {
        return Markup::default();
    }
    html! {
        section.conclusions {
            h2 { "Conclusions" }
            ol { @for sentence in sentences { li { (glued(sentence)) } } }
        }
    }
}

/// The glossary at the foot of a page, with a closing note.
pub(crate) fn legend(terms: &[(&str, &str)], note: Option<&str>) -> Markup {
    html! {
        footer {
            h2 { "How to read this page" }
            dl { @for (term, meaning) in terms { div { dt { (term) } dd { (meaning) } } } }
            @if let Some(note) = note { p { (note) } }
        }
    }
}

/// A section under its heading; nothing if it has no content.
pub(crate) fn section(title: &str, content: Markup) -> Markup {
    html! { @if !content.0.is_empty() { section { h2 { (title) } (content) } } }
}

fn knee(run: &Run) -> Markup {
    let Some(line) = &run.line else { return at_limit(run) };
    let content = html! {
        (figures::knee(line))
        (figures::excess(line))
        (table::table(&tables::candidates(line)))
        @if let Some(timings) = tables::timings(line) { (table::table(&timings)) }
        (table::table(&tables::probes(line)))
    };
    section("The knee", content)
}

/// The resources of a single load and their limits, if they were checked.
fn at_limit(run: &Run) -> Markup {
    let checked = run.bottleneck.as_ref().filter(|it| it.reason.is_none());
    checked.map(|it| section("At its limit", table::table(&tables::at_limit(it)))).unwrap_or_default()
}

fn ladder(run: &Run) -> Markup {
    let Some(ladder) = &run.ladder else { return Markup::default() };
    let content = html! {
        @if let Some(law) = &ladder.scalability { (figures::scalability(law, &ladder.unit)) }
        (table::table(&tables::ladder(ladder)))
    };
    section("The ladder", content)
}

fn over_time(page: &Page<'_>, timeline: &figures::Timeline) -> Markup {
    let content = html! {
        (figures::throughput(page, timeline))
        (figures::latencies(page, timeline))
    };
    let is_shaded = !timeline.shades.is_empty() && !content.0.is_empty();
    let content = html! {
        @if is_shaded { p.note { span.key {} "a checkpoint of the storage engine" } }
        (content)
    };
    section("Second by second", content)
}

fn results(run: &Run) -> Markup {
    let first = [tables::latencies(run), tables::rates(run)].into_iter().chain(tables::workflow(run));
    let tables = first.chain(tables::outcomes(run));
    html! { @for table in tables { (table::table(&table)) } }
}

fn cost(run: &Run) -> Markup {
    html! { (table::table(&tables::cost(run))) (table::table(&tables::traffic(run)))
    @if let Some(changed) = crate::inspection::changed(run) {
        (table::table(&changed))
        @for sentence in crate::inspection::changes_in_words(run) { p.note { (sentence) } }
    }
    (table::table(&tables::accuracy(run))) }
}

fn facts(run: &Run) -> Markup {
    html! {
        (table::table(&tables::phases(run)))
        (cards(&[tables::scenario(run), tables::server(run), tables::environment(run)]))
    }
}

/// Tables side by side if the page is wide enough.
pub(crate) fn cards(tables: &[Table]) -> Markup {
    html! { div.cards { @for table in tables { (table::table(table)) } } }
}
