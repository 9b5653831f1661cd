//! Detects the end of the warm-up from tenths of a second.
//!
//! The warm-up ends where the marginal standard error of the rest is smallest (MSER; K. P. White, "An effective
//! truncation heuristic for bias reduction in simulation output", Simulation 69, 1997), for throughput and for p99,
//! and the rest must not drift.

use plimsoll_measure::matrix::Spread;
use plimsoll_measure::run::WarmUp;

use crate::engine::TenthLine;
use crate::worker::TENTH_NS;

/// The minimum of tenths for an assessment.
pub const TENTHS_MIN: usize = 30;
/// The limit of the difference between the mean throughputs of both halves of a steady state, as a share.
const THROUGHPUT_DRIFT_MAX: f64 = 0.10;
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
    let ((mean_a, error_a), (mean_b, error_b)) = (mean_and_error(first), mean_and_error(second));
    let difference = mean_b - mean_a;
    let error = error_a.hypot(error_b);
    let share = difference / mean_a.max(f64::MIN_POSITIVE);
    let drifts = share.abs() > THROUGHPUT_DRIFT_MAX && difference.abs() > STANDARD_ERRORS_MIN * error;
    let direction = if share > 0.0 { "rose" } else { "fell" };
    drifts.then(|| format!("throughput {direction} by {:.0} % in the second half", share.abs() * 100.0))
}

fn p99_drift(logs: &[f64]) -> Option<String> {
    let (first, second) = logs.split_at(logs.len() / 2);
    let factor = (median(second) - median(first)).exp();
    let drifts = !(1.0 / P99_DRIFT_MAX..=P99_DRIFT_MAX).contains(&factor);
    drifts.then(|| format!("p99 changed by a factor of {factor:.1} in the second half"))
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, (variance / count).sqrt())
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).map_or(0.0, |spread| spread.median)
}

#[cfg(test)]
mod tests {
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
