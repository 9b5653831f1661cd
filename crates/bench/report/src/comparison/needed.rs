//! How many pairs would do, in plain sentences.

use plimsoll_measure::comparison::Metric;
use plimsoll_measure::comparison::sign_flip::PAIRS_MAX;

use super::words::change;
use crate::units::NONE;

/// How many pairs would do. They are those of a new comparison: whoever adds some to this one because of what it says asks the
/// same question again, and is wrong more often than once in a hundred.
pub(super) fn more(metric: &Metric, width: f64) -> String {
    let Some(needed) = metric.pairs_needed else { return String::new() };
    let (width, needed) = (change(width), needed as usize);
    let width = width.trim_start_matches('+');
    if needed > PAIRS_MAX {
        return format!(
            "; to narrow that to ± {width} would take about {needed} pairs, and no comparison takes more than {PAIRS_MAX}: make \
             each run longer, or look on a quieter machine"
        );
    }
    format!("; a new comparison with about {needed} pairs would narrow that to ± {width}")
}

/// Pairs that would do, where room is short.
pub(super) fn pairs_needed(metric: &Metric) -> String {
    match metric.pairs_needed {
        None => NONE.to_owned(),
        Some(needed) if needed as usize > PAIRS_MAX => format!("> {PAIRS_MAX}"),
        Some(needed) => needed.to_string(),
    }
}

/// What stands in the way of another metric's difference.
pub(super) fn held_up(metric: &Metric) -> Option<String> {
    let reason = metric.reason.as_ref()?;
    let enough = metric.pairs_needed.map(|pairs| match pairs as usize {
        many if many > PAIRS_MAX => {
            format!("; that would take {many} pairs, and no comparison takes more than {PAIRS_MAX}")
        }
        enough => format!("; that takes a new comparison with {enough} pairs"),
    });
    let enough = enough.unwrap_or_default();
    Some(crate::prose::sentence(&format!("{}: {reason}{enough}", metric.words)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::super::words::conclusions;
    use super::*;

    #[test]
    fn more_pairs_than_a_comparison_takes_are_never_advised() {
        let mut comparison = sample(10, 1.0, 0.03);
        for (needed, first, short) in [
            (200, "a new comparison with about 200 pairs would narrow that to ± 3.0 %", "200"),
            (201, "would take about 201 pairs, and no comparison takes more than 200", "> 200"),
        ] {
            comparison.metrics[0].pairs_needed = Some(needed);
            assert!(conclusions(&comparison)[0].contains(first), "{:?}", conclusions(&comparison));
            assert_eq!(pairs_needed(&comparison.metrics[0]), short);
        }
        let other = Metric { reason: Some("too many".into()), ..comparison.metrics[0].clone() };
        assert!(held_up(&other).unwrap().contains("takes more than 200"));
    }
}
