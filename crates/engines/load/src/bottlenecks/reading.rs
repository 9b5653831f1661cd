//! Builds readings at the baseline and at the knee, and prints them as evidence.

use plimsoll_measure::line::{Reading, Timing};

/// Bytes in a mebibyte.
pub const MIB: f64 = 1_048_576.0;

/// A number at the baseline and at the knee.
pub fn reading(what: &str, unit: &str, (baseline, knee): (f64, f64)) -> Reading {
    partial(what, unit, (Some(baseline), Some(knee)))
}

/// A share, 0 to 1, at the baseline and at the knee, as a percentage.
pub fn share(what: &str, (baseline, knee): (f64, f64)) -> Reading {
    reading(what, "%", (baseline * 100.0, knee * 100.0))
}

/// A number that may be missing at the baseline or at the knee.
pub fn partial(what: &str, unit: &str, (baseline, knee): (Option<f64>, Option<f64>)) -> Reading {
    Reading { what: what.to_owned(), unit: unit.to_owned(), baseline, knee }
}

/// Prints readings, the knee's number first: `disk busy 98 % (15 % at 100/s), read 3.00 MiB/s (0 MiB/s)`. `rate` is the
/// baseline's and is printed once.
pub(super) fn evidence(readings: &[Reading], rate: f64) -> String {
    let words = readings.iter().enumerate().map(|(index, reading)| {
        let at = if index == 0 { format!(" at {rate:.0}/s") } else { String::new() };
        let [baseline, knee] = [reading.baseline, reading.knee].map(|number| shown(number, &reading.unit));
        format!("{} {knee} ({baseline}{at})", reading.what)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Prints readings without a baseline: `disk busy 98 %, read 3.00 MiB/s`.
pub(super) fn evidence_at_limit(readings: &[Reading]) -> String {
    let words =
        readings.iter().map(|reading| format!("{} {}", reading.what, shown(reading.knee, &reading.unit)));
    words.collect::<Vec<_>>().join(", ")
}

/// Adds the comparison of slow with calm seconds: `…; at its limit in 85 % of the slow time, 4 % of the calm time`.
pub(super) fn evidence_in_time(evidence: String, timing: Option<&Timing>) -> String {
    let Some(timing) = timing.filter(|it| it.p.is_some()) else { return evidence };
    let (slow, calm) = (timing.slow * 100.0, timing.calm * 100.0);
    format!("{evidence}; at its limit in {slow:.0} % of the slow time, {calm:.0} % of the calm time")
}

/// Prints a number with three significant digits and its unit; percentages and event rates without a fraction.
fn shown(number: Option<f64>, unit: &str) -> String {
    let Some(number) = number else { return "none".to_owned() };
    let digits = match number.abs() {
        size if unit == "%" || unit == "/s" || size == 0.0 || size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.0995 => 2,
        _ => 3,
    };
    let space = if unit.starts_with('/') || unit.is_empty() { "" } else { " " };
    format!("{number:.digits$}{space}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_comes_first_and_the_baselines_rate_is_printed_once() {
        let readings = [
            reading("mean sync", "ms", (1.0, 12.34)),
            share("busy", (0.1, 0.956)),
            partial("slow", "ms", (None, Some(120.4))),
            reading("waiting", "", (0.0, 7.5)),
        ];
        let text =
            "mean sync 12.3 ms (1.00 ms at 2000/s), busy 96 % (10 %), slow 120 ms (none), waiting 7.50 (0)";
        assert_eq!(evidence(&readings, 2000.0), text);
    }
}
