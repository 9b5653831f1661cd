//! Reduces points without changing the picture: keeps the smallest and the largest of every bucket.

/// A point of a series; no `y` is a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// The horizontal position.
    pub x: f64,
    /// The value; absent in a gap.
    pub y: Option<f64>,
}

impl Point {
    /// A point with a value.
    pub(crate) fn new(x: f64, y: f64) -> Self {
        Self { x, y: Some(y) }
    }

    /// A point without a value.
    pub(crate) fn gap(x: f64) -> Self {
        Self { x, y: None }
    }
}

/// At most `count_max` of `points` (at least 3), in their order. The series is cut into buckets of equally many points; each
/// keeps its smallest and its largest value, and a gap if it has one, so that no peak, stall or hole is lost.
pub(crate) fn decimate(points: &[Point], count_max: usize) -> Vec<Point> {
    let buckets = (count_max / 3).max(1);
    if points.len() <= buckets * 3 {
        return points.to_vec();
    }
    points.chunks(points.len().div_ceil(buckets)).flat_map(extremes).collect()
}

/// The smallest, the largest and the first gap of `bucket`, in their order.
fn extremes(bucket: &[Point]) -> Vec<Point> {
    let values = || bucket.iter().enumerate().filter_map(|(index, point)| Some((index, point.y?)));
    let lowest = values().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index);
    let highest = values().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index);
    let gap = bucket.iter().position(|point| point.y.is_none());
    let mut kept: Vec<usize> = [lowest, highest, gap].into_iter().flatten().collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| bucket[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rising(count: usize) -> Vec<Point> {
        (0..count).map(|x| Point::new(x as f64, x as f64)).collect()
    }

    #[test]
    fn few_points_stay_as_they_are() {
        assert_eq!(decimate(&rising(600), 600), rising(600));
    }

    #[test]
    fn every_bucket_keeps_its_smallest_and_its_largest_value() {
        let points: Vec<_> = [5.0, 1.0, 9.0, 4.0, 3.0, 3.0, 2.0, 8.0]
            .iter()
            .enumerate()
            .map(|(x, y)| Point::new(x as f64, *y))
            .collect();
        let kept: Vec<_> = decimate(&points, 6).into_iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(kept, [(1.0, Some(1.0)), (2.0, Some(9.0)), (6.0, Some(2.0)), (7.0, Some(8.0))]);
    }

    #[test]
    fn a_single_peak_and_a_single_hole_survive() {
        let mut points = rising(3600);
        points[1234].y = Some(1e9);
        points[2345].y = None;
        let kept = decimate(&points, 600);
        assert!(kept.len() <= 600, "{}", kept.len());
        assert!(kept.contains(&Point::new(1234.0, 1e9)));
        assert!(kept.contains(&Point::gap(2345.0)));
    }
}
