//! Detects the end of the warm-up from tenths of a second.
//!
//! The warm-up ends where the marginal standard error of the rest is smallest (MSER; K. P. White, "An effective
//! truncation heuristic for bias reduction in simulation output", Simulation 69, 1997), for throughput and for p99,
//! and the rest must not drift.
//!
//! Neighbouring tenths depend on each other: a slow moment lasts longer than a tenth. So the error of a mean comes from batches of
//! tenths (A. M. Law, "Simulation Modeling and Analysis", section 9.5.3, batch means).

use plimsoll_measure::matrix::Spread;
use plimsoll_measure::run::WarmUp;

use crate::engine::TenthLine;
use crate::worker::TENTH_NS;

/// The minimum of tenths for an assessment.
pub const TENTHS_MIN: usize = 30;
/// The limit of the difference between the mean throughputs of both halves of a steady state, as a share.
const THROUGHPUT_DRIFT_MAX: f64 = 0.10;
/// The number of batches of one half, if it has that many tenths.
const BATCHES: usize = 8;
/// The limit of the correlation of neighbouring batches: above this limit, the error of so few batches is
/// unknown.
const LAG_MAX: f64 = 0.9;
/// The number of standard errors below which a difference of means is chance.
const STANDARD_ERRORS_MIN: f64 = 3.0;
/// The limit of the factor between the median p99 values of both halves of a steady state.
const P99_DRIFT_MAX: f64 = 2.0;

/// Finds the start of a phase's steady state; `tenths` is the whole phase in rising order.
pub fn assess(tenths: &[TenthLine]) -> WarmUp {
    let series = Series::of(tenths);
    if series.throughput.len() < TENTHS_MIN {
        return WarmUp::NotAssessed;
    }
    let cut = truncation(&series.throughput).max(truncation(&series.p99_log));
    let reason = if cut >= series.throughput.len() / 2 {
        Some("throughput or p99 changed until past the middle of the phase".to_owned())
    } else {
        throughput_drift(&series.throughput[cut..]).or_else(|| p99_drift(&series.p99_log[cut..]))
    };
    match reason {
        Some(reason) => WarmUp::NotSteady { reason },
        None => WarmUp::Steady { from_s: (cut as u64 * TENTH_NS) as f64 / 1e9 },
    }
}

/// Throughput and the logarithm of p99, one value for each tenth; tenths without an operation count as zero
/// and keep the last p99.
struct Series {
    throughput: Vec<f64>,
    p99_log: Vec<f64>,
}

impl Series {
    fn of(tenths: &[TenthLine]) -> Self {
        // The end of the phase cuts off the last tenth.
        let length = tenths.last().map_or(0, |last| last.index as usize);
        let mut series = Self { throughput: vec![0.0; length], p99_log: vec![f64::NAN; length] };
        for tenth in tenths.iter().filter(|tenth| (tenth.index as usize) < length) {
            series.throughput[tenth.index as usize] = tenth.count as f64;
            series.p99_log[tenth.index as usize] = (tenth.p99_ns.max(1) as f64).ln();
        }
        let mut last = series.p99_log.iter().copied().find(|value| !value.is_nan()).unwrap_or(0.0);
        for value in &mut series.p99_log {
            if value.is_nan() {
                *value = last;
            }
            last = *value;
        }
        series
    }
}

/// The number of values to cut off the start, at most half of them.
fn truncation(values: &[f64]) -> usize {
    let count = values.len();
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for cut in (0..count).rev() {
        sum += values[cut];
        squares += values[cut] * values[cut];
        let rest = (count - cut) as f64;
        let error = (squares - sum * sum / rest) / (rest * rest);
        if cut <= count / 2 && error <= best.0 {
            best = (error, cut);
        }
    }
    best.1
}

fn throughput_drift(values: &[f64]) -> Option<String> {
    let (first, second) = values.split_at(values.len() / 2);
    let before = mean(first);
    let share = (mean(second) - before) / before.max(f64::MIN_POSITIVE);
    let drifts = share.abs() > THROUGHPUT_DRIFT_MAX && differ(first, second);
    let direction = if share > 0.0 { "rose" } else { "fell" };
    drifts.then(|| format!("throughput {direction} by {:.0} % in the second half", share.abs() * 100.0))
}

fn p99_drift(logs: &[f64]) -> Option<String> {
    let (first, second) = logs.split_at(logs.len() / 2);
    let factor = (median(second) - median(first)).exp();
    let is_large = !(1.0 / P99_DRIFT_MAX..=P99_DRIFT_MAX).contains(&factor);
    // Medians of a p99 with two levels may jump by chance. The number of tenths above the common median tells chance from a drift.
    let middle = median(logs);
    let exceed =
        |half: &[f64]| -> Vec<f64> { half.iter().map(|log| f64::from(u8::from(*log > middle))).collect() };
    let drifts = is_large && differ(&exceed(first), &exceed(second));
    drifts.then(|| format!("p99 changed by a factor of {factor:.1} in the second half"))
}

/// Whether the means of both halves differ by more than chance. The error comes from the means of batches, without the trend within
/// each half, which would be part of a drift. It grows with the correlation that neighbouring batches still have, as in a first-order
/// autoregression.
fn differ(first: &[f64], second: &[f64]) -> bool {
    let halves = [first, second].map(batch_means);
    let batches = halves[0].len().min(halves[1].len()) as f64;
    let difference = (mean(&halves[1]) - mean(&halves[0])).abs();
    let rest = halves.each_ref().map(|means| without_trend(means));
    let squares: f64 = rest.iter().flatten().map(|value| value * value).sum();
    if squares == 0.0 {
        return difference > 0.0;
    }
    let products: f64 = rest.iter().flat_map(|half| half.windows(2)).map(|pair| pair[0] * pair[1]).sum();
    // The residuals of few batches add up to zero, which lowers their correlation by 1 ÷ batches.
    let lag = (products / squares + 1.0 / batches).clamp(0.0, LAG_MAX);
    let variance = squares / (2.0 * (batches - 2.0).max(1.0));
    let error = (2.0 * variance / batches * (1.0 + lag) / (1.0 - lag)).sqrt();
    difference > STANDARD_ERRORS_MIN * error
}

/// The means of consecutive batches; the first values are left out if they fill no batch.
fn batch_means(values: &[f64]) -> Vec<f64> {
    let size = (values.len() / BATCHES).max(1);
    values[values.len() % size..].chunks(size).map(mean).collect()
}

/// The residuals of the straight line through the values, by least squares.
fn without_trend(values: &[f64]) -> Vec<f64> {
    let (level, middle) = (mean(values), (values.len().max(1) - 1) as f64 / 2.0);
    let steps = || (0..values.len()).map(|index| index as f64 - middle);
    let weight: f64 = steps().map(|step| step * step).sum();
    let slope =
        steps().zip(values).map(|(step, value)| step * (value - level)).sum::<f64>() / weight.max(1.0);
    steps().zip(values).map(|(step, value)| value - level - slope * step).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).map_or(0.0, |spread| spread.median)
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::random::Random;

    use super::*;
    use crate::mix::scramble;

    /// Tenths with 5 % noise around `shape`.
    fn tenths(count: u64, shape: impl Fn(u64) -> (f64, f64)) -> Vec<TenthLine> {
        let noise = |index, salt| 0.95 + 0.1 * (scramble(salt, index) as f64 / u64::MAX as f64);
        (0..=count)
            .map(|index| {
                let (throughput, p99) = shape(index);
                let count = (throughput * noise(index, 1)) as u64;
                let p99_ns = (p99 * noise(index, 2)) as u64;
                TenthLine { index, count, documents: count, p99_ns, ..TenthLine::default() }
            })
            .collect()
    }

    /// A thousand operations a tenth, which wander by a quarter: a first-order autoregression with the correlation `lag` between
    /// neighbours, and a linear drift by this share over the whole.
    fn wandering(count: u64, lag: f64, drift: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        // The sum of twelve uniform values is normal enough.
        let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let mut state = normal();
        let next = |index: u64| {
            let shape = 1.0 + drift * (index as f64 / count as f64 - 0.5);
            let value = 1000.0 * (shape + 0.25 * state);
            state = lag * state + (1.0 - lag * lag).sqrt() * normal();
            value.max(0.0)
        };
        (0..count).map(next).collect()
    }

    /// The share of 400 series that a rule calls drifting, in percent.
    fn drifting(lag: f64, drift: f64, rule: impl Fn(&[f64]) -> bool) -> f64 {
        let found = (0..400).filter(|seed| rule(&wandering(300, lag, drift, 1 + seed))).count();
        found as f64 / 4.0
    }

    /// The rule that assumes independent tenths.
    fn independent(values: &[f64]) -> bool {
        let (first, second) = values.split_at(values.len() / 2);
        let error = |half: &[f64]| {
            let squares: f64 = half.iter().map(|value| (value - mean(half)).powi(2)).sum();
            squares / (half.len() as f64 - 1.0) / half.len() as f64
        };
        let difference = (mean(second) - mean(first)).abs();
        difference > 0.1 * mean(first) && difference > 3.0 * (error(first) + error(second)).sqrt()
    }

    #[test]
    fn a_series_that_wanders_is_steady_and_one_that_drifts_is_not() {
        let batched = |values: &[f64]| throughput_drift(values).is_some();
        // The correlation, then percentages: the most false alarms, the fewest of the rule for independent
        // tenths, and the fewest drifts found. A drift makes the second half slower by a quarter.
        for (lag, alarms_max, independent_min, found_min) in
            [(0.0, 1.0, 0.0, 99.0), (0.5, 2.0, 2.0, 95.0), (0.8, 5.0, 20.0, 70.0), (0.9, 8.0, 35.0, 45.0)]
        {
            let [alarms, before] = [drifting(lag, 0.0, batched), drifting(lag, 0.0, independent)];
            let [found, found_before] = [drifting(lag, -0.6, batched), drifting(lag, -0.6, independent)];
            println!("{lag}: alarms {alarms} %, before {before} %; found {found} %, before {found_before} %");
            assert!(alarms <= alarms_max && before >= independent_min && found >= found_min, "{lag}");
        }
    }

    #[test]
    fn a_p99_that_jumps_between_two_levels_is_steady() {
        // Bursts of 2 s, whose shares of both halves differ by chance.
        let level = |index: u64| if scramble(5, index / 20).is_multiple_of(2) { 1e6 } else { 9e6 };
        let logs: Vec<f64> = (0..300).map(|index| f64::ln(level(index))).collect();
        let (first, second) = logs.split_at(150);
        let factor = (median(second) - median(first)).exp();
        assert!(!(0.5..=2.0).contains(&factor), "the medians jump: {factor}");
        assert_eq!(p99_drift(&logs), None);
        let rising: Vec<f64> = (0..300).map(|index| f64::ln(if index < 160 { 1e6 } else { 9e6 })).collect();
        assert!(p99_drift(&rising).is_some());
    }

    #[test]
    fn fewer_than_thirty_tenths_are_not_assessed() {
        assert_eq!(assess(&tenths(29, |_| (1000.0, 1e6))), WarmUp::NotAssessed);
        assert_eq!(assess(&[]), WarmUp::NotAssessed);
    }

    #[test]
    fn a_steady_run_is_steady_from_its_first_second() {
        let WarmUp::Steady { from_s } = assess(&tenths(100, |_| (1000.0, 1e6))) else { panic!("not steady") };
        assert!(from_s < 1.0, "{from_s}");
    }

    #[test]
    fn a_cold_start_is_cut_off() {
        let shape = |index| if index < 20 { (300.0 + index as f64 * 35.0, 5e6) } else { (1000.0, 1e6) };
        let WarmUp::Steady { from_s } = assess(&tenths(100, shape)) else { panic!("not steady") };
        assert!((1.5..=3.0).contains(&from_s), "{from_s}");
    }

    #[test]
    fn throughput_that_falls_to_the_end_is_not_steady() {
        let falling = assess(&tenths(100, |index| (2000.0 - index as f64 * 15.0, 1e6)));
        assert!(matches!(falling, WarmUp::NotSteady { .. }), "{falling:?}");
    }

    #[test]
    fn latency_that_grows_without_end_is_not_steady() {
        let growing = assess(&tenths(100, |index| (1000.0, 1e6 * 1.05f64.powi(index as i32))));
        assert!(matches!(growing, WarmUp::NotSteady { .. }), "{growing:?}");
    }
}
