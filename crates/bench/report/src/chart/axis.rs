//! Defines an axis: its scale, its ticks, and the format of its values.

use super::ticks;
use crate::units::{bytes, exact, latency, ratio, short, three_digits, tidy};

/// The approximate number of ticks that fit.
const TICKS: usize = 6;
/// The end of an axis as a multiple of the largest value, so that some space is free above the value.
const ROOM: f64 = 1.06;
/// The minimum space beyond the smallest and the largest change, as a logarithm.
const CHANGE_ROOM: f64 = 0.01;
/// From this ratio on, the smaller of two rates would be unreadable on an axis from zero.
const MAGNITUDE: f64 = 8.0;

/// An axis of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The name, with the unit.
    pub name: String,
    /// The values of the ticks, with their labels.
    pub ticks: Vec<(f64, String)>,
    /// Formats a value.
    pub show: fn(f64) -> String,
    scale: Scale,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// Evenly, between two values.
    Linear(f64, f64),
    /// By their logarithm, between two values above zero.
    Log(f64, f64),
    /// Percentiles 0 to 100 by the logarithm of 1 ÷ (1 − p), up to this power of ten.
    Nines(f64),
}

impl Axis {
    /// The position of `value`, 0 to 1. Values beyond an end get the position of that end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let (value, low, high) = match self.scale {
            Scale::Linear(low, high) => (value, low, high),
            Scale::Log(low, high) => (value.max(low).log10(), low.log10(), high.log10()),
            Scale::Nines(high) => (nines(value, high), 0.0, high),
        };
        if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// The value at the position `share`, 0 to 1.
    pub(crate) fn value(&self, share: f64) -> f64 {
        match self.scale {
            Scale::Linear(low, high) => low + share * (high - low),
            Scale::Log(low, high) => low * (high / low).powf(share),
            Scale::Nines(high) => 100.0 * (1.0 - 10f64.powf(-share * high)),
        }
    }

    /// An axis with labelled ticks, whose values `show` formats.
    fn new(
        name: impl Into<String>,
        scale: Scale,
        show: fn(f64) -> String,
        ticks: impl IntoIterator<Item = f64>,
        label: impl Fn(f64) -> String,
    ) -> Self {
        let ticks = ticks.into_iter().map(|at| (at, label(at))).collect();
        Self { name: name.into(), ticks, show, scale }
    }

    /// Seconds of a run from its start to `high`.
    pub(crate) fn time(high: f64) -> Self {
        let high = high.max(1.0);
        let name = if high > 120.0 { "minutes into the run" } else { "seconds into the run" };
        let label = |at: f64| if high > 120.0 { clock(at) } else { format!("{at:.0} s") };
        Self::new(name, Scale::Linear(0.0, high), clock, ticks::time(0.0, high, TICKS), label)
    }

    /// Amounts from zero to a little over `high`, in `unit`.
    pub(crate) fn amount(high: f64, unit: &str) -> Self {
        let high = if high > 0.0 { high * ROOM } else { 1.0 };
        Self::new(unit, Scale::Linear(0.0, high), amount, ticks::linear(0.0, high, TICKS), tick)
    }

    /// Bytes from zero to a little over `high`.
    pub(crate) fn bytes(high: f64, name: &str) -> Self {
        let high = if high > 0.0 { high * ROOM } else { 1024.0 };
        let show: fn(f64) -> String = |at| bytes(at.max(0.0) as u64);
        let ticks = ticks::binary(0.0, high, TICKS);
        Self::new(name, Scale::Linear(0.0, high), show, ticks, |at| tidy(&show(at)))
    }

    /// Lengths of time in nanoseconds from zero to a little over `high`.
    pub(crate) fn span(high: f64, name: &str) -> Self {
        let high = if high > 0.0 { high * ROOM } else { 1e6 };
        let label = |at: f64| if at == 0.0 { "0".to_owned() } else { tidy(&time(at)) };
        Self::new(name, Scale::Linear(0.0, high), time, ticks::linear(0.0, high, TICKS), label)
    }

    /// Latencies in nanoseconds on a log scale that includes `low` and `high`.
    pub(crate) fn latency(low: f64, high: f64) -> Self {
        let low = below(low.max(1.0) * 0.95);
        let high = above(high.max(low) * 1.1).max(low * 10.0);
        let ticks = ticks::log(low, high);
        Self::new("latency, log scale", Scale::Log(low, high), time, ticks, |at| tidy(&time(at)))
    }

    /// Ratios to a limit of one on a log scale, from `low` to a little over `high`.
    pub(crate) fn ratio(low: f64, high: f64, name: &str) -> Self {
        let high = above(high.max(1.0) * 1.1);
        Self::new(name, Scale::Log(low, high), ratio, ticks::log(low, high), tick)
    }

    /// Changes as logarithms of ratios, formatted by `show`. The axis includes `low`, `high` and zero change.
    pub(crate) fn changes(low: f64, high: f64, name: &str, show: fn(f64) -> String) -> Self {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let room = ((high - low) * (ROOM - 1.0)).max(CHANGE_ROOM);
        let (low, high) = (low - room, high + room);
        let ticks = ticks::linear(low.exp_m1(), high.exp_m1(), TICKS).into_iter().map(f64::ln_1p);
        Self::new(name, Scale::Linear(low, high), show, ticks, |at| tidy(&show(at)))
    }

    /// Groups side by side, each as wide as 1, with `names` below their middles.
    pub(crate) fn groups(names: &[String], name: &str) -> Self {
        let middles = (0..names.len()).map(|index| index as f64 + 0.5);
        let label = |at: f64| names.get(at as usize).cloned().unwrap_or_default();
        Self::new(name, Scale::Linear(0.0, names.len() as f64), |at| format!("{at:.0}"), middles, label)
    }

    /// Rates in `unit`: from zero where `low` and `high` have a similar size, else on a log scale that includes both.
    pub(crate) fn rates(low: f64, high: f64, unit: &str) -> Self {
        if low <= 0.0 || high / low < MAGNITUDE {
            return Self::amount(high, unit);
        }
        let (low, high) = (below(low * 0.95), above(high * 1.05));
        Self::new(format!("{unit}, log scale"), Scale::Log(low, high), amount, ticks::log(low, high), tick)
    }

    /// Percentiles of `count` values in the manner of HDR: each power of ten of 1 ÷ (1 − p) has the same
    /// width.
    pub(crate) fn percentiles(count: u64) -> Self {
        let high = (count.max(10) as f64).log10();
        let deepest = if high < 5.5 { 99.999 } else { 99.9999 };
        let marks = [50.0, 90.0, 99.0, 99.9, 99.99, deepest].into_iter();
        let marks = marks.filter(|mark| nines(*mark, 99.0) <= high);
        Self::new("percentile", Scale::Nines(high), percentile, marks, |at| at.to_string())
    }
}

/// The number of nines of a percentile, as a real number: 1 for 90, 2 for 99; at most `most`.
fn nines(percentile: f64, most: f64) -> f64 {
    let beyond = 1.0 - percentile / 100.0;
    if beyond > 0.0 { (-beyond.log10()).min(most) } else { most }
}

/// A percentile with enough digits to differ from 100.
fn percentile(percentile: f64) -> String {
    let digits = nines(percentile, 8.0).floor().max(0.0) as usize;
    format!("{percentile:.digits$} %")
}

/// Seconds as `m:ss`.
fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    format!("{}:{:02}", whole / 60, whole % 60)
}

/// A length of time in nanoseconds.
fn time(ns: f64) -> String {
    latency(ns.max(0.0).round() as u64)
}

fn amount(value: f64) -> String {
    if value >= 100.0 { exact(value.round() as u64) } else { three_digits(value) }
}

/// A tick's value without trailing zeros: `50 K`, `0.5`.
fn tick(value: f64) -> String {
    tidy(&short((value * 1e6).round() / 1e6))
}

/// The largest of 1, 2, 5 times a power of ten that is not above `value`.
fn below(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    [5.0, 2.0].into_iter().map(|factor| factor * unit).find(|at| *at <= value).unwrap_or(unit)
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
fn above(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|factor| factor * unit).find(|at| *at >= value).unwrap_or(10.0 * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axis: &Axis, labels: &[&str]) {
        let found: Vec<_> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(found, labels);
    }

    #[test]
    fn ticks_read_without_idle_digits() {
        check(&Axis::time(62.0), &["0 s", "15 s", "30 s", "45 s", "60 s"]);
        check(&Axis::time(180.0), &["0:00", "0:30", "1:00", "1:30", "2:00", "2:30", "3:00"]);
        check(&Axis::amount(14_000.0, "documents/s"), &["0", "5 K", "10 K"]);
        check(&Axis::amount(1.4, "cores"), &["0", "0.5", "1"]);
        check(
            &Axis::latency(900_000.0, 30e6),
            &["500 µs", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms"],
        );
        check(&Axis::span(3.1e6, "sync"), &["0", "1 ms", "2 ms", "3 ms"]);
        check(&Axis::rates(900.0, 70_000.0, "documents/s"), &["1 K", "10 K", "100 K"]);
        check(&Axis::rates(40_000.0, 70_000.0, "documents/s"), &["0", "20 K", "40 K", "60 K"]);
        check(&Axis::ratio(0.01, 95.0, "excess"), &["0.01", "0.1", "1", "10", "100"]);
        check(&Axis::groups(&["10K".into(), "1M".into()], "size"), &["10K", "1M"]);
        let show = |at: f64| format!("{:.0} %", at.exp_m1() * 100.0);
        check(&Axis::changes(0.9f64.ln(), 0.0, "B", show), &["-10 %", "-8 %", "-6 %", "-4 %", "-2 %", "0 %"]);
        check(&Axis::bytes(1e9, "memory"), &["0 B", "256 MiB", "512 MiB", "768 MiB"]);
        check(&Axis::percentiles(20_000), &["50", "90", "99", "99.9", "99.99"]);
        check(&Axis::percentiles(10_000_000), &["50", "90", "99", "99.9", "99.99", "99.9999"]);
    }

    #[test]
    fn every_power_of_ten_has_the_same_width() {
        let axis = Axis::percentiles(10_000);
        for (percentile, share) in [(0.0, 0.0), (90.0, 0.25), (99.0, 0.5), (99.9, 0.75), (100.0, 1.0)] {
            assert!((axis.share(percentile) - share).abs() < 1e-9, "{percentile}");
        }
        let axis = Axis::latency(1.1e6, 80e6);
        assert!((axis.share(10e6) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn share_and_value_are_inverse() {
        for axis in [Axis::amount(10.0, ""), Axis::latency(1e3, 1e9), Axis::percentiles(1000)] {
            assert!((axis.share(axis.value(0.3)) - 0.3).abs() < 1e-9);
        }
    }
}
