//! Sizes changes by the medians of the segments on both sides, which a single outlier does not move.

use std::ops::Range;

use super::divisive::{Split, segments};
use crate::matrix::Spread;

/// The medians of the segments that `splits` cut `values` into; nothing for a segment without values.
pub(super) fn levels(values: &[f64], splits: &[Split]) -> Vec<f64> {
    let median = |segment: Range<usize>| Spread::of(values[segment].iter().copied()).map(|it| it.median);
    segments(splits, values.len()).into_iter().filter_map(median).collect()
}

/// The splits at which the level changes by at least the share `min_effect`. The smallest change is removed first and
/// its segments merge, so that a drift in many small steps is reported in fewer, larger ones.
pub(super) fn told(values: &[f64], mut splits: Vec<Split>, min_effect: f64) -> Vec<Split> {
    let least = min_effect.ln_1p();
    while let Some(index) =
        smallest(&levels(values, &splits)).filter(|(_, size)| *size < least).map(|it| it.0)
    {
        splits.remove(index);
    }
    splits
}

/// The smallest of the changes from one level to the next, as a logarithm without its sign, and which one it is.
fn smallest(levels: &[f64]) -> Option<(usize, f64)> {
    let sizes = levels.iter().zip(levels.iter().skip(1)).map(|(from, to)| (to / from).ln().abs());
    sizes.enumerate().min_by(|one, other| one.1.total_cmp(&other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(at: usize) -> Split {
        Split { at, p: 0.001 }
    }

    #[test]
    fn a_level_is_the_median_of_its_runs() {
        let values = [1.0, 9.0, 2.0, 4.0, 6.0];
        assert_eq!(levels(&values, &[split(3)]), [2.0, 4.0]);
        assert_eq!(levels(&values, &[]), [4.0]);
        assert!(levels(&[], &[]).is_empty());
    }

    #[test]
    fn changes_under_the_least_one_are_not_told_and_small_ones_add_up() {
        let values: Vec<f64> =
            [100.0, 102.0, 104.0, 106.0].into_iter().flat_map(|level| [level; 5]).collect();
        let all = vec![split(5), split(10), split(15)];
        let kept = told(&values, all.clone(), 0.03);
        assert!(!kept.is_empty() && kept.len() < all.len(), "{kept:?}");
        assert!(smallest(&levels(&values, &kept)).unwrap().1 >= 0.03f64.ln_1p());
        assert_eq!(told(&values, all.clone(), 0.0), all);
        assert!(told(&values, all, 0.2).is_empty());
    }
}
