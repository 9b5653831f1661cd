//! Places the ticks of an axis.

/// At most `count_max` round values in `low..=high`. The step between them is 1, 2 or 5 times a power of ten.
///
/// The method is that of Heckbert's "Nice Numbers for Graph Labels" (Graphics Gems, 1990), with a step that is never
/// too small.
pub(crate) fn linear(low: f64, high: f64, count_max: usize) -> Vec<f64> {
    stepped(low, high, |span| nice_step(span / count_max.max(2) as f64, &[1.0, 2.0, 5.0, 10.0], 10.0))
}

/// As [`linear`] for sizes in bytes: steps are 1, 2, 4, 8 … 512 times a power of 1024.
pub(crate) fn binary(low: f64, high: f64, count_max: usize) -> Vec<f64> {
    let steps: Vec<f64> = (0..=10).map(|power| f64::from(1 << power)).collect();
    stepped(low, high, |span| nice_step(span / count_max.max(2) as f64, &steps, 1024.0))
}

/// As [`linear`] for seconds: steps of a clock (1, 2, 5, 10, 15, 30 s, 1, 2, 5, 10, 15, 30 min, hours).
pub(crate) fn time(low: f64, high: f64, count_max: usize) -> Vec<f64> {
    const STEPS: [f64; 15] =
        [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0];
    stepped(low, high, |span| {
        let least = span / count_max.max(2) as f64;
        STEPS.into_iter().find(|step| *step >= least).unwrap_or_else(|| (least / 86_400.0).ceil() * 86_400.0)
    })
}

/// The powers of ten in `low..=high`. If these are fewer than three, also 2 and 5 times each power.
pub(crate) fn log(low: f64, high: f64) -> Vec<f64> {
    let decades = log_with(low, high, &[1.0]);
    if decades.len() >= 3 { decades } else { log_with(low, high, &[1.0, 2.0, 5.0]) }
}

fn log_with(low: f64, high: f64, factors: &[f64]) -> Vec<f64> {
    if low <= 0.0 || high < low {
        return Vec::new();
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |value: &f64| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9);
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(within)
        .collect()
}

fn stepped(low: f64, high: f64, step: impl Fn(f64) -> f64) -> Vec<f64> {
    if high <= low {
        return vec![low];
    }
    let step = step(high - low);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// The smallest of `steps` times a power of `base` that is at least `least`.
fn nice_step(least: f64, steps: &[f64], base: f64) -> f64 {
    let unit = base.powf((least.ln() / base.ln()).floor());
    let fits = |step: &&f64| **step * unit >= least * (1.0 - 1e-9);
    steps.iter().find(fits).map_or(least, |step| step * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_not_too_many() {
        assert_eq!(linear(0.0, 9.7, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(linear(0.0, 171_000.0, 5), [0.0, 50_000.0, 100_000.0, 150_000.0]);
        assert_eq!(linear(3.0, 4.0, 5), [3.0, 3.2, 3.4000000000000004, 3.6, 3.8000000000000003, 4.0]);
        assert_eq!(linear(0.0, 1.0, 4), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn an_axis_without_a_span_has_one_tick() {
        assert_eq!(linear(5.0, 5.0, 5), [5.0]);
    }

    #[test]
    fn log_ticks_are_powers_of_ten_where_there_are_three_of_them() {
        assert_eq!(log(900.0, 150_000.0), [1e3, 1e4, 1e5]);
        assert_eq!(log(1e6, 1e9), [1e6, 1e7, 1e8, 1e9]);
    }

    #[test]
    fn a_narrow_log_axis_has_twos_and_fives() {
        assert_eq!(log(1e6, 3e7), [1e6, 2e6, 5e6, 1e7, 2e7]);
        assert!(log(0.0, 10.0).is_empty());
    }

    #[test]
    fn time_ticks_follow_the_clock() {
        assert_eq!(time(0.0, 62.0, 6), [0.0, 15.0, 30.0, 45.0, 60.0]);
        assert_eq!(time(0.0, 3600.0, 6), [0.0, 600.0, 1200.0, 1800.0, 2400.0, 3000.0, 3600.0]);
        assert_eq!(time(0.0, 4.0, 6), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(time(0.0, 1_000_000.0, 6).len(), 6);
    }

    #[test]
    fn binary_ticks_are_powers_of_two() {
        let mib = 1_048_576.0;
        assert_eq!(binary(0.0, 300.0 * mib, 5), [0.0, 64.0 * mib, 128.0 * mib, 192.0 * mib, 256.0 * mib]);
    }
}
