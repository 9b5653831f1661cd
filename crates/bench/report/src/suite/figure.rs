//! Draws the cost stack: a bar for each test, with the change from the test above.

use maud::{Markup, html};
use plimsoll_measure::suite::{Extreme, Suite, Test};

use super::sentences::delta;
use super::tables::unit;
use crate::units::{exact_rate, three_digits};

/// The height of a test with the text above its bar, in pixels.
const ROW: usize = 50;
const WORDS: usize = 13;
const BAR: usize = 21;
const BAR_HEIGHT: usize = 15;

/// The figure; empty without measurements.
pub(super) fn figure(suite: &Suite) -> Markup {
    let unit = unit(suite);
    let most = suite.tests.iter().filter_map(|test| of(test, &unit)).map(|it| it.max).fold(0.0, f64::max);
    if most <= 0.0 {
        return Markup::default();
    }
    let height = ROW * suite.tests.len();
    html! {
        figure {
            figcaption { h3 { "Cost stack, " (unit) " per second" } p { (caption(suite)) } }
            div.plot style=(format!("height: {height}px; margin: 14px 4px 4px 0")) { svg.h0 role="img" aria-label=(aloud(suite, &unit)) {
                @for (index, test) in suite.tests.iter().enumerate() { (bar(test, index * ROW, &unit, most)) }
            } }
        }
    }
}

fn of(test: &Test, unit: &str) -> Option<plimsoll_measure::matrix::Spread> {
    test.figures.as_ref().filter(|figures| figures.unit == unit).map(|figures| figures.rate_per_s)
}

fn caption(suite: &Suite) -> &'static str {
    if suite.tests.iter().any(|test| test.repetitions > 1) {
        "A bar is the median of the completed runs, its line reaches from the lowest to the highest. On the right, the change from the row above."
    } else {
        "A bar is one run. On the right, the change from the row above."
    }
}

fn bar(test: &Test, top: usize, unit: &str, most: f64) -> Markup {
    let spread = of(test, unit);
    let value = spread.map_or_else(|| "not measured".to_owned(), |spread| exact_rate(spread.median));
    let extreme = match test.extreme {
        Extreme::Floor => " · floor",
        Extreme::Ceiling => " · ceiling",
        Extreme::Between => "",
    };
    let change = test.delta.as_ref().map(delta).unwrap_or_default();
    let share = |value: f64| format!("{}%", three_digits(value / most * 100.0));
    let middle = top + BAR + BAR_HEIGHT / 2;
    html! {
        text.label x="0" y=(top + WORDS) { (test.name) "  " (value) (extreme) }
        text x="100%" y=(top + WORDS) text-anchor="end" { (change) }
        @if let Some(spread) = spread {
            rect x="0" y=(top + BAR) width=(share(spread.median)) height=(BAR_HEIGHT) rx="2" fill="currentColor" fill-opacity=".72" { title { (test.name) ": " (value) " " (unit) "/s" } }
            @if spread.of > 1 {
                line.base x1=(share(spread.min)) x2=(share(spread.max)) y1=(middle) y2=(middle) stroke-width="3" {}
            }
        }
    }
}

/// The figure as text, for screen readers.
fn aloud(suite: &Suite, unit: &str) -> String {
    let parts = suite.tests.iter().map(|test| {
        let rate = of(test, unit).map_or_else(|| "not measured".to_owned(), |it| exact_rate(it.median));
        format!("{} {rate}", test.name)
    });
    format!("Cost stack in {unit} per second: {}.", parts.collect::<Vec<_>>().join(", "))
}
