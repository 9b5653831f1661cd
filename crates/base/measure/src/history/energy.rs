//! How unlike two parts of a series are: the energy statistic of Székely and Rizzo, with the exponent 1.
//!
//! Twice the mean distance between a value of one part and one of the other, less the mean distance within each part. It
//! is zero in the long run if both parts follow one law, whatever that is, and grows with anything that differs. The
//! weight m·n ÷ (m + n) makes splits of different sizes comparable (Matteson and James, 2014).

/// The split of `values` into two parts of at least `least` values that are most unlike: how many come before it, and how
/// strong it is. Nothing if there are too few of them, or nothing differs.
///
/// The second part need not reach to the end: a level that changes and comes back is two parts that are unlike and a rest
/// that would hide it.
pub(super) fn best(values: &[f64], least: usize) -> Option<(usize, f64)> {
    // A part of one value has no distances within it.
    let least = least.max(2);
    // Distances within the first so many values, and within those from each on up to the last one looked at.
    let (mut first, mut from) = (vec![0.0], vec![0.0; values.len()]);
    let mut best: Option<(usize, f64)> = None;
    for (last, value) in values.iter().enumerate() {
        let mut sum = 0.0;
        for start in (0..last).rev() {
            sum += (values[start] - value).abs();
            from[start] += sum;
        }
        first.push(from[0]);
        let end = last + 1;
        let splits = (least..=end.saturating_sub(least))
            .map(|at| (at, strength(first[at], from[at], first[end], [at, end - at])));
        best = best.into_iter().chain(splits.filter(|it| it.1 > 0.0)).reduce(stronger);
    }
    best
}

/// Of two that are equally strong the first.
fn stronger(one: (usize, f64), other: (usize, f64)) -> (usize, f64) {
    if other.1 > one.1 { other } else { one }
}

/// How unlike two parts of so many values are, by the sums of the distances within each of them and within both together.
fn strength(left: f64, right: f64, both: f64, [m, n]: [usize; 2]) -> f64 {
    let (m, n) = (m as f64, n as f64);
    let between = (both - left - right) / (m * n);
    let own = left / (m * (m - 1.0)) + right / (n * (n - 1.0));
    m * n / (m + n) * 2.0 * (between - own)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistic by its definition.
    fn by_definition(one: &[f64], other: &[f64]) -> f64 {
        let mean = |left: &[f64], right: &[f64], pairs: f64| {
            let all = left.iter().flat_map(|a| right.iter().map(move |b| (a - b).abs()));
            all.sum::<f64>() / pairs
        };
        let (m, n) = (one.len() as f64, other.len() as f64);
        let own = mean(one, one, m * (m - 1.0)) + mean(other, other, n * (n - 1.0));
        m * n / (m + n) * (2.0 * mean(one, other, m * n) - own)
    }

    /// The best of all splits and ends by the definition.
    fn every(values: &[f64], least: usize) -> f64 {
        let ends = 2 * least..=values.len();
        let pairs = ends.flat_map(|end| (least..=end - least).map(move |at| (at, end)));
        pairs.map(|(at, end)| by_definition(&values[..at], &values[at..end])).fold(0.0, f64::max)
    }

    #[track_caller]
    fn check(values: &[f64], expected: usize) {
        let (at, strength) = best(values, 2).unwrap();
        assert_eq!(at, expected);
        assert!((every(values, 2) - strength).abs() < 1e-12, "{strength}");
    }

    #[test]
    fn the_strength_is_that_of_the_definition_at_the_best_split() {
        check(&[0.3, 0.1, 0.2, 0.0, 0.9, 1.1, 0.8, 1.0, 0.7], 4);
    }

    #[test]
    fn a_level_that_comes_back_does_not_hide_that_it_changed() {
        check(&[0.1, 0.0, 0.1, 0.0, 1.0, 1.1, 1.0, 1.1, 0.1, 0.0, 0.1, 0.0], 4);
    }

    #[test]
    fn where_nothing_differs_or_too_little_is_there_no_split_is_best() {
        assert_eq!(best(&[1.0; 20], 5), None);
        assert_eq!(best(&[1.0, 1.0, 1.0, 2.0, 2.0], 3), None);
        assert_eq!(best(&[], 5), None);
    }
}
