//! Collects the values of a metric pair by pair, and sums them up before the verdict.

use super::form::{Metric, Pair, Verdict};
use super::measures::Measure;
use super::sign_flip::{Evidence, mean, weigh};

/// A figure and its values.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// The figure.
    pub measure: Measure,
    /// One for each pair.
    pub pairs: Vec<Pair>,
}

/// The evidence of the pairs; nothing if one has no ratio.
pub(super) fn evidence(pairs: &[Pair], seed: u64) -> Option<Evidence> {
    weigh(&logs(pairs)?, seed)
}

/// The log ratios of all pairs; nothing if one has none.
fn logs(pairs: &[Pair]) -> Option<Vec<f64>> {
    pairs.iter().map(|pair| pair.ratio().map(f64::ln)).collect()
}

/// Why a metric cannot be compared; nothing if every pair has a ratio. Pairs without one are never left out: they would
/// be the slow or the fast ones.
pub(super) fn unknown(pairs: &[Pair]) -> Option<String> {
    let of = pairs.len();
    let missing = pairs.iter().filter(|pair| pair.a.is_none() || pair.b.is_none()).count();
    let zero = pairs.iter().filter(|pair| pair.ratio().is_none()).count() - missing;
    match (missing, zero) {
        (0, 0) => None,
        (0, zero) => Some(format!("it is zero in {zero} of {of} pairs, so there is no ratio")),
        (missing, _) => Some(format!("it is unknown in {missing} of {of} pairs")),
    }
}

/// The values of a metric without a verdict.
pub(super) fn bare(values: Values, primary: bool) -> Metric {
    let Values { measure, pairs } = values;
    let logs = logs(&pairs);
    let geometric = |pick: fn(&Pair) -> Option<f64>| {
        let each: Vec<f64> = pairs.iter().filter_map(pick).map(f64::ln).collect();
        logs.as_ref().map(|_| mean(&each).exp())
    };
    let (a, b) = (geometric(|pair| pair.a), geometric(|pair| pair.b));
    Metric {
        name: measure.name,
        words: measure.words,
        unit: measure.unit,
        better: measure.better,
        primary,
        a,
        b,
        ratio: logs.as_ref().map(|logs| mean(logs).exp()),
        pairs,
        low: None,
        high: None,
        p: None,
        p_adjusted: None,
        must_show: None,
        verdict: Verdict::NoVerdict,
        reason: None,
        pairs_needed: None,
    }
}
