//! Recomputes the figures of the concept pages, and checks that the tests named there exist.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_measure::histogram::{Histogram, supported};
use plimsoll_report::units::{exact, latency};

/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Checks that every computed row stands on the page.
#[track_caller]
fn check(page: &str, rows: &[String]) {
    let text = read(&format!("docs/concepts/{page}.md"));
    for row in rows {
        assert!(text.contains(row), "{page}.md should say: {row}");
    }
}

fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// A histogram of latencies in milliseconds with their counts.
fn histogram(counts: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    counts.iter().for_each(|(ms, count)| histogram.record_many(ms * MS, *count));
    histogram
}

fn mean(histogram: &Histogram) -> String {
    latency(histogram.mean().round() as u64)
}

fn at(histogram: &Histogram, percentile: f64) -> String {
    latency(histogram.supported_at(percentile).unwrap())
}

#[test]
fn the_figures_of_ten_thousand_requests_match_the_page() {
    let all = histogram(&[(12, 9_500), (450, 400), (3_800, 100)]);
    assert_eq!(all.count(), 10_000);
    // By hand: (9,500 × 12 + 400 × 450 + 100 × 3,800) ÷ 10,000. A histogram keeps three digits.
    assert!((all.mean() / 1e6 - 67.4).abs() < 0.07, "{}", all.mean());
    let exact_mean = 67.4e6;
    let near = all.count_up_to((exact_mean * 2.0) as u64) - all.count_up_to((exact_mean / 2.0) as u64);
    let calm = histogram(&[(12, 9_500), (450, 400)]);
    check(
        "averages",
        &[
            row(&["mean", &mean(&all)]),
            row(&["median", &at(&all, 50.0)]),
            row(&["p95", &at(&all, 95.0)]),
            row(&["p99", &at(&all, 99.0)]),
            row(&["p99.9", &at(&all, 99.9)]),
            row(&["longest", &latency(all.max())]),
            row(&["requests within a factor of two of the mean", &near.to_string()]),
            format!("without the standstill it would be {}", mean(&calm)),
        ],
    );
}

#[test]
fn the_error_of_averaged_percentiles_matches_the_page() {
    let mut seconds = vec![histogram(&[(12, 960), (450, 40)]); 9];
    seconds.push(histogram(&[(12, 860), (450, 40), (3_800, 100)]));
    let p99s: Vec<u64> = seconds.iter().map(|second| second.supported_at(99.0).unwrap()).collect();
    let mut all = Histogram::default();
    seconds.iter().for_each(|second| all.merge(second));
    assert_eq!(all, histogram(&[(12, 9_500), (450, 400), (3_800, 100)]), "the same requests as before");
    let mean_of_p99s = latency(p99s.iter().sum::<u64>() / 10);
    check(
        "averages",
        &[
            row(&["p99 of nine seconds", &latency(p99s[0])]),
            row(&["p99 of the tenth", &latency(p99s[9])]),
            row(&["their mean", &mean_of_p99s]),
            row(&["p99 of all", &at(&all, 99.0)]),
            format!("{mean_of_p99s} is not a percentile of anything"),
        ],
    );
}

#[test]
fn both_latencies_of_a_standstill_match_the_page() {
    let (rate_per_ms, length_ms, begins_ms, freeze_ms, connections) = (1, 20_000, 8_000, 1_400, 20);
    let (mut response, mut service) = (Histogram::default(), Histogram::default());
    let mut sent_into_it = 0;
    for due_ms in 0..length_ms * rate_per_ms {
        let is_frozen = (begins_ms..begins_ms + freeze_ms).contains(&due_ms);
        let done_ms = if is_frozen { begins_ms + freeze_ms } else { due_ms } + 1;
        // The connections take the first operations into the standstill; the others are sent after it.
        let sent_ms = if is_frozen && sent_into_it >= connections { done_ms - 1 } else { due_ms };
        sent_into_it += u64::from(is_frozen);
        response.record((done_ms - due_ms) * MS);
        service.record((done_ms - sent_ms) * MS);
    }
    let slow = |times: &Histogram| {
        format!("{} operations", exact(times.count() - times.count_up_to(100 * MS + MS / 2)))
    };
    let both =
        |name: &str, figure: fn(&Histogram) -> String| row(&[name, &figure(&response), &figure(&service)]);
    check(
        "coordinated-omission",
        &[
            both("median", |it| at(it, 50.0)),
            both("mean", mean),
            both("p99", |it| at(it, 99.0)),
            both("longest", |it| latency(it.max())),
            row(&["over 100 ms", &slow(&response), &slow(&service)]),
        ],
    );
    // The selftest requires the same of a real load.
    let expected_s = freeze_ms as f64 / 1e3 - length_ms as f64 / 1e3 * 0.01;
    assert!((response.at(99.0) as f64 / 1e9 / expected_s - 1.0).abs() < 0.01);
}

/// The time that `count` operations take at `per_s`.
fn lasting(count: u64, per_s: u64) -> String {
    let ms = count * 1_000 / per_s;
    match ms / 1_000 {
        0 => format!("{ms} ms"),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[test]
fn the_values_that_a_percentile_needs_match_the_page() {
    let least = |percentile: f64| (1..).find(|count| supported(*count, percentile)).unwrap();
    let percentiles = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];
    let rows = percentiles.map(|percentile| {
        let count = least(percentile);
        let name = format!("p{percentile}");
        row(&[&name, &exact(count), &lasting(count, 100), &lasting(count, 1_000)])
    });
    check("percentiles", &rows);
}

#[test]
fn the_spread_of_the_operations_beyond_a_p99_matches_the_page() {
    let beyond = |count: u64| {
        let (n, p) = (count as f64, 0.99_f64);
        let spread = (n * p * (1.0 - p)).sqrt();
        let spread = if spread < 10.0 { format!("± {spread:.1}") } else { format!("± {spread:.0}") };
        row(&[&exact(count), &exact((n * (1.0 - p)).round() as u64), &spread])
    };
    check("percentiles", &[1_000, 10_000, 100_000].map(beyond));
}

#[test]
fn measured_figures_on_the_pages_match_their_runs() {
    let kills = read("runs/2026-11-21-fifty-kills/README.md");
    for (profile, acknowledged, lost) in [("journaled", "3,811,000", "0"), ("relaxed", "5,328,800", "4,600")]
    {
        assert!(kills.contains(&format!("| {profile} | {acknowledged} | {lost} | {lost} | yes | 50 |")));
        check("acknowledgements", &[row(&[profile, acknowledged, lost])]);
    }
    let losses = read("runs/2026-11-26-power-loss/README.md");
    for (profile, acknowledged, lost) in [("journaled", "403,600", "0"), ("relaxed", "1,380,400", "899,000")]
    {
        assert!(losses.contains(&format!("| {profile} | {acknowledged} | {lost} | {lost} | yes | 5 |")));
        check("acknowledgements", &[row(&[profile, acknowledged, lost])]);
    }
    let strategies = read("runs/2026-11-21-write-strategies/README.md");
    let one_by_one = |documents: &str, forgotten: &str, promised: &str| {
        let begins = format!("| {documents} | one by one |");
        let line = strategies.lines().find(|line| line.starts_with(&begins)).unwrap();
        assert!(line.contains(forgotten) && line.contains(promised), "{line}");
        row(&[documents, forgotten, promised])
    };
    check(
        "acknowledgements",
        &[one_by_one("10 K", "13,815/s", "2,715/s"), one_by_one("100 K", "17,336/s", "2,373/s")],
    );
    let selftest = read("runs/2026-11-21-selftest/terminal.txt");
    assert!(
        selftest.contains("response p99 1.204 s (must be 1.200 s")
            && selftest.contains("service p99 0.09 ms")
    );
    assert!(selftest.contains("largest error 0.0891 %"));
    check("coordinated-omission", &["1.204 s of 1.200 s, and 0.09 ms".to_owned()]);
    check("percentiles", &["[0.0891 %]".to_owned()]);
    let baseline: serde_json::Value =
        serde_json::from_str(&read("runs/2026-11-21-telemetry-baseline/run.json")).unwrap();
    let steady_s = baseline["phases"][0]["warm_up"]["from_s"].as_f64().unwrap();
    check("steady-state", &[format!("was steady from {steady_s} s of its five minutes")]);
}

/// All Rust files below `directory` as one text.
fn sources(directory: &Path, text: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

#[test]
fn every_test_that_a_concept_page_names_exists() {
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    let mut named = 0;
    for entry in fs::read_dir(root().join("docs/concepts")).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        // Quoted words with four underscores or more are names of tests.
        let names = page.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() >= 4);
        for name in names {
            assert!(code.contains(&format!("fn {name}(")), "{}: there is no test {name}", path.display());
            named += 1;
        }
    }
    assert!(named >= 10, "only {named} names were found");
}
