//! Computes k6's own figures again from its samples of the same test.

use plimsoll_report::foreign::{Distribution, Foreign, Source, Values};

use super::foreign;

/// The rounding error of floats that are converted to milliseconds and back.
const ROUNDING: f64 = 1e-12;

#[track_caller]
fn same(what: &str, said: Option<f64>, computed: Option<f64>) {
    let Some(said) = said else { return };
    let computed =
        computed.unwrap_or_else(|| panic!("{what}: the summary has {said}, and nothing was computed"));
    assert!((said - computed).abs() <= said.abs() * ROUNDING, "{what}: {said} by k6, {computed} by us");
}

/// Compares every value of the summary; returns the number of compared percentiles.
#[track_caller]
fn compare(name: &str, said: &Distribution, computed: &Distribution) -> usize {
    assert_eq!(computed.source, Source::Samples, "{name}");
    assert_eq!(said.count, computed.count, "{name}");
    for (what, said, computed) in
        [("mean", said.mean, computed.mean), ("min", said.min, computed.min), ("max", said.max, computed.max)]
    {
        same(&format!("{name} {what}"), said, computed);
    }
    for known in &said.percentiles {
        same(&format!("{name} p{}", known.percentile), Some(known.value), computed.at(known.percentile));
    }
    said.percentiles.len()
}

fn both() -> (Foreign, Foreign) {
    (foreign("k6-summary.json"), foreign("k6-samples.json.gz"))
}

#[test]
fn every_percentile_of_k6_follows_exactly_from_its_samples() {
    let (summary, samples) = both();
    let mut percentiles = 0;
    for said in &summary.operations {
        let computed = super::operation(&samples, &said.name);
        assert_eq!((said.count, said.failed), (computed.count, computed.failed), "{}", said.name);
        assert_eq!(said.times.len(), computed.times.len());
        for (said_times, times) in said.times.iter().zip(&computed.times) {
            assert_eq!((said_times.since, said_times.of), (times.since, times.of));
            percentiles += compare(&said.name, &said_times.ns, &times.ns);
        }
    }
    for said in &summary.metrics {
        let computed = samples.metrics.iter().find(|metric| metric.name == said.name);
        let computed = computed.unwrap_or_else(|| panic!("{} is not computed", said.name));
        assert_eq!(said.unit, computed.unit, "{}", said.name);
        match (&said.values, &computed.values) {
            (Values::Trend(said_trend), Values::Trend(trend)) => {
                percentiles += compare(&said.name, said_trend, trend);
            }
            (Values::Counter { count, .. }, Values::Counter { count: computed, .. }) => {
                assert_eq!(count, computed, "{}", said.name);
            }
            (said_values, values) => assert_eq!(said_values, values, "{}", said.name),
        }
    }
    assert!(percentiles >= 60, "only {percentiles} percentiles were compared");
}

#[test]
fn thresholds_judged_from_samples_agree_with_k6() {
    let (summary, samples) = both();
    let of_metrics = summary.thresholds.iter().filter(|threshold| !threshold.metric.contains('{'));
    let mut failed = 0;
    for said in of_metrics {
        let same = |it: &&plimsoll_report::foreign::Threshold| {
            (&it.metric, &it.expression) == (&said.metric, &said.expression)
        };
        let judged = samples.thresholds.iter().find(same).unwrap_or_else(|| panic!("{said:?} is missing"));
        assert_eq!(judged.held, said.held, "{said:?}");
        self::same(&said.expression, said.value, judged.value);
        failed += usize::from(said.held == Some(false));
    }
    assert_eq!(failed, 2);
}

#[test]
fn checks_and_dropped_iterations_are_the_same_in_all_forms() {
    let (summary, samples) = both();
    let sorted = |foreign: &Foreign| {
        let mut checks = foreign.checks.clone();
        checks.sort_by(|one, other| (&one.group, &one.name).cmp(&(&other.group, &other.name)));
        checks
    };
    assert_eq!(sorted(&summary), sorted(&samples));
    assert_eq!(sorted(&summary), sorted(&foreign("k6-summary-export.json")));
    for foreign in [&summary, &samples] {
        assert!(foreign.notes.iter().any(|note| note.contains("had no free VU")), "{:?}", foreign.notes);
    }
}

#[test]
fn the_legacy_form_agrees_once_its_thresholds_are_inverted() {
    let (summary, older) = (foreign("k6-summary.json"), foreign("k6-summary-export.json"));
    assert_eq!(summary.thresholds, older.thresholds);
    let http = "http requests";
    let [new, old] = [&summary, &older].map(|foreign| super::operation(foreign, http).clone());
    assert_eq!(new, old);
    let seconds = [&summary, &older].map(|foreign| foreign.duration_s.unwrap());
    assert!((seconds[0] - seconds[1]).abs() < 1e-6, "{seconds:?}");
}

#[test]
fn seconds_add_up_to_the_whole() {
    let samples = foreign("k6-samples.json.gz");
    for operation in samples.operations.iter().filter(|it| !it.name.contains('{')) {
        let lines = samples.seconds.iter().filter_map(|second| second.operations.get(&operation.name));
        let (count, failed) =
            lines.fold((0, 0), |(count, failed), it| (count + it.count, failed + it.failed));
        if count > 0 {
            assert_eq!(Some(count), operation.count, "{}", operation.name);
            assert_eq!(failed, operation.failed.unwrap_or(0), "{}", operation.name);
        }
    }
    assert!(samples.seconds.len() >= 3, "{:?}", samples.seconds);
}
