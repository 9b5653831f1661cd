//! Draws throughput against concurrency, with the fitted law.

use maud::Markup;
use plimsoll_measure::ladder::Scalability;

use crate::chart::{self, Axis, Band, BandKind, Chart, Dot, Point, Rule, Series, Shape, Stroke};
use crate::units::{exact_rate, small, three_digits};

/// The number of steps of the fitted curve.
const CURVE_POINTS: usize = 120;
/// The curve extends to its peak, but at most to the measured range times this factor.
const BEYOND_MAX: f64 = 2.0;
/// The axis extends beyond the peak by this factor.
const ROOM: f64 = 1.1;

/// The points that were measured and the fitted curve, with its peak.
pub(in crate::page) fn scalability(law: &Scalability, unit: &str) -> Markup {
    let measured = law.concurrency_max();
    let end =
        law.peak.map_or(measured, |peak| (peak.concurrency * ROOM).clamp(measured, measured * BEYOND_MAX));
    let series = vec![curve(law, end), points(law, unit)];
    let Some((_, high)) = chart::extent(&series) else { return Markup::default() };
    let caption = format!(
        "The line is the universal scalability law: contention σ = {}, coherency κ = {}, R² = {:.3}.",
        small(law.sigma),
        small(law.kappa),
        law.r_squared
    );
    let axes = [Axis::amount(end, "operations in flight"), Axis::amount(high, unit)];
    chart::draw(&Chart {
        bands: beyond(measured, end).into_iter().collect(),
        rules: law.peak.map(|peak| highest(peak.throughput, unit)).into_iter().collect(),
        ..Chart::new("Throughput against concurrency", &caption, axes, series)
    })
}

fn curve(law: &Scalability, end: f64) -> Series {
    let at = |index: usize| 1.0 + (end - 1.0) * index as f64 / CURVE_POINTS as f64;
    let points = (0..=CURVE_POINTS).map(|index| Point::new(at(index), law.at(at(index)))).collect();
    Series::line("fitted", 0, Stroke::Solid, points)
}

fn points(law: &Scalability, unit: &str) -> Series {
    let dots = law.points.iter().map(|point| {
        let (at, rate) = (three_digits(point.concurrency), exact_rate(point.throughput));
        let fitted = exact_rate(law.at(point.concurrency));
        let title = format!("{at} in flight\nmeasured {rate} {unit}\nfitted {fitted}");
        Dot { x: point.concurrency, y: point.throughput, shape: Shape::Ring, title }
    });
    Series { dots: dots.collect(), ..Series::line("measured", 1, Stroke::Solid, Vec::new()) }
}

/// The range beyond the measured points, where the curve is a prediction.
fn beyond(measured: f64, end: f64) -> Option<Band> {
    let label = "beyond the measured range".to_owned();
    (end > measured).then_some(Band { from: measured, to: f64::INFINITY, label, kind: BandKind::Doubt })
}

fn highest(at: f64, unit: &str) -> Rule {
    Rule { at, label: format!("predicted maximum: {} {unit}", exact_rate(at)) }
}
