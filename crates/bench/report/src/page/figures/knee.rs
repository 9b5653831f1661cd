//! Draws latency against the requested rate.

use maud::Markup;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::line::{Line, Probe};
use plimsoll_measure::matrix::Spread;

use crate::chart::{self, Axis, Band, BandKind, Chart, Dot, Point, Rule, Series, Shape, Stroke};
use crate::derived::{NEAR, judged, median, tail};
use crate::expectation::{bound_ns, in_words};
use crate::prose::glued;
use crate::units::{exact_rate, latency, percent};

/// Picks a value of a probe's response time.
type Number = fn(&Latency) -> Option<u64>;

/// Every trial that was judged and the curve of their medians, with the load line and the objective.
pub(in crate::page) fn knee(line: &Line) -> Markup {
    let (probes, tail) = (by_rate(line), tail(line));
    let numbers: [(_, Number, _); 3] = [
        ("max", |latency| latency.max, Stroke::Dotted),
        (tail.name, tail.of, Stroke::Dashed),
        ("p50", |latency| latency.p50, Stroke::Solid),
    ];
    let series: Vec<_> = numbers
        .into_iter()
        .enumerate()
        .map(|(index, (name, number, stroke))| series(&probes, name, 2 - index, stroke, number))
        .collect();
    let Some((low, high)) = chart::extent(&series) else { return Markup::default() };
    let rules = rules(line);
    let high = rules.iter().fold(high, |high, rule| high.max(rule.at));
    let rate_max = probes.last().map_or(1.0, |probe| probe.rate);
    let x = Axis::amount(rate_max, &requested(line));
    let caption = format!(
        "Each mark is a trial, at its requested rate. A line joins the medians of trials whose rates differ by at most {}.",
        percent(NEAR)
    );
    let caption = glued(&caption);
    let chart = Chart::new("Response time against the rate", &caption, [x, Axis::latency(low, high)], series);
    chart::draw(&Chart { bands: band(line).into_iter().collect(), rules, ..chart })
}

/// The judged trials in the order of their rates.
pub(super) fn by_rate(line: &Line) -> Vec<&Probe> {
    let mut probes: Vec<_> = judged(line).collect();
    probes.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    probes
}

/// The name of an axis of rates.
pub(super) fn requested(line: &Line) -> String {
    format!("{}, requested", line.unit)
}

fn series(probes: &[&Probe], name: &str, hue: usize, stroke: Stroke, number: Number) -> Series {
    let at = |probe: &Probe| number(&probe.response_ns);
    let points = groups(probes).map(|group| {
        let y = median(group.iter().filter_map(|probe| at(probe)));
        let x = Spread::of(group.iter().map(|probe| probe.rate));
        Point { x: x.map_or(group[0].rate, |rates| rates.median), y: y.map(|ns| ns as f64) }
    });
    let marked = |probe: &&Probe| {
        let ns = at(probe)?;
        Some(dot(probe, ns as f64, &format!("{name} {}", latency(ns))))
    };
    let dots = probes.iter().filter_map(marked).collect();
    Series { dots, ..Series::line(name, hue, stroke, points.collect()) }
}

/// The trials, in the order of their rates, in groups of nearby rates: none is empty.
fn groups<'a, 'b>(mut probes: &'a [&'b Probe]) -> impl Iterator<Item = &'a [&'b Probe]> {
    std::iter::from_fn(move || {
        let lowest = probes.first()?.rate;
        let (group, rest) =
            probes.split_at(probes.partition_point(|probe| probe.rate <= lowest * (1.0 + NEAR)));
        probes = rest;
        Some(group)
    })
}

/// The mark of a trial at a height, with its `value` in words.
pub(super) fn dot(probe: &Probe, y: f64, value: &str) -> Dot {
    let (shape, word) = if probe.held { (Shape::Circle, "held") } else { (Shape::Cross, "failed") };
    let reasons: String = probe.reasons.iter().map(|reason| format!("\n{reason}")).collect();
    let (asked, done) = (exact_rate(probe.rate), exact_rate(probe.achieved));
    let achieved = percent(probe.achieved_ratio);
    let title = format!("asked {asked}, done {done} ({achieved})\n{value}\n{word}{reasons}");
    Dot { x: probe.rate, y, shape, title }
}

/// The interval of the load line.
pub(super) fn band(line: &Line) -> Option<Band> {
    let from = line.low.or(line.rate)?;
    let label = format!("load line {}", exact_rate(line.rate.unwrap_or(from)));
    Some(Band { from, to: line.high.unwrap_or(from), label, kind: BandKind::Line })
}

fn rules(line: &Line) -> Vec<Rule> {
    let rule = |objective: &String| {
        Some(Rule { at: bound_ns(objective)?, label: format!("objective: {}", in_words(objective)) })
    };
    line.objective.iter().filter_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_joins_the_medians_of_nearby_rates_and_each_trial_has_a_mark() {
        let probe = |(rate, p99): (f64, u64)| Probe {
            rate,
            response_ns: Latency { p99: Some(p99), ..Latency::default() },
            ..Probe::default()
        };
        let trials = [(100.0, 5), (1_000.0, 30), (1_010.0, 90), (1_020.0, 40), (2_000.0, 60), (2_020.0, 80)]
            .map(probe);
        let trials: Vec<_> = trials.iter().collect();
        let series = series(&trials, "p99", 0, Stroke::Solid, |latency| latency.p99);
        let points: Vec<_> = series.points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(100.0, Some(5.0)), (1_010.0, Some(40.0)), (2_010.0, Some(70.0))]);
        assert_eq!(series.dots.len(), trials.len());
        assert_eq!(chart::extent([&series]), Some((5.0, 90.0)), "marks beyond the line are on the chart");
    }
}
