//! Formats numbers for people: three digits of sizes, every digit of counts.

pub use plimsoll_measure::count::exact;
use plimsoll_measure::histogram::{Latency, supported};
use plimsoll_measure::run::{Operation, Run};

/// The placeholder for a value that the server does not report.
pub const NOT_REPORTED: &str = "not reported";
/// The placeholder for a percentile that too few values support.
pub const N_TOO_SMALL: &str = "n too small";
/// The placeholder for a value that was not measured.
pub const NONE: &str = "–";

const TIMES: [(f64, &str); 5] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (60e9, "min")];
const SIZES: [(f64, &str); 5] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
];
const COUNTS: [(f64, &str); 4] = [(1.0, ""), (1e3, "K"), (1e6, "M"), (1e9, "G")];

/// The unit of counts and of rates of a run: documents of a database, or requests to a service that carry one document each.
pub fn counted_in(run: &Run) -> (&'static str, &'static str) {
    let single = run.operations.values().all(|operation| operation.documents <= operation.count);
    if !run.answers.is_empty() && single { ("requests", "requests/s") } else { ("documents", "documents/s") }
}

/// The names of the operations of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// `operation` or `request`.
    pub one: &'static str,
    /// Its plural.
    pub many: &'static str,
    /// With its article.
    pub each: &'static str,
    /// The unit of its rate.
    pub rate: &'static str,
}

/// The names of the operations of a run: a service gets requests.
pub fn sent_in(run: &Run) -> Sent {
    if run.answers.is_empty() {
        Sent { one: "operation", many: "operations", each: "an operation", rate: "operations/s" }
    } else {
        Sent { one: "request", many: "requests", each: "a request", rate: "requests/s" }
    }
}

/// A latency in nanoseconds with three significant digits: `850 ns`, `1.27 ms`, `2.50 min`.
pub fn latency(ns: u64) -> String {
    scaled(ns as f64, &TIMES)
}

/// A percentile (or the largest value) of `of` in nanoseconds: `n too small` with too few values, a dash without any.
pub fn percentile(ns: Option<u64>, of: &Latency) -> String {
    match ns {
        Some(ns) => latency(ns),
        None if of.count > 0 => N_TOO_SMALL.to_owned(),
        None => NONE.to_owned(),
    }
}

/// A percentile of `of`, which may count failed operations as infinitely slow: `none` if it lies among them.
pub fn ranked(ns: Option<u64>, rank: f64, of: &Latency) -> String {
    match ns {
        None if supported(of.count, rank) => "none".to_owned(),
        ns => percentile(ns, of),
    }
}

/// The 99th percentile with failures, if failed operations change it: ` (with failures: none, 1.2 % failed)`.
pub fn p99_with_failures(it: &Operation) -> String {
    let Some(all) = &it.response_with_failures_ns else { return String::new() };
    let p99 = ranked(all.p99, 99.0, all);
    if p99 == percentile(it.response_ns.p99, &it.response_ns) {
        return String::new();
    }
    let share = (all.count - it.response_ns.count) as f64 / all.count as f64;
    let failed = if it.skipped > 0 { "failed or were skipped" } else { "failed" };
    format!(" (with failures: {p99}, {} {failed})", percent(share))
}

/// A percentile with its name: `p99 1.27 ms`, or the count that it needs: `p99 – (needs 1,000 operations)`. `sent` names the
/// counted values in the plural.
pub fn named_percentile(quantile: Quantile, of: &Latency, sent: &str) -> String {
    let name = quantile.name();
    match quantile.of(of) {
        None if of.count > 0 => {
            format!("{name} {NONE} (needs {} {sent})", exact(quantile.count_min()))
        }
        ns => format!("{name} {}", percentile(ns, of)),
    }
}

/// A percentile that sentences name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
}

impl Quantile {
    const fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }

    const fn of(self, latency: &Latency) -> Option<u64> {
        match self {
            Self::P50 => latency.p50,
            Self::P99 => latency.p99,
        }
    }

    /// The smallest number of values that supports it: then ten values lie beyond it.
    const fn count_min(self) -> u64 {
        match self {
            Self::P50 => 20,
            Self::P99 => 1_000,
        }
    }
}

/// A size in bytes with three significant digits or more and binary units: `512 B`, `1,010 B`, `1.50 GiB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, &SIZES)
}

/// A number with three significant digits: `163 K`, `1.20 M`, `12.5`; whole numbers below 1000 stay whole.
pub fn short(number: f64) -> String {
    match number {
        small if small.abs() < 1000.0 && small.fract() == 0.0 => format!("{small:.0}"),
        other => scaled(other, &COUNTS),
    }
}

/// A number a second with three significant digits: `163 K/s`.
pub fn rate(per_s: f64) -> String {
    format!("{}/s", short(per_s))
}

/// A rate in every digit that counts: whole above 100 (`12,000`), three significant digits below (`12.5`).
pub fn exact_rate(per_s: f64) -> String {
    if per_s.round() >= 100.0 || per_s.fract() == 0.0 { exact(whole(per_s)) } else { three_digits(per_s) }
}

/// A share, 0 to 1, as a percentage. It is cut and never rounded up: 99.96 % must not read as 100 %.
pub fn percent(share: f64) -> String {
    // A product such as 0.999 × 1000 falls a hair under its whole number in floating point.
    let tenths = (share * 1000.0 + 1e-9).floor();
    match tenths {
        none if none < 1.0 && share > 0.0 => "< 0.1 %".to_owned(),
        round if round % 10.0 == 0.0 => format!("{:.0} %", round / 10.0),
        other => format!("{:.1} %", other / 10.0),
    }
}

/// A duration in seconds: `850 ms`, `8.10 s`, `3 min 20 s`, `1 h 5 min`.
pub fn duration(seconds: f64) -> String {
    let whole = whole(seconds);
    match whole {
        0 if seconds <= 0.0 => "0 s".to_owned(),
        0..120 => latency((seconds * 1e9).max(0.0) as u64),
        120..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A value that a server may leave out.
pub fn reported<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOT_REPORTED.to_owned(), show)
}

/// A value, or a dash if it is unknown.
pub(crate) fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), show)
}

/// Microseconds in the unit that fits.
pub(crate) fn micros(us: f64) -> String {
    latency((us * 1000.0).round().max(0.0) as u64)
}

/// A count with its noun: `1 document`, `2,000 documents`.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", exact(count), if count == 1 { "" } else { "s" })
}

/// A number with three significant digits or more and no unit: `1.27`, `12.7`, `127`, `120,986`.
pub fn three_digits(number: f64) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    match number.abs() {
        size if size >= 999.5 => format!("{sign}{}", exact(whole(size))),
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A ratio to a limit of one with three significant digits: `0.0123`, `0.850`, `12.3`. Below one it is cut and never rounded up:
/// 0.9996 must not read as 1.
pub(crate) fn ratio(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        tiny if tiny < 1e-3 => "< 0.001".to_owned(),
        below if below < 1.0 => {
            let digits = (2.0 - below.log10().floor()) as usize;
            let unit = 10f64.powi(digits as i32);
            format!("{:.digits$}", (below * unit + 1e-9).floor() / unit)
        }
        above => three_digits(above),
    }
}

/// A number under one with three significant digits, however small: `0.0267`, `0.00077`, `1.2e-7`.
pub(crate) fn small(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        tiny if tiny < 1e-6 => format!("{number:.1e}"),
        size => {
            let digits = (2.0 - size.log10().floor()).max(0.0) as usize;
            tidy(&format!("{number:.digits$}"))
        }
    }
}

/// An exact number without trailing zeros: `1.00 ms` as `1 ms`.
pub(crate) fn tidy(text: &str) -> String {
    let (number, unit) = text.split_once(' ').map_or((text, None), |(number, unit)| (number, Some(unit)));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    unit.map_or_else(|| number.to_owned(), |unit| format!("{number} {unit}"))
}

/// The nearest whole number that is not negative.
fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

/// `value` in the largest of `units` (factor, name) in which it is at least 1 after rounding.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let fits = |(factor, _): &&(f64, &str)| value.abs() / factor >= 0.9995;
    let (factor, name) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    // Minutes begin late, because 75 s reads better than 1.25 min.
    let (factor, name) = if *name == "min" && value < 119.95e9 { (&1e9, &"s") } else { (factor, name) };
    let number = value / factor;
    let is_short = *factor == 1.0 && number.fract() == 0.0 && number.abs() < 1000.0;
    let text = if is_short { format!("{number:.0}") } else { three_digits(number) };
    if name.is_empty() { text } else { format!("{text} {name}") }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::histogram::supported;

    use super::*;

    #[test]
    fn a_latency_has_three_significant_digits_and_the_unit_that_fits() {
        for (ns, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_600, "1.00 ms"),
            (1_274_000, "1.27 ms"),
            (9_996_000, "10.0 ms"),
            (99_960_000, "100 ms"),
            (1_400_000_000, "1.40 s"),
            (75_000_000_000, "75.0 s"),
            (150_000_000_000, "2.50 min"),
            (3_600_000_000_000, "60.0 min"),
        ] {
            assert_eq!(latency(ns), text, "{ns} ns");
        }
    }

    #[test]
    fn an_absent_percentile_differs_from_an_empty_measurement() {
        let some = Latency { count: 5, ..Latency::default() };
        assert_eq!(percentile(Some(1_000_000), &some), "1.00 ms");
        assert_eq!(percentile(None, &some), "n too small");
        assert_eq!(percentile(None, &Latency::default()), "–");
        assert_eq!(named_percentile(Quantile::P99, &some, "operations"), "p99 – (needs 1,000 operations)");
        assert_eq!(named_percentile(Quantile::P99, &Latency::default(), "operations"), "p99 –");
        let known = Latency { p99: Some(1_000_000), ..some };
        assert_eq!(named_percentile(Quantile::P99, &known, "operations"), "p99 1.00 ms");
    }

    #[test]
    fn the_count_that_a_percentile_needs_is_the_one_that_supports_it() {
        for (quantile, percentile) in [(Quantile::P50, 50.0), (Quantile::P99, 99.0)] {
            assert!(supported(quantile.count_min(), percentile), "{quantile:?}");
            assert!(!supported(quantile.count_min() - 1, percentile), "{quantile:?}");
        }
    }

    #[test]
    fn a_large_number_has_separators() {
        for (number, text) in
            [(1.274, "1.27"), (127.4, "127"), (999.4, "999"), (120_986.0, "120,986"), (-1e3, "-1,000")]
        {
            assert_eq!(three_digits(number), text);
        }
        for (size, text) in [(999, "999 B"), (1_000, "1,000 B"), (1_010, "1,010 B"), (1_024, "1.00 KiB")] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn counts_keep_every_digit_and_sizes_keep_three() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_000_000, "1,000,000")] {
            assert_eq!(exact(count), text);
        }
        assert_eq!(rate(163_210.0), "163 K/s");
        assert_eq!(short(1_000.0), "1.00 K");
        assert_eq!(short(12.0), "12");
        assert_eq!(exact_rate(163_210.4), "163,210");
        assert_eq!(exact_rate(12.52), "12.5");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1_610_612_736), "1.50 GiB");
    }

    #[test]
    fn a_small_number_keeps_its_significant_digits() {
        for (number, text) in
            [(0.0, "0"), (0.0267, "0.0267"), (0.000_770_4, "0.00077"), (1.24e-7, "1.2e-7"), (1.0, "1")]
        {
            assert_eq!(small(number), text, "{number}");
        }
    }

    #[test]
    fn a_ratio_to_a_limit_is_never_rounded_up_to_it() {
        for (number, text) in [
            (0.0, "0"),
            (0.000_4, "< 0.001"),
            (0.001, "0.00100"),
            (0.012_345, "0.0123"),
            (0.85, "0.850"),
            (0.999_6, "0.999"),
            (1.0, "1.00"),
            (12.34, "12.3"),
            (1_234.0, "1,234"),
        ] {
            assert_eq!(ratio(number), text, "{number}");
        }
    }

    #[test]
    fn a_share_is_never_rounded_up_to_the_whole() {
        for (share, text) in [
            (1.0, "100 %"),
            (0.99996, "99.9 %"),
            (0.999, "99.9 %"),
            (0.0, "0 %"),
            (0.0001, "< 0.1 %"),
            (0.455, "45.5 %"),
        ] {
            assert_eq!(percent(share), text, "{share}");
        }
    }

    #[test]
    fn a_duration_reads_like_speech() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (0.85, "850 ms"),
            (8.1, "8.10 s"),
            (90.0, "90.0 s"),
            (200.0, "3 min 20 s"),
            (3900.0, "1 h 5 min"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds} s");
        }
    }

    #[test]
    fn an_unreported_value_is_named_as_such() {
        assert_eq!(reported(None, bytes), "not reported");
        assert_eq!(reported(Some(1024), bytes), "1.00 KiB");
        assert_eq!(counted(1, "document"), "1 document");
        assert_eq!(counted(2_000, "document"), "2,000 documents");
    }

    #[test]
    fn a_run_of_a_service_counts_requests_unless_they_carry_several_documents() {
        let run = |documents, answers| {
            let operation = Operation { count: 5, documents, ..Default::default() };
            Run { operations: [("a".to_owned(), operation)].into(), answers, ..Run::default() }
        };
        let answers = vec![plimsoll_measure::run::Answers::default()];
        assert_eq!(counted_in(&run(5, answers.clone())).1, "requests/s");
        assert_eq!(counted_in(&run(500, answers)).1, "documents/s");
        assert_eq!(counted_in(&run(5, Vec::new())).1, "documents/s");
    }
}
