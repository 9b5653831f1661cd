//! Compares the values read from the tools' files, and their summaries, with golden files.

use plimsoll_report::foreign::{Form, Of, Since, Source, Tool, summary};
use plimsoll_report::text::{Screen, Width};

use super::{FILES, foreign, operation};

/// The start of counting, and the covered operations, of each latency of an operation.
fn since(name: &str, of: &str) -> Vec<(Since, Of)> {
    let foreign = foreign(name);
    operation(&foreign, of).times.iter().map(|times| (times.since, times.of)).collect()
}

#[test]
fn each_form_is_recognised_with_its_start_of_counting() {
    let http = "http requests";
    for (name, tool, form, of, times) in [
        ("k6-summary.json", Tool::K6, Form::K6Summary, http, &[(Since::Sent, Of::All)][..]),
        ("k6-summary-export.json", Tool::K6, Form::K6SummaryExport, http, &[(Since::Sent, Of::All)]),
        ("k6-machine.json", Tool::K6, Form::K6MachineSummary, http, &[(Since::Sent, Of::All)]),
        ("k6-samples.json.gz", Tool::K6, Form::K6Samples, http, &[(Since::Sent, Of::All)]),
        ("k6-samples.json.gz", Tool::K6, Form::K6Samples, "custom_wait", &[(Since::Unknown, Of::All)]),
        ("wrk.txt", Tool::Wrk, Form::Text, http, &[(Since::Sent, Of::All)]),
        ("wrk-errors.txt", Tool::Wrk, Form::Text, http, &[(Since::Unknown, Of::All)]),
        ("wrk2-both.txt", Tool::Wrk2, Form::Text, http, &[(Since::Due, Of::All), (Since::Sent, Of::All)]),
        (
            "ycsb.txt",
            Tool::Ycsb,
            Form::Text,
            "READ",
            &[(Since::Due, Of::Successes), (Since::Sent, Of::Successes)],
        ),
    ] {
        let found = foreign(name);
        assert_eq!((found.tool, found.form), (tool, form), "{name}");
        assert_eq!(since(name, of), times, "{name}");
        let cautioned = found.notes.iter().any(|note| note.contains("coordinated omission"));
        let sent = found.operations.iter().flat_map(|it| &it.times).any(|times| times.since == Since::Sent);
        assert_eq!(cautioned, sent, "{name}");
    }
}

#[test]
fn the_machine_readable_summary_has_its_version_its_duration_and_no_thresholds() {
    let found = foreign("k6-machine.json");
    assert_eq!(found.version.as_deref(), Some("1.8.1"));
    assert!(found.duration_s.is_some_and(|seconds| (3.0..4.0).contains(&seconds)));
    let http = operation(&found, "http requests");
    assert_eq!((http.count, http.failed), (Some(27), Some(4)));
    assert!(http.rate_per_s.is_some_and(|rate| (8.0..9.0).contains(&rate)));
    assert!(http.times[0].ns.at(95.0) > http.times[0].ns.at(90.0), "{:?}", http.times);
    assert!(found.thresholds.is_empty());
    assert!(found.notes.iter().any(|note| note.contains("leaves thresholds out")), "{:?}", found.notes);
    assert_eq!(found.checks.len(), 3);
}

#[test]
fn samples_yield_requests_by_name_with_errors_and_a_histogram() {
    let found = foreign("k6-samples.json.gz");
    let names: Vec<_> = found.operations.iter().map(|it| (it.name.as_str(), it.count, it.failed)).collect();
    let missing = "GET http://127.0.0.1:18765/missing";
    assert_eq!(names[0], ("http requests", Some(27), Some(4)));
    assert!(names.contains(&(missing, Some(4), Some(4))) && names.contains(&("GET page", Some(14), Some(0))));
    assert_eq!(operation(&found, missing).errors["status 404"], 4);
    assert_eq!(operation(&found, "http requests").errors["status 404"], 4);
    let ns = &operation(&found, "GET page").times[0].ns;
    assert_eq!((ns.source, ns.histogram.as_ref().map(|it| it.count())), (Source::Samples, Some(14)));
    assert_eq!(found.started.as_deref(), Some("2026-11-21T15:55:12.244Z"));
}

#[test]
fn wrk_is_read_with_its_units() {
    let found = foreign("wrk.txt");
    let http = operation(&found, "http requests");
    assert_eq!((http.count, http.rate_per_s, http.failed), (Some(3912), Some(1303.63), Some(0)));
    let ns = &http.times[0].ns;
    assert_eq!((ns.mean, ns.max, ns.at(99.0)), (Some(3_210_000.0), Some(16_760_000.0), Some(10_470_000.0)));
    assert_eq!(
        (found.duration_s, found.title.as_deref()),
        (Some(3.0), Some("http://127.0.0.1:18765/small.txt"))
    );
    let errors = foreign("wrk-errors.txt");
    assert_eq!(operation(&errors, "http requests").failed, Some(1172));
}

#[test]
fn times_with_different_starts_have_separate_tables() {
    let text = summary(&foreign("wrk2-both.txt"), Screen::PIPE);
    let due = text.find("Response time, counted from when an operation was due").unwrap();
    let sent = text.find("Service time, counted from when it was sent: coordinated omission").unwrap();
    let (before, after) = text.split_at(sent);
    assert!(due < sent && before[due..].contains("1.39 s") && !before[due..].contains("48.6 ms"), "{text}");
    assert!(after.contains("48.6 ms") && !after.contains("1.39 s"), "{text}");
}

#[test]
fn a_summary_of_another_tool_is_at_most_a_hundred_columns_wide() {
    for name in FILES {
        let text = summary(&foreign(name), Screen::PIPE);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

#[test]
fn a_failed_threshold_comes_first_in_every_form_that_has_them() {
    for name in ["k6-summary.json", "k6-summary-export.json", "k6-samples.json.gz"] {
        let text = summary(&foreign(name), Screen::PIPE);
        let failed = "THRESHOLDS FAILED: ";
        assert!(text.lines().any(|line| line.starts_with(failed)), "{text}");
        for bullet in ["  • http_req_duration max<0.001\n", "  • http_req_failed rate<0.01\n"] {
            assert!(text.contains(bullet), "{text}");
        }
    }
}

#[test]
fn percentiles_that_too_few_values_support_are_marked() {
    let text = summary(&foreign("k6-summary.json"), Screen::PIPE);
    assert!(text.contains(" ?") && text.contains("fewer than ten values"), "{text}");
    let enough = summary(&foreign("wrk.txt"), Screen::PIPE);
    assert!(!enough.contains(" ?"), "{enough}");
}

#[test]
fn no_line_of_a_summary_is_wider_than_the_screen() {
    for (name, width) in FILES.iter().flat_map(|name| [60, 80, 100, 140].map(|width| (name, width))) {
        let text = summary(&foreign(name), Screen { width: Width(width), ..Screen::PIPE });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{name} at {width}: {line}");
        }
    }
}
