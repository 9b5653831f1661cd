//! Formats the numbers of a comparison.

use plimsoll_measure::comparison::Unit;

use crate::units::{bytes, exact_rate, latency, micros};

/// A share as a change, with its sign: `+4.8 %`, `−12 %`.
pub fn change(share: f64) -> String {
    let percent = share * 100.0;
    let digits = if percent.abs() >= 99.95 { 0 } else { 1 };
    let text = format!("{:.digits$}", percent.abs());
    let sign = match percent {
        _ if text.trim_matches(['0', '.']).is_empty() => "±",
        less if less < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{text} %")
}

/// The logarithm of a ratio as a change.
pub(super) fn log_change(log: f64) -> String {
    change(log.exp_m1())
}

/// A p-value, never rounded down to zero.
pub(crate) fn p(p: f64) -> String {
    match p {
        tiny if tiny < 0.0005 => "< 0.001".to_owned(),
        small if small < 0.1 => format!("{small:.3}"),
        other => format!("{other:.2}"),
    }
}

/// A value of a metric in its unit.
pub(crate) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::DocumentsPerS | Unit::OperationsPerS | Unit::RequestsPerS => exact_rate(value),
        Unit::Ns => latency(value.round() as u64),
        Unit::Us => micros(value),
        Unit::Bytes => bytes(value.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_its_sign_and_only_significant_digits() {
        for (share, text) in [
            (0.048, "+4.8 %"),
            (-0.1, "−10.0 %"),
            (0.0, "±0.0 %"),
            (-0.0001, "±0.0 %"),
            (1.5, "+150 %"),
            (0.9999, "+100 %"),
        ] {
            assert_eq!(change(share), text, "{share}");
        }
    }

    #[test]
    fn a_size_has_one_unit() {
        for (size, text) in [(12.4, "12 B"), (1_010.0, "1,010 B"), (1_034.0, "1.01 KiB")] {
            assert_eq!(value(Unit::Bytes, size), text);
        }
    }

    #[test]
    fn a_p_value_is_never_rounded_to_zero() {
        for (value, text) in [(0.00001, "< 0.001"), (0.001_95, "0.002"), (0.62, "0.62"), (1.0, "1.00")] {
            assert_eq!(p(value), text);
        }
    }
}
