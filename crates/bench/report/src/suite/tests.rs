//! Tests the texts of a suite.

use plimsoll_measure::suite::{FORMAT, Kind, Measured, Planned, Reference, Row, Test};

use super::*;
use crate::layout::Width;
use crate::layout::tests::assert_fits;

/// Four tests of a stack, three times each. One of them hangs; the last one was interrupted in its third run.
pub(crate) fn sample() -> Suite {
    let tests: [(&str, [f64; 3]); 4] = [
        ("null", [955_000.0, 940_000.0, 961_000.0]),
        ("relaxed", [525_000.0, 530_000.0, 519_000.0]),
        ("<hangs>", [0.0; 3]),
        ("journaled", [163_007.0, 159_145.0, 170_000.0]),
    ];
    let mut suite = Suite {
        format: FORMAT,
        name: "write-cost".into(),
        title: "The cost of a write".into(),
        question: Some("What does each promise cost?".into()),
        started: "2026-03-22T16:36:59Z".into(),
        tests: tests.iter().map(|(name, _)| test(name)).collect(),
        ..Suite::default()
    };
    for repetition in 1..=3 {
        for (index, (name, rates)) in tests.iter().enumerate() {
            let number = (repetition - 1) * 4 + index as u32 + 1;
            let directory = format!("{number:03}-{name}-r{repetition}");
            let planned = Planned { number, test: (*name).into(), repetition, directory };
            let outcome = match (index, number) {
                (2, _) => Outcome::Hung,
                (_, 12) => Outcome::Interrupted,
                _ => Outcome::Completed,
            };
            suite.runs.push(planned.clone());
            suite.record(row(&planned, outcome, rates[repetition as usize - 1]));
        }
    }
    suite
}

fn test(name: &str) -> Test {
    Test {
        name: name.into(),
        what: "bulk-baseline".into(),
        settings: vec!["write_concern.w=1".into()],
        repetitions: 3,
        ..Test::default()
    }
}

fn row(planned: &Planned, outcome: Outcome, rate_per_s: f64) -> Row {
    let measured = Measured {
        unit: "documents".into(),
        rate_per_s,
        total: 95_487_000,
        p50_ns: Some(1_390_000),
        p99_ns: Some(4_000_000),
        lost: Some(0),
        client_cpu_us: Some(0.31),
        ..Measured::default()
    };
    Row {
        run: planned.number,
        test: planned.test.clone(),
        kind: Kind::Scenario,
        what: "bulk-baseline".into(),
        repetition: planned.repetition,
        outcome,
        from_ms: 1_774_197_419_960,
        to_ms: 1_774_198_024_811,
        measured: (outcome != Outcome::Hung).then_some(measured),
        exit: 0,
        directory: planned.directory.clone(),
        reason: (outcome == Outcome::Hung).then(|| "no progress for 30s, so it was ended".into()),
    }
}

#[test]
fn the_summary_is_the_cost_stack_with_its_floor_and_its_time_ranges() {
    let text = summary(&sample(), Some("plimsoll-runs/s"), Screen::PIPE);
    for part in [
        "The cost of a write",
        "11 of 12 runs",
        "NOT COMPLETE, 3 hung, 1 interrupted",
        "medians of the completed runs",
        "955,000",
        "940,000–961,000",
        "0.55",
        "−430,000",
        "0 of 3",
        "2 of 3",
        "floor",
        "ceiling",
        "The floor is journaled with 161,076 documents/s; the ceiling is null with 955,000, 5.93 times that.",
        "Largest drop: from relaxed to journaled: 69.3 % slower, added time 4.30 µs.",
        "<hangs>: hung: no progress for 30s",
        "1774197419960",
        "Page plimsoll-runs/s/suite.html Next plimsoll suite --resume plimsoll-runs/s",
    ] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_fits(|screen| summary(&sample(), Some("plimsoll-runs/s"), screen));
}

#[test]
fn the_last_step_of_the_stack_is_shown_even_if_another_costs_more() {
    let mut suite = sample();
    let said = |suite: &Suite| {
        let text = summary(suite, None, Screen::PIPE);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!said(&suite).contains("Last step"), "it is the costliest step, which the report names already");
    for number in [4, 8] {
        let planned = suite.runs[number - 1].clone();
        suite.record(row(&planned, Outcome::Completed, 420_000.0));
    }
    let text = said(&suite);
    assert!(text.contains("Largest drop: from null to relaxed: 45 % slower"), "{text}");
    assert!(text.contains("Last step: from relaxed to journaled: 20 % slower, added time 476 ns."), "{text}");
}

#[test]
fn columns_that_do_not_fit_are_omitted_and_no_name_is_cut() {
    let headings = |width| {
        let columns = tables::stack(&sample(), width).columns;
        columns.into_iter().map(|column| column.name.into_owned()).collect::<Vec<_>>().join(" ")
    };
    let all = "test completed documents/s lowest–highest × above change/s p99 lost extreme";
    assert_eq!(headings(Width(100)), all);
    assert_eq!(headings(Width(70)), "test completed documents/s × above p99 lost extreme");
    let mut suite = sample();
    suite.tests[3].name = "a-name-of-20-letters".into();
    suite.tests[3].reference = Some(Reference { rate_per_s: 318_290, of: "another machine".into() });
    assert!(summary(&suite, None, Screen::PIPE).contains("  a-name-of-20-letters  "));
}

#[test]
fn a_published_rate_is_shown_with_its_source() {
    let mut suite = sample();
    assert!(!summary(&suite, None, Screen::PIPE).contains("eference"), "there is none");
    let of = |rate_per_s| Some(Reference { rate_per_s, of: "published 2026-03; another machine".into() });
    (suite.tests[0].reference, suite.tests[3].reference) = (of(1_910_000), of(318_290));
    let text = summary(&suite, None, Screen::PIPE);
    assert!(text.contains("1,910,000") && text.contains("318,290"), "{text}");
    assert_fits(|screen| summary(&suite, None, screen));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Reference of null, journaled: published 2026-03; another machine."), "{words}");
    let html = page(&suite);
    assert!(
        html.contains("× reference") && html.contains("0.50") && html.contains("another machine"),
        "{html}"
    );
}

#[test]
fn the_page_draws_the_stack_links_to_the_runs_and_is_self_contained() {
    let html = page(&sample());
    for part in [
        "What does each promise cost?",
        "Cost stack, documents per second",
        "001-null-r1/run/report.html",
        "× 0.55, −430,000/s",
        "&lt;hangs&gt;",
        "not measured",
        "continue with <code>--resume</code>",
        "2026-03-22T16:36:59Z to 2026-03-22T16:47:04Z",
        "1774197419960 – 1774198024811",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<script") && !html.contains("http") && !html.contains("<hangs>"));
    assert_eq!(html.matches("<rect").count(), 3, "a bar for each test that was measured");
    assert!(!page(&Suite::default()).contains("<figure"), "there is nothing to draw");
}

#[test]
fn progress_messages_fit_the_terminal() {
    let suite = sample();
    let mut lines = heading(&suite, &suite.runs[4], Width::PIPE);
    assert!(lines[0].contains("[5/12] null, 2 of 3"), "{lines:?}");
    lines.push(progress("running", 20.0, (123_456, "operations"), 6_172.8, 2));
    assert!(
        lines[2]
            .contains("20.0 s: 123,456 operations, 6,173/s since the last check; no progress at 2 checks"),
        "{lines:?}"
    );
    let events = progress("fill", 20.0, (5, "events"), 0.5, 0);
    assert!(events.contains("20.0 s: 5 events, ") && !events.contains("operations"), "{events}");
    lines.push(events);
    lines.extend(ended(&suite.rows[0], Width::PIPE));
    let text = lines.join(" ");
    for part in
        ["COMPLETED", "955,000 documents/s", "p99 4.00 ms", "0 lost", "from=1774197419960 to=1774198024811"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
}
