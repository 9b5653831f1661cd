//! Judges each metric by test, effect size, noise, and the number of tested metrics.

use super::form::{Better, Correlation, Metric, Noise, Settings, Verdict};
use super::sign_flip::{ALPHA, Evidence, PAIRS_EXACT, PAIRS_MAX, PAIRS_MIN, smallest_p};
use super::values::{Values, bare, evidence, unknown};

/// The default minimum effect, as a share.
pub const MIN_EFFECT: f64 = 0.03;
/// A metric without a shown difference is too noisy if its interval is wider than this on either side.
pub const TOO_WIDE: f64 = 0.2;

impl Default for Settings {
    fn default() -> Self {
        Self { alpha: ALPHA, min_effect: MIN_EFFECT, seed: 0 }
    }
}

/// The metrics of two single runs: ratios, and no verdict.
pub(super) fn single(values: Vec<Values>, primary: usize) -> Vec<Metric> {
    let metric_of = |(index, values): (usize, Values)| {
        let reason =
            unknown(&values.pairs).unwrap_or_else(|| "two single runs are not enough evidence".to_owned());
        Metric { reason: Some(reason), ..bare(values, index == primary) }
    };
    values.into_iter().enumerate().map(metric_of).collect()
}

/// The metrics of pairs with their verdicts. The primary metric is tested alone, the others together.
pub(super) fn judge(values: Vec<Values>, primary: usize, settings: &Settings, noise: &Noise) -> Vec<Metric> {
    let evidence: Vec<Option<(Evidence, Option<Correlation>)>> =
        values.iter().map(|it| evidence(&it.pairs, settings.seed)).collect();
    let is_other = |index: &usize| *index != primary && evidence[*index].is_some();
    let others: Vec<usize> = (0..values.len()).filter(is_other).collect();
    let tested: Vec<f64> = others.iter().filter_map(|index| Some(evidence[*index]?.0.p)).collect();
    let together = adjusted(&tested);
    let judged = |(index, values): (usize, Values)| {
        let metric = bare(values, index == primary);
        let Some((evidence, correlation)) = evidence[index] else {
            let reason = unknown(&metric.pairs);
            return Metric { reason, ..metric };
        };
        let place = others.iter().position(|other| *other == index);
        let metric = Metric { correlation, ..metric };
        let family = if place.is_some() { others.len() } else { 1 };
        let p_adjusted = place.map_or(evidence.p, |place| together[place]);
        decide(metric, &Tested { evidence, p_adjusted, family }, settings, noise)
    };
    values.into_iter().enumerate().map(judged).collect()
}

/// The evidence on one metric, and the number of metrics tested together.
struct Tested {
    evidence: Evidence,
    p_adjusted: f64,
    family: usize,
}

fn decide(metric: Metric, tested: &Tested, settings: &Settings, noise: &Noise) -> Metric {
    let it = tested.evidence;
    let pairs = metric.pairs.len();
    let must_show = must_show(&it, pairs, settings, noise);
    // The test assumes independent pairs: if they are correlated, the widened interval decides.
    let is_significant = |p: f64| p <= settings.alpha && (metric.correlation.is_none() || it.excludes_zero());
    let is_shown = is_significant(tested.p_adjusted) && it.centre.abs() >= must_show;
    // A metric that is significant by itself is not too noisy, however wide its interval.
    let is_open = !is_significant(it.p);
    let is_wide = is_open && it.half_width() > TOO_WIDE.ln_1p();
    let verdict = match (is_shown, is_wide) {
        (true, _) if (it.centre > 0.0) == (metric.better == Better::More) => Verdict::Better,
        (true, _) => Verdict::Worse,
        (false, true) => Verdict::TooNoisy,
        (false, false) => Verdict::NoDifference,
    };
    let target = if is_wide { TOO_WIDE } else { settings.min_effect };
    let needed = pairs_needed(
        pairs,
        if is_open { it.half_width() } else { 0.0 },
        target.ln_1p(),
        tested.family,
        settings.alpha,
    );
    Metric {
        low: Some(it.low.exp()),
        high: Some(it.high.exp()),
        p: Some(it.p),
        p_adjusted: Some(tested.p_adjusted),
        must_show: Some(must_show.exp_m1()),
        verdict,
        reason: if is_shown { None } else { reason(tested, must_show, &metric, settings) },
        pairs_needed: needed.filter(|_| !is_shown),
        ..metric
    }
}

/// The minimum effect, widened by the possible drift of the mean. The drift counts at most as the pairs' own standard error.
fn must_show(it: &Evidence, pairs: usize, settings: &Settings, noise: &Noise) -> f64 {
    let own = it.deviation / (pairs as f64).sqrt();
    settings.min_effect.ln_1p() + noise.error(pairs).min(own)
}

/// The reason why a metric shows no difference, if the pairs are too few to show one or if its own p is small
/// enough; `None` for any other metric.
fn reason(tested: &Tested, must_show: f64, metric: &Metric, settings: &Settings) -> Option<String> {
    let (it, pairs) = (&tested.evidence, metric.pairs.len());
    if smallest_p(pairs) * tested.family as f64 > settings.alpha {
        return Some(format!(
            "inconclusive: {pairs} pairs cannot show a difference in {} metrics besides the primary one",
            tested.family
        ));
    }
    if it.p <= settings.alpha && metric.correlation.is_some() && !it.excludes_zero() {
        return Some("significant only if neighbouring pairs were independent, and they are not".to_owned());
    }
    if tested.p_adjusted <= settings.alpha {
        let least = must_show.exp_m1() * 100.0;
        return Some(format!("the difference is real but smaller than the required {least:.1} %"));
    }
    (it.p <= settings.alpha)
        .then(|| format!("significant alone, but not among {} metrics tested together", tested.family))
}

/// The number of pairs that would narrow the interval to `target` on either side and give a small enough p among all tests;
/// nothing if the pairs suffice. The interval narrows with the square root of the number of pairs.
fn pairs_needed(pairs: usize, half_width: f64, target: f64, family: usize, alpha: f64) -> Option<u32> {
    let narrow = if target > 0.0 { pairs as f64 * (half_width / target).powi(2) } else { 0.0 };
    let fewest = (PAIRS_MIN..=PAIRS_EXACT).find(|pairs| smallest_p(*pairs) * family as f64 <= alpha);
    let needed = narrow.max(fewest.unwrap_or(PAIRS_MAX) as f64).ceil();
    (needed > pairs as f64).then(|| needed.min(f64::from(u32::MAX)) as u32)
}

/// The p of each test, adjusted for several tests: the probability of one or more false positives below a level is at most
/// that level. The method is Holm's step-down (Holm, "A simple sequentially rejective multiple test procedure", 1979).
fn adjusted(tests: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by(|one, other| tests[*one].total_cmp(&tests[*other]));
    let mut adjusted = vec![1.0; tests.len()];
    let mut most: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        most = most.max((tests.len() - rank) as f64 * tests[index]).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::form::Pair;
    use super::super::measures::{Measure, measures};
    use super::*;
    use crate::run::{Operation, Run};

    fn measure() -> Measure {
        let operation = Operation { documents: 1, documents_per_s: 1.0, ..Operation::default() };
        let run = Run { operations: BTreeMap::from([("insert".to_owned(), operation)]), ..Run::default() };
        measures(&[&run]).remove(0)
    }

    /// One metric by its ratios; more is better.
    fn values(ratios: &[f64]) -> Values {
        let pairs = ratios.iter().map(|ratio| Pair { a: Some(100.0), b: Some(100.0 * ratio) }).collect();
        Values { measure: measure(), pairs }
    }

    fn judged(ratios: &[f64]) -> Metric {
        judge(vec![values(ratios)], 0, &Settings::default(), &Noise::default()).remove(0)
    }

    #[track_caller]
    fn check(ratios: &[f64], verdict: Verdict, reason: &str) -> Metric {
        let metric = judged(ratios);
        assert_eq!(metric.verdict, verdict, "{metric:?}");
        assert!(metric.reason.as_deref().unwrap_or_default().contains(reason), "{:?}", metric.reason);
        metric
    }

    /// `centre` and a little to either side of it, in an order without a drift.
    fn around(centre: f64, by: f64) -> Vec<f64> {
        (0..10).map(|index| centre * (1.0 + by * (f64::from(index * 7 % 10) - 4.5) / 4.5)).collect()
    }

    #[test]
    fn a_difference_is_better_or_worse_by_its_direction() {
        assert_eq!(check(&around(1.10, 0.02), Verdict::Better, "").pairs_needed, None);
        check(&around(0.90, 0.02), Verdict::Worse, "");
        let mut less = values(&around(0.9, 0.02));
        less.measure.better = Better::Less;
        assert_eq!(judge(vec![less], 0, &Settings::default(), &Noise::default())[0].verdict, Verdict::Better);
    }

    #[test]
    fn a_real_but_small_difference_is_no_difference() {
        let metric =
            check(&around(1.02, 0.005), Verdict::NoDifference, "real but smaller than the required 3.0 %");
        assert!(metric.low.unwrap() > 1.0 && metric.p.unwrap() <= ALPHA);
    }

    #[test]
    fn drift_of_the_machine_widens_the_required_difference() {
        let noise = Noise { null_server: Some(0.1), ping: None };
        let metric = |noise: &Noise| {
            judge(vec![values(&around(1.036, 0.035))], 0, &Settings::default(), noise).remove(0)
        };
        let (quiet, noisy) = (metric(&Noise::default()), metric(&noise));
        assert_eq!((quiet.verdict, noisy.verdict), (Verdict::Better, Verdict::NoDifference));
        assert!(quiet.must_show < noisy.must_show);
    }

    #[test]
    fn a_metric_is_too_noisy_only_if_its_interval_is_wider_than_20_percent() {
        let metric = check(&around(1.0, 0.5), Verdict::TooNoisy, "");
        assert!(metric.pairs_needed.unwrap() > 10);
        check(&around(1.0, 0.15), Verdict::NoDifference, "");
        check(&around(3.0, 0.5), Verdict::Better, "");
    }

    #[test]
    fn identical_runs_show_no_difference_and_need_no_more_pairs() {
        let metric = check(&[1.0; 10], Verdict::NoDifference, "");
        assert_eq!((metric.p, metric.ratio, metric.pairs_needed), (Some(1.0), Some(1.0), None));
    }

    #[test]
    fn a_pair_without_a_ratio_is_never_left_out() {
        let mut zero = values(&[1.1; 10]);
        zero.pairs[3].b = Some(0.0);
        let mut missing = values(&[1.1; 10]);
        missing.pairs[4].a = None;
        let metrics =
            judge(vec![values(&[1.1; 10]), zero, missing], 0, &Settings::default(), &Noise::default());
        let reasons: Vec<_> =
            metrics[1..].iter().map(|it| (it.verdict, it.reason.clone().unwrap())).collect();
        assert_eq!(reasons[0].0, Verdict::NoVerdict);
        assert!(
            reasons[0].1.contains("zero in 1 of 10") && reasons[1].1.contains("unknown in 1 of 10"),
            "{reasons:?}"
        );
        assert_eq!(metrics[0].p_adjusted, metrics[0].p, "a metric without ratios does not count as tested");
    }

    #[test]
    fn secondary_metrics_are_corrected_for_their_number() {
        let other = || values(&around(1.10, 0.02));
        let of = |count: usize| {
            let all = std::iter::repeat_with(other).take(1 + count).collect();
            judge(all, 0, &Settings::default(), &Noise::default())
        };
        let five = of(5);
        assert!(five.iter().all(|metric| metric.verdict == Verdict::Better), "{five:?}");
        let six = of(6);
        assert_eq!((six[0].verdict, six[1].verdict), (Verdict::Better, Verdict::NoDifference));
        assert!(six[1].reason.as_deref().unwrap().contains("10 pairs cannot show"));
        assert_eq!(six[1].pairs_needed, Some(11));
    }

    #[test]
    fn a_metric_that_is_significant_alone_is_not_too_noisy() {
        let wide: Vec<f64> = around(0.02, 0.8)[..8].to_vec();
        let metrics = judge(
            vec![values(&wide), values(&wide), values(&wide)],
            0,
            &Settings::default(),
            &Noise::default(),
        );
        assert_eq!((metrics[0].verdict, metrics[1].verdict), (Verdict::Worse, Verdict::NoDifference));
        assert_eq!(metrics[1].pairs_needed, Some(9));
    }

    #[test]
    fn a_difference_that_only_a_drifting_machine_shows_is_no_difference() {
        let drifting = [0.995, 1.01, 1.02, 1.03, 1.05, 1.08, 1.11, 1.14, 1.16, 1.17];
        let mut shuffled = drifting;
        (shuffled[1], shuffled[3], shuffled[6]) = (drifting[6], drifting[1], drifting[3]);
        (shuffled[0], shuffled[9]) = (drifting[9], drifting[0]);
        assert_eq!(check(&shuffled, Verdict::Better, "").correlation, None);
        let metric =
            check(&drifting, Verdict::TooNoisy, "significant only if neighbouring pairs were independent");
        assert!(metric.p.unwrap() <= ALPHA && metric.low.unwrap() < 1.0 && metric.correlation.is_some());
        let larger = drifting.map(|ratio| ratio * 2.0);
        assert!(check(&larger, Verdict::Better, "").correlation.is_some(), "a large difference stands");
    }

    #[test]
    fn two_single_runs_get_a_ratio_and_no_verdict() {
        let metric = single(vec![values(&[0.5])], 0).remove(0);
        assert_eq!((metric.verdict, metric.p, metric.low), (Verdict::NoVerdict, None, None));
        assert!((metric.ratio.unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn each_p_is_multiplied_by_the_number_of_remaining_tests() {
        // By hand: sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 is 0.02, 0.03, 0.06, 0.04; none falls below the one before.
        let found = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn a_single_test_keeps_its_p_and_no_p_exceeds_one() {
        assert_eq!(adjusted(&[0.2]), [0.2]);
        assert_eq!(adjusted(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(adjusted(&[]).is_empty());
    }
}
