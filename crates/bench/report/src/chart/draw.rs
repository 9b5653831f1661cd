//! Renders a chart as markup.
//!
//! Positions are percentages of the plot, so the plot stretches with the page while text keeps its size. Only the lines are
//! in a nested picture of [`SIDE`] units a side, which is stretched with non-scaling strokes.

use std::fmt::Write;

use maud::{Markup, html};

use super::decimate::{Point, decimate};
use super::numbers::{buckets, table};
use super::{Axis, Band, BandKind, Chart, Dot, Mark, MarkKind, Rule, Series, Shape, Size, Stroke};

/// Units of the stretched picture, either way.
const SIDE: f64 = 10_000.0;
/// The gap between two marks' labels, in characters.
const LABEL_GAP: f64 = 2.0;

/// `chart` as a figure with its legend and caption. A chart without marked points also has a table of its numbers.
pub(crate) fn draw(chart: &Chart) -> Markup {
    let is_marked = chart.series.iter().any(|series| !series.dots.is_empty());
    html! {
        figure class=[(chart.size == Size::Small).then_some("small")] {
            figcaption { h3 { (chart.title) } @if !chart.caption.is_empty() { p { (chart.caption) } } }
            (legend(chart))
            div.axis-name { (chart.y.name) }
            div.plot { (plot(chart, is_marked)) }
            @if chart.size != Size::Small { div.axis-name.below { (chart.x.name) } }
            @if !is_marked { (table(chart)) }
        }
    }
}

fn legend(chart: &Chart) -> Markup {
    let has =
        |shape: Shape| chart.series.iter().flat_map(|series| &series.dots).any(|dot| dot.shape == shape);
    html! {
        ul.legend {
            @for series in named(chart) {
                li { svg width="26" height="10" aria-hidden="true" {
                    line class=(class(series)) x1="1" x2="25" y1="5" y2="5" {}
                } (series.name) }
            }
            @for rule in &chart.rules {
                li { svg width="26" height="10" aria-hidden="true" {
                    line.rule x1="1" x2="25" y1="5" y2="5" {}
                } (rule.label) }
            }
            @for (shape, words) in [(Shape::Circle, "held"), (Shape::Cross, "failed"), (Shape::Ring, "measured")] {
                @if has(shape) {
                    li { svg.dot width="14" height="10" aria-hidden="true" { svg x="7" y="5" overflow="visible" { (mark(shape)) } } (words) }
                }
            }
        }
    }
}

/// The series that need a name. The title of a small chart names its only series.
fn named(chart: &Chart) -> impl Iterator<Item = &Series> {
    let drawn = || chart.series.iter().filter(|series| !series.is_empty() && !series.points.is_empty());
    let alone = chart.size == Size::Small && drawn().count() == 1;
    drawn().filter(move |_| !alone)
}

fn plot(chart: &Chart, is_marked: bool) -> Markup {
    html! {
        svg role="img" aria-label=(aloud(chart)) {
            @for band in &chart.bands { (band_area(&chart.x, band)) }
            (grid(chart))
            @for mark in &chart.marks { (mark_line(&chart.x, mark)) }
            svg viewBox={ "0 0 " (SIDE) " " (SIDE) } preserveAspectRatio="none" width="100%" height="100%" {
                @for series in chart.series.iter().filter(|series| !series.is_empty()) {
                    path class=(class(series)) d=(path(chart, &series.points)) { title { (series.name) } }
                }
            }
            @for rule in &chart.rules { (rule_line(&chart.y, rule)) }
            @for band in chart.bands.iter().filter(|band| !band.label.is_empty()) { (band_label(&chart.x, band)) }
            @for (mark, at) in labelled(chart) { text.label.mark-label.(mark_class(mark)) x=(share(at)) y="-7" { (mark.label) } }
            @if !is_marked { (hovers(chart)) }
            @for series in &chart.series { @for dot in &series.dots { (dot_mark(chart, series, dot)) } }
        }
    }
}

/// The chart in words, for screen readers.
fn aloud(chart: &Chart) -> String {
    let mut text = format!("{}.", chart.title);
    for series in &chart.series {
        if let Some((low, high)) = super::extent([series]) {
            let (low, high) = ((chart.y.show)(low), (chart.y.show)(high));
            // Writing into a String cannot fail.
            let _ = write!(text, " {}: {low} to {high}.", series.name);
        }
    }
    let bands = chart.bands.iter().map(|band| &band.label).filter(|label| !label.is_empty());
    let labels = bands.chain(chart.rules.iter().map(|rule| &rule.label));
    labels.fold(text, |text, label| text + " " + label + ".")
}

fn grid(chart: &Chart) -> Markup {
    html! {
        @for (at, label) in &chart.y.ticks {
            @let y = down(&chart.y, *at);
            line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
            text.y x="-8" y=(y) dy=".32em" { (label) }
        }
        @for (index, (at, label)) in chart.x.ticks.iter().enumerate() {
            @let x = across(&chart.x, *at);
            line.tick x1=(x) x2=(x) y1="100%" y2="100%" {}
            text.x.second[index % 2 == 1] x=(x) y="100%" dy="1.5em" { (label) }
        }
        line.base x1="0" x2="100%" y1="100%" y2="100%" {}
    }
}

fn band_area(x: &Axis, band: &Band) -> Markup {
    let (from, to) = (x.share(band.from), x.share(band.to));
    html! { rect class=(band_class(band)) x=(share(from)) width=(share(to - from)) y="0" height="100%" {} }
}

fn mark_line(x: &Axis, mark: &Mark) -> Markup {
    let at = across(x, mark.at);
    html! { line class={ "mark-line " (mark_class(mark)) } x1=(at) x2=(at) y1="0" y2="100%" {} }
}

fn mark_class(mark: &Mark) -> &'static str {
    match mark.kind {
        MarkKind::Part => "part",
        MarkKind::Fault => "fault",
    }
}

/// The marks whose labels fit, with their positions, 0 to 1. A label that would overlap the label before it or the end
/// is left out, but the tooltips have it. Faults come first, so their labels stay where space is short.
fn labelled(chart: &Chart) -> Vec<(&Mark, f64)> {
    let characters = chart.size.characters() as f64;
    let span = |mark: &Mark| {
        let from = chart.x.share(mark.at);
        (from, from + (mark.label.chars().count() as f64 + LABEL_GAP) / characters)
    };
    let mut kept: Vec<(&Mark, f64, f64)> = Vec::new();
    for kind in [MarkKind::Fault, MarkKind::Part] {
        for mark in chart.marks.iter().filter(|mark| mark.kind == kind && characters > 0.0) {
            let (from, to) = span(mark);
            let fits = kept.iter().all(|(_, kept_from, kept_to)| to <= *kept_from || from >= *kept_to);
            if fits && to <= 1.0 + LABEL_GAP / characters {
                kept.push((mark, from, to));
            }
        }
    }
    kept.into_iter().map(|(mark, from, _)| (mark, from)).collect()
}

fn band_label(x: &Axis, band: &Band) -> Markup {
    let (from, to) = (x.share(band.from), x.share(band.to));
    let (at, anchor) = match f64::midpoint(from, to) {
        middle if middle > 0.75 => (to, "end"),
        middle if middle < 0.25 => (from, "start"),
        middle => (middle, "middle"),
    };
    html! {
        text class={ "label " (band_class(band)) } x=(share(at)) y="-7" text-anchor=(anchor) { (band.label) }
    }
}

fn band_class(band: &Band) -> &'static str {
    match band.kind {
        BandKind::Line => "line-band",
        BandKind::Doubt => "doubt-band",
        BandKind::Checkpoint => "checkpoint-band",
    }
}

fn rule_line(y: &Axis, rule: &Rule) -> Markup {
    let at = down(y, rule.at);
    html! {
        line.rule x1="0" x2="100%" y1=(at) y2=(at) {}
    }
}

fn hovers(chart: &Chart) -> Markup {
    html! {
        @for bucket in buckets(chart, chart.size.hovers()) {
            rect.hover x=(share(bucket.from)) width=(share(bucket.to - bucket.from)) y="0" height="100%" {
                title {
                    (bucket.name)
                    @for (series, value) in chart.series.iter().zip(&bucket.values) { "\n" (series.name) ": " (value) }
                    @for mark in marks_within(chart, bucket.from, bucket.to) { "\n▸ " (mark.label) }
                }
            }
        }
    }
}

/// The marks in a range of the plot, 0 to 1.
fn marks_within(chart: &Chart, from: f64, to: f64) -> impl Iterator<Item = &Mark> {
    chart.marks.iter().filter(move |mark| (from..to).contains(&chart.x.share(mark.at)))
}

fn dot_mark(chart: &Chart, series: &Series, dot: &Dot) -> Markup {
    html! {
        svg class={ "dot h" (series.hue) } x=(across(&chart.x, dot.x)) y=(down(&chart.y, dot.y)) overflow="visible" {
            g { (mark(dot.shape)) title { (dot.title) } }
        }
    }
}

fn mark(shape: Shape) -> Markup {
    match shape {
        Shape::Circle => html! { circle r="4" {} },
        Shape::Cross => html! { path d="M-4-4L4 4M-4 4L4-4" {} },
        Shape::Ring => html! { circle.ring r="4.5" {} },
    }
}

/// The line through `points`, broken at gaps. A point between two gaps becomes a dot.
fn path(chart: &Chart, points: &[Point]) -> String {
    let mut path = String::new();
    let mut is_open = false;
    for point in decimate(points, chart.size.points_max()) {
        let Some(y) = point.y else {
            is_open = false;
            continue;
        };
        let (x, y) = (chart.x.share(point.x) * SIDE, (1.0 - chart.y.share(y)) * SIDE);
        // A line of zero length after a move makes a single point visible. Writing into a String cannot fail.
        let _ = if is_open { write!(path, "L{x:.0} {y:.0}") } else { write!(path, "M{x:.0} {y:.0}h0") };
        is_open = true;
    }
    path
}

fn class(series: &Series) -> String {
    let stroke = match series.stroke {
        Stroke::Solid => "solid",
        Stroke::Dashed => "dashed",
        Stroke::Dotted => "dotted",
        Stroke::Thin => "thin",
        Stroke::Bold => "bold",
    };
    format!("series h{} {stroke}", series.hue)
}

fn across(x: &Axis, value: f64) -> String {
    share(x.share(value))
}

fn down(y: &Axis, value: f64) -> String {
    share(1.0 - y.share(value))
}

/// A share of the plot as a percentage of two decimals.
fn share(share: f64) -> String {
    let hundredths = (share * 10_000.0).round() / 100.0;
    format!("{hundredths}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<Point>) -> Chart {
        Chart {
            title: "A <title>".into(),
            caption: String::new(),
            x: Axis::time(10.0),
            y: Axis::latency(1e6, 9e6),
            series: vec![Series::line("p99", 1, Stroke::Dashed, points)],
            bands: vec![Band { from: 4.0, to: 5.0, label: "load line".into(), kind: BandKind::Line }],
            rules: vec![Rule { at: 5e6, label: "objective".into() }],
            marks: Vec::new(),
            size: Size::Full,
        }
    }

    #[test]
    fn gaps_stay_gaps_and_a_lone_point_becomes_a_dot() {
        let points = vec![Point::new(0.0, 1e6), Point::new(1.0, 1e6), Point::gap(2.0), Point::new(3.0, 1e6)];
        let chart = chart(points.clone());
        assert_eq!(path(&chart, &points), "M0 7686h0L1000 7686M3000 7686h0");
    }

    #[test]
    fn a_chart_has_a_description_for_screen_readers() {
        let chart = chart(vec![Point::new(0.0, 1e6), Point::new(1.0, 4e6)]);
        assert_eq!(aloud(&chart), "A <title>. p99: 1.00 ms to 4.00 ms. load line. objective.");
        let markup = draw(&chart).into_string();
        assert!(markup.contains("A &lt;title&gt;") && !markup.contains("<title>A <title>"));
        assert!(markup.contains(r#"<rect class="line-band" x="40%" width="10%""#), "{markup}");
    }

    #[test]
    fn a_long_series_keeps_its_peak_in_few_points() {
        let mut points: Vec<_> = (0..36_000).map(|at| Point::new(f64::from(at) / 3600.0, 2e6)).collect();
        points[18_000].y = Some(9e6);
        let chart = chart(points.clone());
        let path = path(&chart, &points);
        assert!(path.matches('L').count() < 600);
        assert!(path.contains(&format!("L5000 {:.0}", (1.0 - chart.y.share(9e6)) * SIDE)), "{path}");
    }
}
