//! Draws the excess over the objective against the requested rate.

use maud::Markup;
use plimsoll_measure::line::{Line, Probe};

use super::knee::{band, by_rate, dot, requested};
use crate::chart::{self, Axis, Chart, Dot, Rule, Series, Stroke};
use crate::units::ratio;

/// The lower end of the axis: a logarithm of zero does not exist.
const LOW: f64 = 0.01;

/// The excess of every trial, with the load line and the objective. Nothing for older files, which have no excess.
pub(in crate::page) fn excess(line: &Line) -> Markup {
    let probes = by_rate(line);
    let dots: Vec<_> = probes.iter().filter_map(|probe| marked(probe)).collect();
    let high = dots.iter().map(|dot| dot.y).fold(1.0, f64::max);
    if dots.is_empty() {
        return Markup::default();
    }
    let rate_max = probes.last().map_or(1.0, |probe| probe.rate);
    let axes = [Axis::amount(rate_max, &requested(line)), Axis::ratio(LOW, high, "excess, log scale")];
    let caption = format!(
        "The share of operations that broke the objective ÷ the share that it allows. The load line is where the mean is 1. \
         Values under {LOW}, also 0, are drawn at the lower end."
    );
    let series = Series { dots, ..Series::line("excess", 1, Stroke::Solid, Vec::new()) };
    let rule = Rule { at: 1.0, label: "the objective".to_owned() };
    let chart = Chart::new("Excess over the objective against the rate", &caption, axes, vec![series]);
    chart::draw(&Chart { bands: band(line).into_iter().collect(), rules: vec![rule], ..chart })
}

fn marked(probe: &Probe) -> Option<Dot> {
    let excess = probe.excess.filter(|it| it.is_finite())?;
    Some(dot(probe, excess.max(LOW), &format!("excess {}", ratio(excess))))
}
