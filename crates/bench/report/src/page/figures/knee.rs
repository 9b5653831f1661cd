//! Draws latency against the requested rate.

use maud::Markup;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::line::{Line, Probe, Stage};

use crate::chart::{self, Axis, Band, BandKind, Chart, Dot, Point, Rule, Series, Shape, Stroke};
use crate::expectation::{bound_ns, in_words};
use crate::units::{exact_rate, latency, percent};

/// Picks a value of a probe's response time.
type Number = fn(&Latency) -> Option<u64>;

/// The curve of every rate that was judged, with the load line and the objective.
pub(in crate::page) fn knee(line: &Line) -> Markup {
    let mut probes: Vec<_> = line.probes.iter().filter(|probe| probe.stage != Stage::WarmUp).collect();
    probes.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let numbers: [(_, Number, _); 3] = [
        ("max", |latency| latency.max, Stroke::Dotted),
        ("p99", |latency| latency.p99, Stroke::Dashed),
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
    let x = Axis::amount(rate_max, &format!("{}, requested", line.unit));
    let caption = "One mark for every tried rate, placed at the requested rate.";
    let chart = Chart::new("Response time against the rate", caption, [x, Axis::latency(low, high)], series);
    chart::draw(&Chart { bands: band(line).into_iter().collect(), rules, ..chart })
}

fn series(probes: &[&Probe], name: &str, hue: usize, stroke: Stroke, number: Number) -> Series {
    let at = |probe: &Probe| number(&probe.response_ns);
    let points =
        probes.iter().map(|probe| Point { x: probe.rate, y: at(probe).map(|ns| ns as f64) }).collect();
    let dots = probes.iter().filter_map(|probe| Some(dot(probe, name, at(probe)?))).collect();
    Series { dots, ..Series::line(name, hue, stroke, points) }
}

fn dot(probe: &Probe, name: &str, ns: u64) -> Dot {
    let (shape, word) = if probe.held { (Shape::Circle, "held") } else { (Shape::Cross, "failed") };
    let reasons: String = probe.reasons.iter().map(|reason| format!("\n{reason}")).collect();
    let (asked, done) = (exact_rate(probe.rate), exact_rate(probe.achieved));
    let achieved = percent(probe.achieved_ratio);
    let title = format!("asked {asked}, done {done} ({achieved})\n{name} {}\n{word}{reasons}", latency(ns));
    Dot { x: probe.rate, y: ns as f64, shape, title }
}

fn band(line: &Line) -> Option<Band> {
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
