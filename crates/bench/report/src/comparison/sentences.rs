//! Writes the conclusions of a comparison.

use plimsoll_measure::comparison::sign_flip::{PAIRS_MAX, PAIRS_MIN};
use plimsoll_measure::comparison::{Better, Comparison, Metric, Noise, Unit, Verdict};

use super::failures::failures;
use super::numbers::{change, p};
use crate::units::{NONE, counted, or_dash};

/// The conclusions: failures and invalid runs first, then the primary metric, other metrics that differ, and notes.
pub fn conclusions(comparison: &Comparison) -> Vec<String> {
    let mut said = failures(comparison);
    said.extend(comparison.primary().map(|metric| sentence(metric, comparison)));
    let others = || comparison.metrics.iter().filter(|metric| !metric.primary);
    let is_called = |metric: &&Metric| matches!(metric.verdict, Verdict::Better | Verdict::Worse);
    said.extend(idle(comparison));
    said.extend(others().filter(is_called).map(|metric| sentence(metric, comparison)));
    let names = |verdict: Verdict| -> Vec<&str> {
        others().filter(|it| it.verdict == verdict).map(|it| it.words.as_str()).collect()
    };
    for (verdict, words) in
        [(Verdict::NoDifference, "no difference is shown in"), (Verdict::TooNoisy, "these are too noisy")]
    {
        let names = names(verdict);
        said.extend(
            (!names.is_empty()).then(|| format!("Of the other metrics {words}: {}.", names.join(", "))),
        );
    }
    let is_open = |metric: &&Metric| matches!(metric.verdict, Verdict::NoDifference | Verdict::TooNoisy);
    said.extend(others().filter(is_open).filter_map(obstacle));
    said.extend(correlated(comparison));
    said.extend(broken_promises(comparison));
    said.extend(comparison.notes.iter().map(|note| crate::prose::sentence(note)));
    said.extend(comparison.forced.iter().map(|why| format!("This comparison was forced: {}", forced(why))));
    said
}

/// The objection to a comparison that the user forced, without its advice.
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
            "B {}: {} {}; the change lies between {} ({p}, {pairs}).",
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
            "B has {ratio:.3} times the {} of A in two single runs. A ratio is not a verdict: a verdict needs at least \
             {PAIRS_MIN} pairs.",
            metric.words
        ),
        _ => format!("There is no verdict on {}: {reason}.", metric.words),
    }
}

/// Sides without operations. A comparison with such a side failed.
fn idle(comparison: &Comparison) -> Option<String> {
    let pairs = counted(comparison.pairs() as u64, "pair");
    let idle: Vec<String> = [("A", comparison.a.idle), ("B", comparison.b.idle)]
        .into_iter()
        .filter(|(_, runs)| *runs > 0)
        .map(|(name, runs)| format!("{name} did nothing in {runs} of {pairs}"))
        .collect();
    let said = "no operation was acknowledged, or no rate held. That is a failure without a verdict: fix the errors first.";
    (!idle.is_empty()).then(|| format!("{}: {said}", idle.join(", and ")))
}

fn reason(metric: &Metric) -> String {
    metric.reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default()
}

/// The comparative for a metric, such as `is faster` or `costs less`.
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
    let end = |ratio: Option<f64>| or_dash(ratio, |ratio| change(ratio - 1.0));
    format!("{} and {}", end(metric.low), end(metric.high))
}

/// The metrics whose neighbouring pairs resemble each other.
fn correlated(comparison: &Comparison) -> Option<String> {
    let found = |metric: &Metric| {
        let it = metric.correlation?;
        Some(format!("{} (correlation {:.2}, interval {:.1} times as wide)", metric.words, it.r, it.widened))
    };
    let found: Vec<String> = comparison.metrics.iter().filter_map(found).collect();
    (!found.is_empty()).then(|| {
        format!(
            "Neighbouring pairs are not independent in {}: the machine's speed drifted, so make each run longer, or use a quieter machine.",
            found.join(", ")
        )
    })
}

/// Sides that broke promises: their rates have little meaning.
fn broken_promises(comparison: &Comparison) -> Vec<String> {
    [("A", &comparison.a), ("B", &comparison.b)]
        .into_iter()
        .filter(|(_, side)| !side.kept)
        .map(|(name, _)| {
            format!(
                "A run of {name} lost, changed, duplicated or invented documents: its figures are those of a server that breaks \
                 its promises."
            )
        })
        .collect()
}

/// The drift of the machine by its calibrations; `None` without calibrations.
pub(super) fn noise(noise: &Noise) -> Option<String> {
    let drifts = [("null server", noise.null_server), ("ping", noise.ping)];
    let drifts: Vec<String> = drifts
        .into_iter()
        .filter_map(|(name, share)| {
            Some(format!("{name} ± {}", change(share?).trim_start_matches(['+', '±'])))
        })
        .collect();
    (!drifts.is_empty()).then(|| format!("Calibration drift during the loads: {}.", drifts.join(", ")))
}

/// The number of pairs that a new comparison needs. Adding pairs to this one because of its result would repeat the test, and
/// raise the error rate above one in a hundred.
pub(super) fn more(metric: &Metric, width: f64) -> String {
    let Some(needed) = metric.pairs_needed else { return String::new() };
    let (width, needed) = (change(width), needed as usize);
    let width = width.trim_start_matches('+');
    if needed > PAIRS_MAX {
        return format!(
            "; to narrow that to ± {width} would take about {needed} pairs, and no comparison takes more than {PAIRS_MAX}: make \
             each run longer, or use a quieter machine"
        );
    }
    format!("; a new comparison with about {needed} pairs would narrow that to ± {width}")
}

/// The pairs needed, for a table.
pub(super) fn pairs_needed(metric: &Metric) -> String {
    match metric.pairs_needed {
        None => NONE.to_owned(),
        Some(needed) if needed as usize > PAIRS_MAX => format!("> {PAIRS_MAX}"),
        Some(needed) => needed.to_string(),
    }
}

/// The reason why a difference in another metric was not shown.
pub(super) fn obstacle(metric: &Metric) -> Option<String> {
    let reason = metric.reason.as_ref()?;
    let enough = metric.pairs_needed.map(|pairs| match pairs as usize {
        many if many > PAIRS_MAX => {
            format!("; that would take {many} pairs, and no comparison takes more than {PAIRS_MAX}")
        }
        enough => format!("; that takes a new comparison with {enough} pairs"),
    });
    let enough = enough.unwrap_or_default();
    Some(crate::prose::sentence(&format!("{}: {reason}{enough}", metric.words)))
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::comparison::Correlation;

    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_advised_number_of_pairs_never_exceeds_the_limit() {
        let mut comparison = sample(10, 1.0, 0.03);
        for (needed, first, short) in [
            (200, "a new comparison with about 200 pairs would narrow that to ± 3.0 %", "200"),
            (201, "would take about 201 pairs, and no comparison takes more than 200", "> 200"),
        ] {
            comparison.metrics[0].pairs_needed = Some(needed);
            assert!(conclusions(&comparison)[0].contains(first), "{:?}", conclusions(&comparison));
            assert_eq!(pairs_needed(&comparison.metrics[0]), short);
        }
        let other = Metric { reason: Some("too many".into()), ..comparison.metrics[0].clone() };
        assert!(obstacle(&other).unwrap().contains("takes more than 200"));
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
        assert!(single.contains("0.500 times") && single.contains("not a verdict"), "{single}");
    }

    #[test]
    fn pairs_that_resemble_their_neighbours_are_one_sentence() {
        let mut comparison = sample(10, 1.0, 0.03);
        let count = |comparison: &Comparison| {
            conclusions(comparison).iter().filter(|it| it.starts_with("Neighbouring pairs")).count()
        };
        comparison.metrics.iter_mut().for_each(|metric| metric.correlation = None);
        assert_eq!(count(&comparison), 0);
        let correlation = Correlation { r: 0.523, p: 0.001, widened: 2.34 };
        comparison.metrics[..2].iter_mut().for_each(|metric| metric.correlation = Some(correlation));
        assert_eq!(count(&comparison), 1);
        let said = conclusions(&comparison).join(" ");
        assert!(said.contains("of insert (correlation 0.52, interval 2.3 times as wide), "), "{said}");
    }

    #[test]
    fn a_side_without_operations_is_reported_as_failed() {
        let mut comparison = sample(10, 1.0, 0.0);
        comparison.b.idle = 9;
        let said = conclusions(&comparison);
        assert!(said[1].starts_with("B did nothing in 9 of 10 pairs: no operation"), "{said:?}");
        assert!(said[1].contains("a failure without a verdict"), "{said:?}");
    }

    #[test]
    fn a_side_with_lost_documents_is_reported() {
        let mut comparison = sample(10, 1.2, 0.03);
        comparison.b.kept = false;
        let said = conclusions(&comparison);
        assert!(said.iter().any(|text| text.contains("A run of B lost, changed")), "{said:?}");
    }
}
