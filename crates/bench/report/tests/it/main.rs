//! Checks pages and summaries of whole runs, through the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;
#[path = "../../examples/sample_page/sample.rs"]
mod sample;

use std::collections::BTreeMap;

use plimsoll_measure::run::Run;
use plimsoll_report::page::Page;
use plimsoll_report::text::{Screen, Style, Width};
use plimsoll_report::{page, summary};

/// One of many small charts.
const SMALL: &str = r#"<figure class="small">"#;

#[test]
fn an_hour_of_three_operations_fits_into_a_megabyte() {
    let sample = sample::load(3600, &["insert", "find", "update"]);
    let html = page(&sample.page());
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    assert_eq!(html.matches("<figure>").count(), 1 + 6 + 3);
    assert_eq!(html.matches(SMALL).count(), 17);
}

#[test]
fn a_page_needs_nothing_but_itself() {
    for sample in [sample::load(60, &["insert"]), sample::search()] {
        let html = page(&sample.page());
        for outside in ["<script", "http://", "https://", "src=", "url(", "@import", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}

#[test]
fn text_of_the_user_is_escaped() {
    let mut sample = sample::search();
    let evil = "<img onerror=x>\"&";
    sample.run.scenario.title = evil.into();
    sample.run.reasons = vec![evil.into()];
    sample.run.conclusions = vec![evil.into()];
    sample.run.operations =
        sample.run.operations.into_values().map(|operation| (evil.to_owned(), operation)).collect();
    if let Some(line) = &mut sample.run.line {
        line.objective = vec![format!("{evil} < 5 ms")];
        line.probes.iter_mut().for_each(|probe| probe.reasons = vec![evil.into()]);
    }
    let html = page(&sample.page());
    assert!(!html.contains("<img"));
    assert!(html.contains("&lt;img onerror=x&gt;&quot;&amp;"));
}

#[test]
fn every_chart_has_a_name_read_aloud_and_a_caption() {
    let html = page(&sample::load(120, &["insert", "find"]).page());
    let figures = html.matches("<figure").count();
    assert_eq!(html.matches("<figcaption>").count(), figures);
    assert_eq!(html.matches(r#"<svg role="img" aria-label=""#).count(), figures);
    assert_eq!(html.matches("<details>").count(), figures);
}

#[test]
fn the_load_line_its_interval_and_its_objective_stand_on_the_page() {
    let html = page(&sample::search().page());
    for words in [
        "18,640",
        "90\u{a0}% interval 17,950 to 19,210, while p99 response &lt;\u{a0}50\u{a0}ms and no errors",
        "p99 response near the line",
        "load line 18,640",
        "objective: p99 response &lt; 50 ms",
    ] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn every_judged_trial_has_a_mark_on_each_chart_of_the_search() {
    let sample = sample::search();
    let probes = &sample.run.line.as_ref().unwrap().probes;
    let judged = probes.iter().filter(|probe| probe.excess.is_some());
    let html = page(&sample.page());
    assert_eq!(html.matches("\nexcess ").count(), judged.clone().count());
    for name in ["p50", "p99", "max"] {
        assert_eq!(html.matches(&format!("\n{name} ")).count(), judged.clone().count(), "{name}");
    }
    let failed = judged.filter(|probe| !probe.held).count();
    assert_eq!(html.matches("failed: ").count(), failed);
    assert!(html.contains("Excess over the objective against the rate"));
}

/// The load lines in `runs/` are brackets: the search of that time tried rates until both ends were confirmed.
#[test]
fn older_load_lines_have_a_page_and_a_summary_in_their_own_words() {
    for name in ["2026-11-21-first-load-line", "2026-11-22-telemetry-batch-line", "2026-11-22-telemetry-line"]
    {
        let path = format!("{}/../../../runs/{name}/run.json", env!("CARGO_MANIFEST_DIR"));
        let mut run: Run = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        run.conclusions = plimsoll_report::conclusions(&run);
        let text = summary(&run, None, Screen::PIPE).split_whitespace().collect::<Vec<_>>().join(" ");
        for words in
            ["/s, not confirmed", " confirm ", "was found, but not confirmed, to hold", "It lies between"]
        {
            assert!(text.contains(words), "{name}: {words}: {text}");
        }
        let distributions = BTreeMap::new();
        let html = page(&Page { run: &run, intervals: &[], server: &[], distributions: &distributions });
        assert!(
            html.contains("not confirmed; between ") && html.contains("p99 response at the line"),
            "{name}"
        );
        assert!(html.contains("Response time against the rate") && !html.contains("Excess over"), "{name}");
    }
}

#[test]
fn only_reported_counters_are_drawn_and_the_others_are_listed() {
    let mut sample = sample::load(120, &["insert"]);
    let html = page(&sample.page());
    let zero = "waiting for tickets (for a read ticket), flow control, operations (updates, deletes).";
    assert!(html.contains(&format!("Zero throughout</strong>: {zero}")), "{html}");
    assert!(html.contains("Not reported</strong>: replication lag."));
    for sample in &mut sample.server {
        (sample.write_tickets_out, sample.read_tickets_out, sample.write_tickets_max) = (None, None, None);
        sample.cpu_ns = None;
    }
    let fewer = page(&sample.page());
    assert_eq!(fewer.matches(SMALL).count(), html.matches(SMALL).count() - 2);
    assert!(fewer.contains("Not reported</strong>: CPU, tickets in use, replication lag."), "{fewer}");
}

#[test]
fn phases_faults_and_checkpoints_stand_on_every_chart_over_time() {
    let html = page(&sample::broken().page());
    let over_time = 1 + 1 + html.matches(SMALL).count();
    assert_eq!(html.matches(r#"class="mark-line part""#).count(), 2 * over_time);
    assert_eq!(html.matches(r#"class="mark-line fault""#).count(), 2 * over_time);
    assert!(html.contains(">kill over</text>") && html.contains("▸ kill over"));
    let html = page(&sample::load(120, &["insert"]).page());
    let over_time = 1 + 2 + html.matches(SMALL).count();
    assert_eq!(html.matches(r#"<rect class="checkpoint-band""#).count(), 2 * over_time);
}

#[test]
fn candidates_are_listed_with_the_unchecked_ones() {
    let html = page(&sample::search().page());
    for words in ["Possible bottlenecks", "departs", "unmoved", "not checked: not reported", "23 %"] {
        assert!(html.contains(words), "{words}");
    }
    let text = summary(&sample::search().run, None, Screen::PIPE);
    assert!(text.contains("bottleneck    server CPU, WiredTiger cache\n"), "{text}");
    assert!(text.contains("not checked   replication lag\n"), "{text}");
}

#[test]
fn a_law_of_scalability_is_drawn_with_its_points_and_its_peak() {
    let html = page(&sample::ladder().page());
    assert_eq!(html.matches(r#"<circle class="ring""#).count(), 6 + 1, "the points and the legend");
    assert!(
        html.contains("beyond the measured range") && html.contains("predicted maximum: 12,332 documents/s")
    );
}

#[test]
fn an_empty_run_still_has_a_page_and_a_summary() {
    let (run, distributions) = (Run::default(), BTreeMap::new());
    let html = page(&Page { run: &run, intervals: &[], server: &[], distributions: &distributions });
    assert!(html.contains("INVALID") && html.contains("not reported"));
    assert!(!html.contains("<figure"));
    assert!(summary(&run, None, Screen::PIPE).contains("INVALID"));
}

#[test]
fn closed_arrivals_show_one_latency_and_broken_promises_come_first() {
    let html = page(&sample::broken().page());
    assert!(html.contains("Response time of insert") && !html.contains("Service time of insert"));
    let [lost, interrupted] =
        ["acknowledged documents are gone", "was interrupted"].map(|words| html.find(words));
    assert!(lost.is_some() && lost < interrupted);
}

#[test]
fn the_same_run_gives_the_same_page() {
    assert_eq!(page(&sample::search().page()), page(&sample::search().page()));
}

#[test]
fn no_line_of_a_summary_is_wider_than_the_screen() {
    let mut sample = sample::search();
    let long = "word ".repeat(60);
    sample.run.scenario.title = long.clone();
    sample.run.conclusions = vec![long.clone(), "x".repeat(300)];
    sample.run.operations =
        sample.run.operations.into_values().map(|operation| (long.clone(), operation)).collect();
    if let Some(integrity) = &mut sample.run.integrity {
        integrity.write_concern = long.clone();
        (integrity.acknowledged, integrity.lost) = (100_000_000_000, 99_999_999_999);
        (integrity.rejected, integrity.unknown_present, integrity.foreign) = (1 << 40, 1 << 40, 1 << 40);
    }
    for width in [60, 80, 100, 140] {
        let screen = Screen { width: Width(width), ..Screen::PIPE };
        for run in
            [&sample.run, &sample::ladder().run, &sample::broken().run, &sample::load(20, &["a", "b"]).run]
        {
            for line in summary(run, Some("plimsoll-runs/a"), screen).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn a_narrow_summary_has_every_number_of_a_wide_one() {
    let run = sample::search().run;
    let at = |width| summary(&run, None, Screen { width: Width(width), ..Screen::PIPE });
    let narrow = at(60);
    for number in at(100).split_whitespace().filter(|word| word.ends_with(|c: char| c.is_ascii_digit())) {
        assert!(narrow.contains(number), "{number}: {narrow}");
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let sample = sample::search();
    let coloured = summary(&sample.run, None, Screen { style: Style::Colour, ..Screen::PIPE });
    let bare: String = coloured
        .split('\u{1b}')
        .map(|part| {
            part.split_once('m').filter(|(code, _)| code.starts_with('[')).map_or(part, |(_, rest)| rest)
        })
        .collect();
    assert_eq!(bare, summary(&sample.run, None, Screen::PIPE));
}
