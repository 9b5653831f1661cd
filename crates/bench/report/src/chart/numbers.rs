//! Renders the numbers of a chart, for tooltips and for its table.

use maud::{Markup, html};

use super::{Axis, Chart, Series, Size};

/// The numbers of a chart over one bucket of its horizontal axis.
pub(super) struct Bucket {
    /// The start, 0 to 1 of the axis.
    pub from: f64,
    /// The end, 0 to 1 of the axis.
    pub to: f64,
    /// The two ends of the bucket as text, such as `0:10 to 0:20`.
    pub name: String,
    /// The smallest and largest value of every series, as text; a dash for a series without any.
    pub values: Vec<String>,
}

/// `chart` in `count` equal buckets; those without any value are left out.
pub(super) fn buckets(chart: &Chart, count: usize) -> Vec<Bucket> {
    let ranges: Vec<_> = chart.series.iter().map(|series| ranges(&chart.x, series, count)).collect();
    let shown = (0..count).filter(|index| ranges.iter().any(|ranges| ranges[*index].is_some()));
    shown
        .map(|index| {
            let (from, to) = (index as f64 / count as f64, (index + 1) as f64 / count as f64);
            let ends = [from, to].map(|share| (chart.x.show)(chart.x.value(share)));
            let values = ranges.iter().map(|ranges| words(ranges[index], &chart.y)).collect();
            Bucket { from, to, name: ends.join(" to "), values }
        })
        .collect()
}

/// The smallest and the largest value of `series` in each of `count` buckets of `x`.
fn ranges(x: &Axis, series: &Series, count: usize) -> Vec<Option<(f64, f64)>> {
    let mut ranges: Vec<Option<(f64, f64)>> = vec![None; count];
    for point in &series.points {
        let index = ((x.share(point.x) * count as f64) as usize).min(count - 1);
        if let Some(y) = point.y {
            let (low, high) = ranges[index].unwrap_or((y, y));
            ranges[index] = Some((low.min(y), high.max(y)));
        }
    }
    ranges
}

fn words(range: Option<(f64, f64)>, y: &Axis) -> String {
    match range.map(|(low, high)| ((y.show)(low), (y.show)(high))) {
        None => crate::units::NONE.to_owned(),
        Some((low, high)) if low == high => low,
        Some((low, high)) => format!("{low} to {high}"),
    }
}

/// The table of `chart`, folded away.
pub(super) fn table(chart: &Chart) -> Markup {
    let rows = buckets(chart, chart.size.rows());
    html! {
        details {
            summary { @if chart.size == Size::Small { "Numbers" } @else { "The numbers, lowest to highest in each bucket" } }
            div.wide { table {
                thead { tr {
                    th scope="col" { (chart.x.name) }
                    @for series in &chart.series { th.n scope="col" { (series.name) } }
                } }
                tbody { @for row in rows { tr {
                    th scope="row" { (row.name) }
                    @for value in row.values { td.n { (value) } }
                } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Point, Stroke};
    use super::*;

    #[test]
    fn a_bucket_has_its_lowest_and_highest_value() {
        let points =
            (0..10).map(|x| Point::new(f64::from(x), f64::from(x))).chain([Point::gap(10.0)]).collect();
        let chart = Chart {
            title: String::new(),
            caption: String::new(),
            x: Axis::time(20.0),
            y: Axis::amount(10.0, ""),
            series: vec![Series::line("a", 0, Stroke::Solid, points)],
            bands: Vec::new(),
            rules: Vec::new(),
            marks: Vec::new(),
            size: Size::Full,
        };
        let buckets: Vec<_> = buckets(&chart, 4).into_iter().map(|it| (it.name, it.values)).collect();
        let row = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        assert_eq!(buckets, [row("0:00 to 0:05", "0.00 to 4.00"), row("0:05 to 0:10", "5.00 to 9.00")]);
    }
}
