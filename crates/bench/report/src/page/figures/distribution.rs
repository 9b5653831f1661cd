//! Draws the latency distribution by percentile.

use maud::{Markup, html};
use plimsoll_measure::histogram::Histogram;

use crate::chart::{self, Axis, Band, BandKind, Chart, Point, Series, Stroke};
use crate::page::{Distribution, Page};

/// The fewest values beyond a percentile. With fewer values, chance decides the percentile.
const BEYOND_MIN: f64 = 10.0;

/// One chart for each operation, with the percentile axis of HDR plots.
pub(in crate::page) fn distributions(page: &Page<'_>) -> Markup {
    let known = page.distributions.iter().filter(|(_, distribution)| distribution.response.count() > 0);
    let charts: Vec<_> =
        known.map(|(name, distribution)| chart::draw(&chart_of(name, distribution))).collect();
    html! { @if !charts.is_empty() { div.pair { @for chart in charts { (chart) } } } }
}

fn chart_of(name: &str, distribution: &Distribution) -> Chart {
    let (response, service) = (&distribution.response, &distribution.service);
    let series = vec![
        Series::line("service", 1, Stroke::Dashed, points(service)),
        Series::line("response", 0, Stroke::Solid, points(response)),
    ];
    let (low, high) = chart::extent(&series).unwrap_or((1.0, 1.0));
    let caption = "At each step to the right, a tenth as many operations lie beyond.";
    let axes = [Axis::percentiles(response.count()), Axis::latency(low, high)];
    Chart {
        bands: unsupported(response.count()).into_iter().collect(),
        size: chart::Size::Half,
        ..Chart::new(&format!("Latency of {name}"), caption, axes, series)
    }
}

/// The latency at each occupied bucket; the largest value comes last.
fn points(histogram: &Histogram) -> Vec<Point> {
    let (count, mut seen) = (histogram.count() as f64, 0);
    let start = (histogram.count() > 0).then(|| Point::new(0.0, histogram.at(0.0) as f64));
    let steps = histogram.buckets().map(|(ns, in_bucket)| {
        seen += in_bucket;
        Point::new(seen as f64 / count * 100.0, ns.min(histogram.max()) as f64)
    });
    start.into_iter().chain(steps).collect()
}

/// The range with fewer than ten values beyond.
fn unsupported(count: u64) -> Option<Band> {
    let from = (1.0 - BEYOND_MIN / count.max(1) as f64) * 100.0;
    let label = "fewer than 10 values beyond".to_owned();
    (from > 0.0).then_some(Band { from, to: 100.0, label, kind: BandKind::Doubt })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_climbs_to_the_largest_value() {
        let mut histogram = Histogram::default();
        [100, 200, 300, 400].into_iter().for_each(|ns| histogram.record(ns));
        let points: Vec<_> =
            points(&histogram).into_iter().map(|point| (point.x, point.y.unwrap())).collect();
        assert_eq!(points, [(0.0, 100.0), (25.0, 100.0), (50.0, 200.0), (75.0, 300.0), (100.0, 400.0)]);
    }

    #[test]
    fn percentiles_without_support_are_set_apart() {
        assert_eq!(unsupported(1000).unwrap().from, 99.0);
        assert!(unsupported(10).is_none());
    }
}
