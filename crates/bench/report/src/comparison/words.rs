//! What a comparison says, in plain sentences.

use plimsoll_measure::comparison::{Better, Comparison, Metric, Noise, Unit, Verdict};

use super::needed::{held_up, more};
use super::unsound::unsound;
use crate::units::{NONE, bytes, counted, exact_rate, latency, short};

/// Pairs that a verdict needs.
const PAIRS_MIN: usize = plimsoll_measure::comparison::sign_flip::PAIRS_MIN;

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

/// A logarithm of a ratio as a change.
pub(super) fn log_change(log: f64) -> String {
    change(log.exp_m1())
}

/// A p, never rounded down to zero.
pub(crate) fn p(p: f64) -> String {
    match p {
        tiny if tiny < 0.0005 => "< 0.001".to_owned(),
        small if small < 0.1 => format!("{small:.3}"),
        other => format!("{other:.2}"),
    }
}

/// A value of a metric.
pub(crate) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::DocumentsPerS | Unit::OperationsPerS | Unit::RequestsPerS => exact_rate(value),
        Unit::Ns => latency(value.round() as u64),
        Unit::Us => latency((value * 1000.0).round() as u64),
        Unit::Bytes if value < 1024.0 => format!("{} B", short(value.round())),
        Unit::Bytes => bytes(value.round() as u64),
    }
}

/// What it all says: first what the figures are worth, where that is less than they seem; then the primary metric, the others
/// that differ, and everything that has to be known of it.
pub fn conclusions(comparison: &Comparison) -> Vec<String> {
    let mut said = unsound(comparison);
    said.extend(comparison.primary().map(|metric| sentence(metric, comparison)));
    let others = || comparison.metrics.iter().filter(|metric| !metric.primary);
    let is_called = |metric: &&Metric| matches!(metric.verdict, Verdict::Better | Verdict::Worse);
    said.extend(idle(comparison));
    said.extend(others().filter(is_called).map(|metric| sentence(metric, comparison)));
    let names = |verdict: Verdict| -> Vec<&str> {
        others().filter(|it| it.verdict == verdict).map(|it| it.words.as_str()).collect()
    };
    for (verdict, words) in
        [(Verdict::NoDifference, "no difference is shown in"), (Verdict::TooNoisy, "too noisy to tell are")]
    {
        let names = names(verdict);
        said.extend(
            (!names.is_empty()).then(|| format!("Of the other metrics {words}: {}.", names.join(", "))),
        );
    }
    let is_open = |metric: &&Metric| matches!(metric.verdict, Verdict::NoDifference | Verdict::TooNoisy);
    said.extend(others().filter(is_open).filter_map(held_up));
    said.extend(kept(comparison));
    said.extend(comparison.notes.iter().map(|note| crate::prose::sentence(note)));
    said.extend(comparison.forced.iter().map(|why| format!("This comparison was forced: {}", forced(why))));
    said
}

/// The reason without the advice, which was not taken.
fn forced(why: &str) -> String {
    let first = why.lines().next().unwrap_or_default();
    let keys = why.lines().filter_map(|line| line.strip_prefix("  "));
    let lines: Vec<&str> = std::iter::once(first).chain(keys).collect();
    crate::prose::sentence(&lines.join(" ").replace(": A", " A"))
}

fn sentence(metric: &Metric, comparison: &Comparison) -> String {
    let pairs = counted(comparison.pairs() as u64, "pair");
    let p = metric.p_adjusted.map(p).unwrap_or_default();
    let p = if p.starts_with('<') { format!("p {p}") } else { format!("p = {p}") };
    match metric.verdict {
        Verdict::Better | Verdict::Worse => format!(
            "B {}: {} {}, by the same test between {} ({p}, {pairs}).",
            comparative(metric),
            metric.words,
            moved(metric),
            interval(metric),
        ),
        Verdict::NoDifference => format!(
            "No difference is shown in {}: the change lies between {} ({p}, {pairs}){}{}.",
            metric.words,
            interval(metric),
            reason(metric),
            more(metric, comparison.settings.min_effect),
        ),
        Verdict::TooNoisy => format!(
            "Too noisy to tell whether there is a difference in {}: the change lies between {} ({p}, {pairs}){}{}.",
            metric.words,
            interval(metric),
            reason(metric),
            more(metric, plimsoll_measure::comparison::TOO_WIDE),
        ),
        Verdict::NoVerdict => no_verdict(metric, comparison),
    }
}

fn no_verdict(metric: &Metric, comparison: &Comparison) -> String {
    let reason = metric.reason.clone().unwrap_or_default();
    match metric.ratio {
        Some(ratio) if comparison.pairs() == 1 => format!(
            "Of two single runs, B has {ratio:.3} times the {} of A. That is a ratio and no verdict: one takes {PAIRS_MIN} \
             pairs at least.",
            metric.words
        ),
        _ => format!("There is no verdict on {}: {reason}.", metric.words),
    }
}

/// A side that did nothing is not compared, and nobody may take that for passed.
fn idle(comparison: &Comparison) -> Option<String> {
    let pairs = counted(comparison.pairs() as u64, "pair");
    let idle: Vec<String> = [("A", comparison.a.idle), ("B", comparison.b.idle)]
        .into_iter()
        .filter(|(_, runs)| *runs > 0)
        .map(|(name, runs)| format!("{name} did nothing in {runs} of {pairs}"))
        .collect();
    let said = "no operation was acknowledged, or no rate held. That is a failure and no verdict: see to the errors first.";
    (!idle.is_empty()).then(|| format!("{}: {said}", idle.join(", and ")))
}

fn reason(metric: &Metric) -> String {
    metric.reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default()
}

/// `is faster`, `costs less` and their like.
pub(super) const fn comparative(metric: &Metric) -> &'static str {
    match (metric.unit, matches!(metric.verdict, Verdict::Better)) {
        (Unit::Us | Unit::Bytes, true) => "costs less",
        (Unit::Us | Unit::Bytes, false) => "costs more",
        (_, true) => "is faster",
        (_, false) => "is slower",
    }
}

fn moved(metric: &Metric) -> String {
    let share = metric.change().unwrap_or(0.0);
    let word = if share > 0.0 { "more" } else { "less" };
    let (is_rate, amount) = (matches!(metric.better, Better::More), change(share));
    let amount = amount.trim_start_matches(['+', '−', '±']);
    match (is_rate, share > 0.0) {
        (true, _) => format!("{amount} {word}"),
        (false, true) => format!("{amount} higher"),
        (false, false) => format!("{amount} lower"),
    }
}

/// `−11.5 % and −8.0 %`.
fn interval(metric: &Metric) -> String {
    let end = |ratio: Option<f64>| ratio.map_or_else(|| NONE.to_owned(), |ratio| change(ratio - 1.0));
    format!("{} and {}", end(metric.low), end(metric.high))
}

/// A side that lost something is no better, whatever it did a second.
fn kept(comparison: &Comparison) -> Vec<String> {
    [("A", &comparison.a), ("B", &comparison.b)]
        .into_iter()
        .filter(|(_, side)| !side.kept)
        .map(|(name, _)| {
            format!(
                "In a run of {name} documents are missing, changed, doubled or there that must not be: its figures are those of \
                 a server that does not keep what it promises."
            )
        })
        .collect()
}

/// How much the machine moved by itself, in words; nothing where nobody looked.
pub(super) fn noise(noise: &Noise) -> Option<String> {
    let told = [("the null server", noise.null_server), ("the ping", noise.ping)];
    let told: Vec<String> = told
        .into_iter()
        .filter_map(|(name, share)| {
            Some(format!("{name} by ± {}", change(share?).trim_start_matches(['+', '±'])))
        })
        .collect();
    (!told.is_empty()).then(|| format!("From before each load to after it moved {}.", told.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_change_has_its_sign_and_no_idle_digits() {
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
    fn a_p_is_never_rounded_to_nothing() {
        for (value, text) in [(0.00001, "< 0.001"), (0.001_95, "0.002"), (0.62, "0.62"), (1.0, "1.00")] {
            assert_eq!(p(value), text);
        }
    }

    #[test]
    fn each_verdict_is_a_sentence() {
        let first = |pairs, factor, noise| conclusions(&sample(pairs, factor, noise)).remove(0);
        let slower = first(10, 0.9, 0.03);
        assert!(slower.starts_with("B is slower: documents per second of insert 9.8 % less"), "{slower}");
        assert!(slower.contains("p = 0.002, 10 pairs"), "{slower}");
        let none = first(10, 1.0, 0.03);
        assert!(none.starts_with("No difference is shown"), "{none}");
        assert!(none.contains("a new comparison with about"), "{none}");
        let noisy = first(10, 1.0, 0.6);
        assert!(noisy.starts_with("Too noisy") && noisy.contains("± 20.0 %"), "{noisy}");
        let single = first(1, 0.5, 0.0);
        assert!(single.contains("0.500 times") && single.contains("no verdict"), "{single}");
    }

    #[test]
    fn a_side_that_did_nothing_is_said_to_have_failed() {
        let mut comparison = sample(10, 1.0, 0.0);
        comparison.b.idle = 9;
        let said = conclusions(&comparison);
        assert!(said[1].starts_with("B did nothing in 9 of 10 pairs: no operation"), "{said:?}");
        assert!(said[1].contains("a failure and no verdict"), "{said:?}");
    }

    #[test]
    fn a_side_that_lost_documents_is_said_to_have() {
        let mut comparison = sample(10, 1.2, 0.03);
        comparison.b.kept = false;
        let said = conclusions(&comparison);
        assert!(said.iter().any(|text| text.contains("In a run of B documents are missing")), "{said:?}");
    }
}
