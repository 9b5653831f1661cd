//! Draws throughput and latency second by second.

use std::collections::BTreeSet;

use maud::{Markup, html};
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::event::Interval;
use plimsoll_measure::interval::{IntervalLine, Spread};

use super::Timeline;
use crate::chart::{self, Axis, Point, Series, Size, Stroke};
use crate::page::Page;
use crate::units::counted_in;

/// If the starts of two intervals are at least this many lengths apart, an interval between them is missing.
const GAP_LENGTHS: u64 = 2;

/// The caption of a chart of latencies.
const CAPTION: &str = "From above: the longest, p99 and median of each second.";

/// Picks a value of one operation in one second.
type Value = fn(&IntervalLine, f64) -> Option<f64>;

/// Picks a statistic of a latency.
type Number = fn(&Spread) -> Option<u64>;

/// Picks response or service time.
type Pick = fn(&IntervalLine) -> &Spread;

/// Documents per second of every operation, or operations per second without documents.
pub(in crate::page) fn throughput(page: &Page<'_>, timeline: &Timeline) -> Markup {
    let names = names(page.intervals);
    let has_documents =
        page.intervals.iter().flat_map(|it| it.operations.values()).any(|line| line.documents > 0);
    let (unit, value): (_, Value) = match has_documents {
        true => (counted_in(page.run).1, |line, seconds| Some(line.documents as f64 / seconds)),
        false => ("operations/s", |line, seconds| Some(line.count as f64 / seconds)),
    };
    let strokes = [Stroke::Solid, Stroke::Dashed, Stroke::Dotted, Stroke::Thin];
    let series: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let stroke = strokes[index % strokes.len()];
            Series::line(*name, index, stroke, points(page.intervals, name, value))
        })
        .collect();
    let Some((_, high)) = chart::extent(&series) else { return Markup::default() };
    let y = Axis::amount(high, unit);
    timeline.draw(("Throughput", "Acknowledged in each second."), y, series, Size::Full)
}

/// Response and service time of every operation, side by side and to the same scale. If all arrivals are closed, the two are
/// equal and only one is drawn.
pub(in crate::page) fn latencies(page: &Page<'_>, timeline: &Timeline) -> Markup {
    let is_closed = !page.run.phases.is_empty() && page.run.phases.iter().all(|phase| !phase.open);
    let shown = if is_closed { 1 } else { 2 };
    html! {
        @for name in names(page.intervals) {
            @let both: [(_, Pick); 2] = [("Response", |line| &line.response), ("Service", |line| &line.service)];
            @let series = both.map(|(_, pick)| spreads(page.intervals, name, pick));
            @if let Some(extent) = chart::extent(series.iter().flatten()) {
                div.pair {
                    @for ((time, _), series) in both.iter().zip(series).take(shown) {
                        (timeline.draw((&format!("{time} time of {name}"), CAPTION), Axis::latency(extent.0, extent.1), series, Size::Half))
                    }
                }
            }
        }
    }
}

fn spreads(intervals: &[Interval], name: &str, pick: Pick) -> Vec<Series> {
    let numbers: [(_, Number, _); 3] = [
        ("max", |spread| spread.max, Stroke::Thin),
        ("p99", |spread| spread.p99, Stroke::Solid),
        ("p50", |spread| spread.p50, Stroke::Solid),
    ];
    let series = numbers.into_iter().enumerate().map(|(index, (number, of, stroke))| {
        let value = |line: &IntervalLine, _| of(pick(line)).map(|ns| ns as f64);
        Series::line(number, 2 - index, stroke, points(intervals, name, value))
    });
    series.collect()
}

/// The names of all operations, in order.
fn names(intervals: &[Interval]) -> BTreeSet<&str> {
    intervals.iter().flat_map(|interval| interval.operations.keys()).map(String::as_str).collect()
}

/// One point an interval, at its middle; a missing interval or operation is a gap.
fn points(
    intervals: &[Interval],
    name: &str,
    value: impl Fn(&IntervalLine, f64) -> Option<f64>,
) -> Vec<Point> {
    let mut points = Vec::with_capacity(intervals.len());
    let mut end_ns = None;
    for interval in intervals {
        let at_s = (interval.from_ns + interval.length_ns / 2) as f64 / SECOND_NS as f64;
        let length_s = interval.length_ns.max(1) as f64 / SECOND_NS as f64;
        if end_ns.is_some_and(|end_ns| interval.from_ns >= end_ns + (GAP_LENGTHS - 1) * interval.length_ns) {
            points.push(Point::gap(at_s - length_s));
        }
        points
            .push(Point { x: at_s, y: interval.operations.get(name).and_then(|line| value(line, length_s)) });
        end_ns = Some(interval.from_ns + interval.length_ns);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(second: u64, documents: Option<u64>) -> Interval {
        let line = documents.map(|documents| IntervalLine { documents, ..IntervalLine::default() });
        Interval {
            from_ns: second * SECOND_NS,
            length_ns: SECOND_NS,
            operations: line.into_iter().map(|line| ("insert".to_owned(), line)).collect(),
            ..Interval::default()
        }
    }

    #[test]
    fn a_missing_second_and_a_missing_operation_are_gaps() {
        let intervals = [interval(0, Some(5)), interval(1, None), interval(4, Some(7)), interval(5, Some(9))];
        let points = points(&intervals, "insert", |line, _| Some(line.documents as f64));
        let expected = [
            Point::new(0.5, 5.0),
            Point::gap(1.5),
            Point::gap(3.5),
            Point::new(4.5, 7.0),
            Point::new(5.5, 9.0),
        ];
        assert_eq!(points, expected);
    }
}
