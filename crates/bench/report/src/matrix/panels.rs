//! Draws the charts of a matrix: groups by its first two axes, a chart for each combination of the others.

use plimsoll_measure::matrix::{Cell, Matrix, Spread};
use plimsoll_measure::run::Verdict;

use super::varying;
use crate::chart::{Axis, Chart, Dot, Point, Series, Shape, Size, Stroke};
use crate::layout::cut;
use crate::units::{counted, exact_rate, latency};

/// The maximum number of marks on all charts together.
const MARKS_MAX: usize = 600;
/// The largest share of a group's width for its marks.
const GROUP_WIDTH: f64 = 0.7;
/// The maximum distance of marks in a group, as a share of its width.
const STEP_MAX: f64 = 0.12;

/// The subject of a chart: an operation, and the values of the axes outside the chart.
struct Panel<'a> {
    operation: &'a str,
    fixed: Vec<(&'a str, &'a str)>,
}

/// The charts that contain the first [`MARKS_MAX`] marks, and the number of other charts.
pub(super) fn charts(matrix: &Matrix) -> (Vec<Chart>, usize) {
    let mut panels = panels(matrix);
    panels.retain(|panel| marks(matrix, panel) > 0);
    let mut total = 0;
    let fitting = panels.iter().take_while(|panel| {
        total += marks(matrix, panel);
        total <= MARKS_MAX
    });
    let shown: Vec<_> = fitting.collect();
    let size = if shown.len() > 1 { Size::Half } else { Size::Full };
    let left_out = panels.len() - shown.len();
    (shown.into_iter().map(|panel| chart(matrix, panel, size)).collect(), left_out)
}

fn panels(matrix: &Matrix) -> Vec<Panel<'_>> {
    let others: Vec<_> = varying(matrix).into_iter().skip(2).collect();
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for operation in matrix.operations() {
        for cell in &matrix.cells {
            let value = |axis: &&'_ str| cell.values.get(*axis).map(String::as_str).unwrap_or_default();
            let fixed: Vec<_> = others.iter().map(|axis| (*axis, value(axis))).collect();
            if !panels.iter().any(|known| known.operation == operation && known.fixed == fixed) {
                panels.push(Panel { operation, fixed });
            }
        }
    }
    panels
}

/// The cells that a chart shows.
fn cells<'a>(matrix: &'a Matrix, panel: &'a Panel<'_>) -> impl Iterator<Item = &'a Cell> {
    let shown = |cell: &&Cell| {
        panel.fixed.iter().all(|(axis, value)| cell.values.get(*axis).is_some_and(|own| own == value))
    };
    matrix.cells.iter().filter(shown)
}

fn marks(matrix: &Matrix, panel: &Panel<'_>) -> usize {
    cells(matrix, panel).filter(|cell| rate(cell, panel.operation).is_some()).count()
}

fn rate(cell: &Cell, operation: &str) -> Option<Spread> {
    cell.figures.as_ref()?.operations.get(operation)?.documents_per_s
}

/// The values of an axis. Without an axis, one empty value.
fn values<'a>(matrix: &'a Matrix, axis: Option<&str>) -> Vec<&'a str> {
    let found = matrix.axes.iter().find(|known| Some(known.name.as_str()) == axis);
    found.map_or_else(|| vec![""], |axis| axis.values.iter().map(String::as_str).collect())
}

fn chart(matrix: &Matrix, panel: &Panel<'_>, size: Size) -> Chart {
    let axes = varying(matrix);
    // A single axis runs along the chart; of two axes, the first determines the colours.
    let (hue, across) = match axes[..] {
        [] => (None, None),
        [only] => (None, Some(only)),
        [first, second, ..] => (Some(first), Some(second)),
    };
    let (hues, groups) = (values(matrix, hue), values(matrix, across));
    let series = hues.iter().enumerate().map(|(index, value)| {
        let place = MarkSlot { index, of: hues.len(), value, axis: hue };
        series(matrix, panel, &place, &groups, across)
    });
    let (low, high) = extent(matrix, panel.operation);
    let room = size_characters(size) / groups.len().max(1);
    let names: Vec<_> = groups.iter().map(|group| cut(group, room.max(3))).collect();
    Chart {
        title: title(matrix, panel),
        caption: String::new(),
        x: Axis::groups(&names, across.unwrap_or_default()),
        y: Axis::rates(low, high, super::rate(matrix)),
        series: series.collect(),
        bands: Vec::new(),
        rules: Vec::new(),
        marks: Vec::new(),
        size,
    }
}

const fn size_characters(size: Size) -> usize {
    if matches!(size, Size::Full) { 120 } else { 54 }
}

/// The position of a mark in every group.
struct MarkSlot<'a> {
    index: usize,
    of: usize,
    value: &'a str,
    axis: Option<&'a str>,
}

impl MarkSlot<'_> {
    /// The x coordinate of the mark in group `group`.
    fn x(&self, group: usize) -> f64 {
        let step = (GROUP_WIDTH / self.of as f64).min(STEP_MAX);
        group as f64 + 0.5 + (self.index as f64 - (self.of as f64 - 1.0) / 2.0) * step
    }

    fn holds(&self, cell: &Cell) -> bool {
        self.axis.is_none_or(|axis| cell.values.get(axis).is_some_and(|value| value == self.value))
    }
}

fn series(
    matrix: &Matrix,
    panel: &Panel<'_>,
    place: &MarkSlot<'_>,
    groups: &[&str],
    across: Option<&str>,
) -> Series {
    let in_group = |cell: &Cell, group: &str| {
        across.is_none_or(|axis| cell.values.get(axis).is_some_and(|value| value == group))
    };
    let (mut points, mut dots) = (Vec::new(), Vec::new());
    for (index, group) in groups.iter().enumerate() {
        let x = place.x(index);
        for cell in cells(matrix, panel).filter(|cell| place.holds(cell) && in_group(cell, group)) {
            let Some(rate) = rate(cell, panel.operation) else { continue };
            points.extend([Point::new(x, rate.min), Point::new(x, rate.max), Point::gap(x)]);
            dots.push(dot(matrix, cell, panel.operation, x, rate));
        }
    }
    let name = if place.value.is_empty() { panel.operation } else { place.value };
    Series { dots, ..Series::line(name, place.index, Stroke::Bold, points) }
}

fn dot(matrix: &Matrix, cell: &Cell, operation: &str, x: f64, rate: Spread) -> Dot {
    let of = super::rate(matrix);
    let mut title = format!("{}\n{} {of}", super::label(matrix, cell), exact_rate(rate.median));
    if rate.of > 1 {
        let runs = counted(rate.of.into(), "run");
        title += &format!(" ({} to {} in {runs})", exact_rate(rate.min), exact_rate(rate.max));
    }
    let p99 = cell.figures.as_ref().and_then(|it| it.operations.get(operation)?.response_p99_ns);
    title += &p99.map(|p99| format!("\np99 {}", latency(p99.median as u64))).unwrap_or_default();
    title += &cell.reasons.iter().map(|reason| format!("\n{reason}")).collect::<String>();
    let shape = match cell.verdict {
        Some(Verdict::Pass) => Shape::Circle,
        Some(Verdict::Fail) => Shape::Cross,
        _ => Shape::Ring,
    };
    Dot { x, y: rate.median, shape, title }
}

/// The scale of all charts of an operation, so that they can be compared.
fn extent(matrix: &Matrix, operation: &str) -> (f64, f64) {
    let rates = matrix.cells.iter().filter_map(|cell| rate(cell, operation));
    let (low, high) =
        rates.fold((f64::MAX, 0.0), |(low, high): (f64, f64), rate| (low.min(rate.min), high.max(rate.max)));
    (low.min(high), high)
}

fn title(matrix: &Matrix, panel: &Panel<'_>) -> String {
    let fixed: Vec<_> = panel.fixed.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    if fixed.is_empty() {
        let what = if matrix.counts_requests() { "Requests" } else { "Documents" };
        format!("{what} per second, {}", panel.operation)
    } else {
        format!("{}: {}", panel.operation, fixed.join(", "))
    }
}

/// The explanation of the charts.
pub(super) fn caption(matrix: &Matrix) -> String {
    let mut sentences = Vec::new();
    if matrix.repetitions > 1 {
        sentences.push(format!(
            "Each mark is the median of {} runs; its line reaches from the lowest to the highest.",
            matrix.repetitions
        ));
    }
    if let [first, _, ..] = varying(matrix)[..] {
        let names = values(matrix, Some(first)).join(", ");
        sentences.push(format!("In each group from left to right: {names}."));
    }
    if matrix.cells.iter().any(|cell| cell.figures.is_some() && cell.verdict == Some(Verdict::Invalid)) {
        sentences.push("A ring marks a doubtful measurement: see above.".to_owned());
    }
    sentences.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_first_two_axes_share_a_chart_and_the_others_get_one_each() {
        let mut matrix = sample();
        let (shown, left_out) = charts(&matrix);
        assert_eq!((shown.len(), left_out), (1, 0));
        let series: Vec<_> =
            shown[0].series.iter().map(|series| (series.name.as_str(), series.dots.len())).collect();
        assert_eq!(series, [("one-by-one", 1), ("partitioned", 2)]);
        assert_eq!(shown[0].series[1].dots[1].shape, Shape::Cross, "a cell that lost documents");
        assert!(
            shown[0].series[0].dots[0].x < shown[0].series[1].dots[0].x,
            "marks of a group stand side by side"
        );
        matrix.axes[2].values.push("majority".into());
        matrix.cells[3].values.insert("w".into(), "majority".into());
        assert_eq!(charts(&matrix).0.len(), 2);
    }

    #[test]
    fn a_mark_reaches_from_the_lowest_to_the_highest() {
        let chart = &charts(&sample()).0[0];
        let points: Vec<_> = chart.series[0].points.iter().filter_map(|point| point.y).collect();
        assert_eq!(points, [5_000.0, 5_400.0]);
        assert!(chart.series[0].dots[0].title.contains("5,000 to 5,400 in 2 runs"));
    }

    #[test]
    fn at_most_600_marks_are_drawn() {
        let mut matrix = sample();
        let cell = matrix.cells[0].clone();
        matrix.axes[2].values = (0..300).map(|index| index.to_string()).collect();
        matrix.cells = (0..900)
            .map(|index| {
                let mut cell = cell.clone();
                cell.values.insert("w".into(), (index / 3).to_string());
                cell
            })
            .collect();
        let (shown, left_out) = charts(&matrix);
        let marks: usize = shown.iter().flat_map(|chart| &chart.series).map(|series| series.dots.len()).sum();
        assert!(marks <= MARKS_MAX, "{marks}");
        assert_eq!(shown.len() + left_out, 300);
    }
}
