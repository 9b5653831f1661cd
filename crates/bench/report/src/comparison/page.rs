//! Renders a comparison as a self-contained HTML file.

use maud::{Markup, html};
use plimsoll_measure::comparison::{Comparison, Side};
use plimsoll_measure::run::Run;

use super::figures::figure;
use super::{facts, sentences, sides, tables, word};
use crate::page::table::{table, tone};
use crate::page::{brand, cards, conclusions, legend, section, whole};
use crate::prose::glued;

/// Whether the page links to the pages of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// To the run directories next to the page.
    Siblings,
    /// No links.
    None,
}

/// The terms that the page explains.
const TERMS: [(&str, &str); 8] = [
    (
        "pair",
        "A run of A and one of B, one after the other. The unit of a comparison is the run, not the operation.",
    ),
    ("change", "The geometric mean of the pairs' ratios B ÷ A, minus one."),
    (
        "p",
        "The share of all ways to swap A and B within pairs that give at least this change. A difference is shown at 0.01 or less.",
    ),
    ("adjusted p", "p, corrected for testing several metrics (Holm). The primary metric is tested alone."),
    ("interval", "Every change that the same test does not rule out at 0.01, for each metric by itself."),
    (
        "threshold",
        "The smallest difference that counts, plus the shift that the machine alone may have caused.",
    ),
    (
        "pairs",
        "About how many pairs would narrow the interval to the smallest difference that counts, or to ± 20 % if too noisy.",
    ),
    (
        "too noisy",
        "No difference is shown, and the interval is wider than ± 20 %: no relevant difference can be distinguished from noise.",
    ),
];

/// The page of a comparison.
pub fn page(comparison: &Comparison, links: Links) -> String {
    let content = html! {
        (head(comparison))
        (section("Metric by metric", metrics(comparison)))
        (section("Every pair", html! { div.pair.level { @for metric in &comparison.metrics { (figure(metric)) } } }))
        (section("What was compared", compared(comparison)))
        (section("Runs", runs(comparison, links)))
        (legend(&TERMS, None))
    };
    whole(&format!("A and B: {}", comparison.title), content)
}

fn head(comparison: &Comparison) -> Markup {
    let (headline, colour) = word(comparison);
    let primary = comparison.primary().map(|metric| format!("by {}", metric.words));
    html! {
        header {
            (brand())
            h1 { (comparison.title) }
            p.meta { (glued(&facts(comparison).join(" · "))) }
            @for (name, said) in sides(comparison) { p.meta { strong { (name) } " " (said) } }
            p.verdict { strong class=[tone(colour)] { (headline) } @if let Some(primary) = primary { span { (primary) } } }
        }
        (conclusions(&comparison.conclusions))
    }
}

fn metrics(comparison: &Comparison) -> Markup {
    let reasons =
        || comparison.metrics.iter().filter_map(|metric| Some((&metric.words, metric.reason.as_ref()?)));
    html! {
        (table(&tables::full(comparison)))
        @if reasons().next().is_some() { ul { @for (words, reason) in reasons() { li { (words) ": " (reason) "." } } } }
    }
}

fn compared(comparison: &Comparison) -> Markup {
    let run = |side: &Side| Run {
        server: side.server.clone(),
        environment: side.environment.clone(),
        ..Run::default()
    };
    let mut a = crate::tables::server(&run(&comparison.a));
    let mut b = crate::tables::server(&run(&comparison.b));
    a.title = format!("{} of A", a.title);
    b.title = format!("{} of B", b.title);
    html! {
        (table(&tables::differences(comparison)))
        @if comparison.differences.is_empty() { p.meta { "Nothing differs between A and B except the time." } }
        @if let Some(noise) = sentences::noise(&comparison.noise) { p.note { (glued(&noise)) } }
        (cards(&[a, b, crate::tables::environment(&run(&comparison.a))]))
    }
}

fn runs(comparison: &Comparison, links: Links) -> Markup {
    let name = |directory: &str| {
        html! {
            @if links == Links::Siblings { a href={ (directory) "/report.html" } { (directory) } } @else { code { (directory) } }
        }
    };
    html! {
        div.wide { table {
            thead { tr { th.n scope="col" { "pair" } th scope="col" { "A" } th scope="col" { "B" } th scope="col" { "first" } } }
            tbody { @for (index, (a, b)) in comparison.a.runs.iter().zip(&comparison.b.runs).enumerate() {
                tr {
                    td.n { (index + 1) }
                    td { (name(&a.directory)) }
                    td { (name(&b.directory)) }
                    td { @if a.started_ms <= b.started_ms { "A" } @else { "B" } }
                }
            } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_page_draws_every_pair_and_is_self_contained() {
        let comparison = sample(10, 0.9, 0.03);
        let html = page(&comparison, Links::Siblings);
        for words in [
            "single &lt;inserts&gt;",
            "B IS WORSE",
            "001-lean/report.html",
            "&quot;driver&quot;",
            "adjusted p",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(!html.contains("<script") && !html.contains("http") && !html.contains("<inserts>"));
        assert_eq!(html.matches("<figure").count(), comparison.metrics.len());
        assert_eq!(html, page(&comparison, Links::Siblings), "the same comparison gives the same page");
        assert!(!page(&comparison, Links::None).contains("href"));
    }
}
