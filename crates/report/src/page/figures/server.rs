//! What the server did, as far as it tells.

use maud::{Markup, html};
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::sample::ServerSample;

use crate::chart::{self, Axis, Chart, Point, Series, Stroke};
use crate::page::Page;

/// A counter or a gauge of a sample.
type Reading = fn(&ServerSample) -> Option<u64>;

/// CPU, memory and disk over time; what the server does not report is left out.
pub(in crate::page) fn server(page: &Page<'_>) -> Markup {
    let samples = page.server;
    let cores = vec![per_second(samples, "server CPU", 0, |it| it.cpu_ns, SECOND_NS as f64)];
    let memory = vec![
        gauge(samples, "resident memory", 0, Stroke::Solid, |it| it.rss_bytes),
        gauge(samples, "cache", 1, Stroke::Dashed, |it| it.cache_bytes),
        gauge(samples, "dirty in cache", 2, Stroke::Dotted, |it| it.cache_dirty_bytes),
    ];
    let disk = vec![
        per_second(samples, "storage engine", 0, |it| it.disk_written_bytes, 1.0),
        per_second(samples, "journal", 1, |it| it.journal_bytes, 1.0),
    ];
    let charts = [
        chart_of(samples, "CPU", cores, |high| Axis::amount(high, "cores")),
        chart_of(samples, "Memory", memory, |high| Axis::bytes(high, "bytes")),
        chart_of(samples, "Written", disk, |high| Axis::bytes(high, "bytes a second")),
    ];
    let charts: Vec<_> = charts.into_iter().flatten().collect();
    html! { @if !charts.is_empty() { div.pair { @for chart in charts { (chart) } } } }
}

fn chart_of(
    samples: &[ServerSample],
    title: &str,
    mut series: Vec<Series>,
    y: fn(f64) -> Axis,
) -> Option<Markup> {
    series.retain(|series| !series.is_empty());
    let (_, high) = chart::extent(&series)?;
    let (title, caption) = (title.to_owned(), String::new());
    let end_s = samples.last().map_or(0.0, at_s);
    let (x, y) = (Axis::time(end_s), y(high));
    Some(chart::draw(&Chart { title, caption, x, y, series, bands: Vec::new(), rules: Vec::new() }))
}

fn gauge(samples: &[ServerSample], name: &str, hue: usize, stroke: Stroke, read: Reading) -> Series {
    let points =
        samples.iter().map(|sample| Point { x: at_s(sample), y: read(sample).map(|value| value as f64) });
    Series::line(name, hue, stroke, points.collect())
}

/// How fast a counter rises a second, in units of `unit`; a gap where it fell, for then the server started anew.
fn per_second(samples: &[ServerSample], name: &str, hue: usize, read: Reading, unit: f64) -> Series {
    let rise = |pair: &[ServerSample]| {
        let risen = read(&pair[1])?.checked_sub(read(&pair[0])?)? as f64;
        let seconds = at_s(&pair[1]) - at_s(&pair[0]);
        (seconds > 0.0).then(|| risen / unit / seconds)
    };
    let points = samples.windows(2).map(|pair| Point { x: at_s(&pair[1]), y: rise(pair) }).collect();
    let stroke = if hue == 0 { Stroke::Solid } else { Stroke::Dashed };
    Series::line(name, hue, stroke, points)
}

fn at_s(sample: &ServerSample) -> f64 {
    sample.at_ns as f64 / SECOND_NS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_becomes_a_rate_and_a_restart_a_gap() {
        let sample = |second: u64, cpu_ns| ServerSample {
            at_ns: second * SECOND_NS,
            cpu_ns,
            ..ServerSample::default()
        };
        let samples =
            [sample(0, Some(0)), sample(2, Some(3_000_000_000)), sample(3, Some(5)), sample(4, None)];
        let series = per_second(&samples, "CPU", 0, |it| it.cpu_ns, 1e9);
        assert_eq!(series.points, [Point::new(2.0, 1.5), Point::gap(3.0), Point::gap(4.0)]);
    }
}
