//! Draws the change of every pair of a metric, with its interval.

use maud::{Markup, html};
use plimsoll_measure::comparison::{Metric, Pair};

use super::numbers::{change, log_change, value};
use crate::chart::Axis;
use crate::units::or_dash;

/// The maximum number of pair names below a figure.
const NAMES_MAX: usize = 12;

/// The figure of a metric; empty if no pair has a ratio.
pub(super) fn figure(metric: &Metric) -> Markup {
    let logs: Vec<Option<f64>> = metric.pairs.iter().map(|pair| pair.ratio().map(f64::ln)).collect();
    let known = || logs.iter().flatten().copied();
    if known().next().is_none() {
        return Markup::default();
    }
    let ends = metric.low.zip(metric.high).map(|(low, high)| (low.ln(), high.ln()));
    let all = || known().chain(ends.into_iter().flat_map(|(low, high)| [low, high]));
    let y = Axis::changes(all().fold(0.0, f64::min), all().fold(0.0, f64::max), "B against A", log_change);
    let x = Axis::groups(&names(metric.pairs.len()), "pair, in the order in which they were measured");
    html! {
        figure {
            figcaption { h3 { (metric.words) ": " (super::tables::verdict(metric).text) } p { (caption(metric)) } }
            (legend(ends.is_some()))
            div.axis-name { (y.name) }
            div.plot { svg role="img" aria-label=(aloud(metric)) {
                @if let Some((low, high)) = ends { (band(&y, low, high)) }
                (grid(&x, &y))
                @if let (Some(ratio), Some(_)) = (metric.ratio, ends) { (across(&y, ratio.ln(), "rule")) }
                @for (index, (pair, log)) in metric.pairs.iter().zip(&logs).enumerate() {
                    @if let Some(log) = log { (dot(&x, &y, metric, (index, pair, *log))) }
                }
            } }
            div.axis-name.below { (x.name) }
            (numbers(metric))
        }
    }
}

/// Names for this number of pairs. If there are many, only some have a name.
fn names(pairs: usize) -> Vec<String> {
    let step = pairs.div_ceil(NAMES_MAX).max(1);
    (0..pairs).map(|index| if index % step == 0 { (index + 1).to_string() } else { String::new() }).collect()
}

fn caption(metric: &Metric) -> String {
    let (Some(low), Some(high), Some(share)) = (metric.low, metric.high, metric.change()) else {
        return String::new();
    };
    format!("{}, between {} and {}", change(share), change(low - 1.0), change(high - 1.0))
}

/// The figure as text, for screen readers.
fn aloud(metric: &Metric) -> String {
    let ratios = metric.pairs.iter().map(|pair| or_dash(pair.ratio(), |it| change(it - 1.0)));
    format!(
        "{}: B against A by pair: {}. {}",
        metric.words,
        ratios.collect::<Vec<_>>().join(", "),
        caption(metric)
    )
}

fn legend(has_interval: bool) -> Markup {
    html! {
        ul.legend {
            li { svg.dot.h0 width="14" height="10" aria-hidden="true" { svg x="7" y="5" overflow="visible" { circle r="4" {} } } "a pair" }
            @if has_interval {
                li { svg width="26" height="10" aria-hidden="true" { line.rule x1="1" x2="25" y1="5" y2="5" {} } "all pairs together" }
                li { svg width="26" height="10" aria-hidden="true" { rect.line-band x="1" y="1" width="24" height="8" {} } "interval of the change" }
            }
        }
    }
}

fn grid(x: &Axis, y: &Axis) -> Markup {
    html! {
        @for (at, label) in &y.ticks {
            @let height = share(1.0 - y.share(*at));
            line.grid x1="0" x2="100%" y1=(height) y2=(height) {}
            text.y x="-8" y=(height) dy=".32em" { (label) }
        }
        @for (at, label) in x.ticks.iter().filter(|(_, label)| !label.is_empty()) {
            text.x x=(share(x.share(*at))) y="100%" dy="1.5em" { (label) }
        }
        (across(y, 0.0, "base"))
    }
}

fn across(y: &Axis, at: f64, class: &str) -> Markup {
    let height = share(1.0 - y.share(at));
    html! { line class=(class) x1="0" x2="100%" y1=(height) y2=(height) {} }
}

fn band(y: &Axis, low: f64, high: f64) -> Markup {
    let (top, bottom) = (1.0 - y.share(high), 1.0 - y.share(low));
    html! { rect.line-band x="0" width="100%" y=(share(top)) height=(share(bottom - top)) {} }
}

fn dot(x: &Axis, y: &Axis, metric: &Metric, (index, pair, log): (usize, &Pair, f64)) -> Markup {
    let shown = |it: Option<f64>| or_dash(it, |it| value(metric.unit, it));
    html! {
        svg.dot.h0 x=(share(x.share(index as f64 + 0.5))) y=(share(1.0 - y.share(log))) overflow="visible" {
            g { circle r="4" {} title { "pair " (index + 1) ": " (log_change(log)) "\nA " (shown(pair.a)) "\nB " (shown(pair.b)) } }
        }
    }
}

/// The numbers of the figure, folded away.
fn numbers(metric: &Metric) -> Markup {
    let shown = |it: Option<f64>| or_dash(it, |it| value(metric.unit, it));
    let moved = |pair: &Pair| or_dash(pair.ratio(), |ratio| change(ratio - 1.0));
    html! {
        details {
            summary { "Numbers" }
            div.wide { table {
                thead { tr { @for name in ["pair", "A", "B", "change"] { th.n scope="col" { (name) } } } }
                tbody { @for (index, pair) in metric.pairs.iter().enumerate() {
                    tr { td.n { (index + 1) } td.n { (shown(pair.a)) } td.n { (shown(pair.b)) } td.n { (moved(pair)) } }
                } }
            } }
        }
    }
}

/// A share of the plot as a percentage of two decimals.
fn share(share: f64) -> String {
    format!("{}%", (share * 10_000.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_pair_is_a_dot_with_its_values() {
        let comparison = sample(10, 0.9, 0.03);
        let markup = figure(&comparison.metrics[0]).into_string();
        assert_eq!(markup.matches("<title>pair ").count(), 10);
        assert!(
            markup.contains("rect class=\"line-band\"") && markup.contains("line class=\"rule\""),
            "{markup}"
        );
        assert!(
            markup.contains("aria-label=\"documents per second of insert: B against A by pair: −"),
            "{markup}"
        );
    }

    #[test]
    fn a_metric_without_pairs_is_not_drawn_and_a_gap_stays_a_gap() {
        let mut metric = sample(10, 0.9, 0.03).metrics.remove(0);
        metric.pairs[2].a = None;
        assert_eq!(figure(&metric).into_string().matches("<title>pair ").count(), 9);
        metric.pairs.iter_mut().for_each(|pair| pair.b = Some(0.0));
        assert_eq!(figure(&metric).into_string(), "");
    }

    #[test]
    fn only_some_of_many_pairs_are_named() {
        assert_eq!(names(10).join(" "), "1 2 3 4 5 6 7 8 9 10");
        assert_eq!(names(40).iter().filter(|name| !name.is_empty()).count(), 10);
    }
}
