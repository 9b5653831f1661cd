//! The report as one HTML file that needs nothing else: no script, no font, no network.

mod figures;
mod head;
mod legend;
pub(crate) mod mark;
pub(crate) mod table;

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_measure::event::Interval;
use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::run::Run;
use plimsoll_measure::sample::ServerSample;

use crate::tables::{self, Table};

/// How the page looks, in the light, in the dark, on a phone and on paper.
const STYLE: &str = include_str!("style.css");

/// What a page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The summary.
    pub run: &'a Run,
    /// Every second of load, in order.
    pub intervals: &'a [Interval],
    /// Every look at the server, in order.
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
        (section("Cost, and the ruler itself", cost(run)))
        (section("What was run", facts(run)))
        (legend::legend())
    };
    whole(&run.scenario.title, content)
}

/// A page of `content` that needs nothing else.
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

/// A section under its heading; nothing if it has no content.
pub(crate) fn section(title: &str, content: Markup) -> Markup {
    html! { @if !content.0.is_empty() { section { h2 { (title) } (content) } } }
}

fn knee(run: &Run) -> Markup {
    let Some(line) = &run.line else { return at_limit(run) };
    let content = html! {
        (figures::knee(line))
        (table::table(&tables::suspects(line)))
        (table::table(&tables::probes(line)))
    };
    section("The knee", content)
}

/// Of a load by itself: what stood at its limit, if anybody looked.
fn at_limit(run: &Run) -> Markup {
    let looked = run.held_back.as_ref().filter(|it| it.reason.is_none());
    looked.map(|it| section("At its limit", table::table(&tables::at_limit(it)))).unwrap_or_default()
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
    let on_the_way = vec![tables::answers(run), tables::faults(run), tables::spread(run)];
    let tables =
        [vec![tables::latencies(run), tables::rates(run)], on_the_way, tables::integrity(run)].concat();
    let tables = tables.iter().filter(|table| !table.rows.is_empty());
    html! {
        @for table in tables.chain(&tables::expectations(run)) { (table::table(table)) }
    }
}

fn cost(run: &Run) -> Markup {
    html! { (table::table(&tables::cost(run))) (table::table(&tables::traffic(run)))
    @if let Some(changed) = crate::inspection::changed(run) {
        (table::table(&changed))
        @for sentence in crate::inspection::changes_in_words(run) { p.note { (sentence) } }
    }
    (table::table(&tables::ruler(run))) }
}

fn facts(run: &Run) -> Markup {
    html! {
        (table::table(&tables::phases(run)))
        (cards(&[tables::scenario(run), tables::server(run), tables::environment(run)]))
    }
}

/// Tables beside each other, where the page is wide enough.
pub(crate) fn cards(tables: &[Table]) -> Markup {
    html! { div.cards { @for table in tables { (table::table(table)) } } }
}
