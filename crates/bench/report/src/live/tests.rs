//! Checks the live view, event by event.

use std::collections::BTreeMap;

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::interval::{IntervalLine, Spread};

use super::*;

fn second(number: u64, operations: &[&str]) -> Event {
    let spread = Spread { p50: Some(1_200_000), p99: Some(3_100_000), max: Some(12_000_000) };
    let errors = BTreeMap::from([("timeout".to_owned(), 2)]);
    let line =
        IntervalLine { count: 120, documents: 12_000, response: spread, errors, ..IntervalLine::default() };
    Event::Interval(Interval {
        from_ns: number * SECOND_NS,
        length_ns: SECOND_NS,
        operations: operations.iter().map(|name| ((*name).to_owned(), line.clone())).collect(),
        worker_cpu: vec![0.2, 0.45],
        unreachable_ns: 0,
    })
}

#[test]
fn a_silent_server_is_named_with_its_silence() {
    let mut live = Live::new(Width(80), Kind::Plain);
    live.on(&phase(None, None));
    let silent = |number: u64, unreachable_ns: u64| {
        let operations = BTreeMap::from([("insert".to_owned(), IntervalLine::default())]);
        let (from_ns, length_ns, worker_cpu) = (number * SECOND_NS, SECOND_NS, Vec::new());
        Event::Interval(Interval { from_ns, length_ns, operations, worker_cpu, unreachable_ns })
    };
    let lines = [
        "    1 s   0 docs/s   0 ops/s   errors 0",
        "    2 s   server unreachable for 1 s   0 docs/s   0 ops/s   errors 0",
    ];
    check(&mut live, &silent(0, SECOND_NS / 2), &lines[..1], None);
    check(&mut live, &silent(1, SECOND_NS * 3 / 2), &lines[1..], None);
}

#[test]
fn a_server_that_keeps_its_connections_and_answers_nothing_is_named_with_its_silence() {
    let mut live = Live::new(Width(80), Kind::Plain);
    live.on(&phase(None, None));
    let second = |number: u64, due, count, skipped| {
        let line = IntervalLine { due, count, documents: count, skipped, ..IntervalLine::default() };
        let operations = BTreeMap::from([("insert".to_owned(), line)]);
        let (from_ns, length_ns, worker_cpu) = (number * SECOND_NS, SECOND_NS, Vec::new());
        Event::Interval(Interval { from_ns, length_ns, operations, worker_cpu, unreachable_ns: 0 })
    };
    for (event, line) in [
        (second(0, 9, 5, 0), "    1 s   5 docs/s   5 ops/s   errors 0"),
        (second(1, 0, 0, 0), "    2 s   no answer for 1 s   0 docs/s   0 ops/s   errors 0"),
        (second(2, 2, 0, 2), "    3 s   no answer for 2 s   0 docs/s   0 ops/s   errors 0"),
        (second(3, 0, 4, 0), "    4 s   4 docs/s   4 ops/s   errors 0"),
        (second(4, 0, 0, 0), "    5 s   0 docs/s   0 ops/s   errors 0"),
        // A closed load, whose operations become due when they end.
        (second(5, 90, 90, 0), "    6 s   90 docs/s   90 ops/s   errors 0"),
        (second(6, 0, 0, 0), "    7 s   0 docs/s   0 ops/s   errors 0"),
        (second(7, 0, 0, 0), "    8 s   0 docs/s   0 ops/s   errors 0"),
        (second(8, 0, 0, 0), "    9 s   no answer for 3 s   0 docs/s   0 ops/s   errors 0"),
    ] {
        check(&mut live, &event, &[line], None);
    }
}

fn phase(duration_s: Option<f64>, documents: Option<u64>) -> Event {
    Event::Phase { at_ns: 0, name: "load".into(), duration_s, documents }
}

#[track_caller]
fn check(live: &mut Live, event: &Event, lines: &[&str], status: Option<&str>) {
    let update = live.on(event);
    assert_eq!(update.lines_to_print, lines);
    assert_eq!(update.status.as_deref(), status);
}

#[test]
fn a_terminal_shows_the_last_second_and_the_progress_by_documents() {
    let mut live = Live::new(Width(120), Kind::Terminal);
    check(&mut live, &phase(None, Some(48_000)), &["Phase load"], None);
    check(
        &mut live,
        &second(0, &["insert"]),
        &[],
        Some(
            "load   █████░░░░░░░░░░░░░░░ 25 %   12,000 of 48,000 documents\n\
             12,000 docs/s   120 ops/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms   errors 2   busiest worker 45 %",
        ),
    );
    check(&mut live, &Event::Finished(Box::default()), &[], None);
}

#[test]
fn a_terminal_shows_each_operation_and_the_progress_by_time() {
    let mut live = Live::new(Width(120), Kind::Terminal);
    live.on(&phase(Some(2.0), None));
    let status = "load   ██████████░░░░░░░░░░ 50 %   1.00 s of 2.00 s\n\
                  24,000 docs/s   240 ops/s   errors 4   busiest worker 45 %\n\
                  find     12,000 docs/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms\n\
                  insert   12,000 docs/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms";
    check(&mut live, &second(0, &["insert", "find"]), &[], Some(status));
}

#[test]
fn a_narrow_terminal_gets_more_lines_and_none_too_long() {
    let mut live = Live::new(Width(40), Kind::Terminal);
    live.on(&phase(Some(60.0), None));
    let status = live.on(&second(0, &["insert"])).status.unwrap();
    assert!(status.lines().all(|line| line.chars().count() <= 40), "{status}");
    assert!(status.contains("busiest worker 45 %"), "{status}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let long = "many words ".repeat(20);
    let spread = Latency { count: 9000, p99: Some(3_100_000), ..Latency::default() };
    let probe =
        Probe { stage: Stage::Climb, reasons: vec![long.clone()], response_ns: spread, ..Probe::default() };
    let (id, scenario, server) = ("1".into(), "s".into(), "here".into());
    let events = [
        Event::Started { id, scenario, title: long.clone(), server, wall_ms: 0, sends: Sends::Operations },
        Event::Phase { at_ns: 0, name: long.clone(), duration_s: Some(9.0), documents: None },
        second(0, &["insert", "find", "update"]),
        Event::Note { at_ns: 0, text: long.clone() },
        Event::Fault { at_ns: 0, phase_ns: None, name: "kill".into(), undone: false, error: Some(long) },
        Event::Probed(probe),
        Event::Auditing { read: 1, expected: 1_000_000_000 },
    ];
    for width in [60, 80, 100, 140] {
        let mut live = Live::new(Width(width), Kind::Terminal);
        for event in &events {
            let update = live.on(event);
            let lines = update.lines_to_print.iter().map(String::as_str);
            for line in lines.chain(update.status.iter().flat_map(|status| status.lines())) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn a_phase_without_a_name_is_announced_by_its_number() {
    let mut live = Live::new(Width(80), Kind::Plain);
    let event = Event::Phase { at_ns: 0, name: "phase 1".into(), duration_s: None, documents: None };
    check(&mut live, &event, &["Phase 1"], None);
}

#[test]
fn a_plain_reader_gets_a_line_a_second_and_later_every_ten() {
    let mut live = Live::new(Width(80), Kind::Plain);
    live.on(&phase(None, None));
    let line = "    1 s   12,000 docs/s   120 ops/s   p50 1.20 ms   p99 3.10 ms   max 12.0 ms   errors 2   \
                busiest worker 45 %";
    check(&mut live, &second(0, &["insert"]), &[line], None);
    let shown: Vec<u64> =
        (1..60).filter(|at| !live.on(&second(*at, &["insert"])).lines_to_print.is_empty()).collect();
    assert_eq!(shown, (1..20).chain([29, 39, 49, 59]).collect::<Vec<_>>());
}

#[test]
fn percentiles_over_several_seconds_are_bounds_and_not_averages() {
    let mut live = Live::new(Width(80), Kind::Plain);
    live.on(&phase(None, None));
    let lines: Vec<_> = (0..30).flat_map(|at| live.on(&second(at, &["insert"])).lines_to_print).collect();
    assert_eq!(
        lines.last().unwrap(),
        "   30 s   12,000 docs/s   120 ops/s   p50 ≤ 1.20 ms   p99 ≤ 3.10 ms   max 12.0 ms   errors 20   \
         busiest worker 45 %"
    );
}

#[test]
fn a_search_prints_a_line_a_probe() {
    let unit = "documents/s".to_owned();
    let trying = Event::Trying { at_ns: 0, stage: Stage::Climb, rate: 12_000.0, window_s: 4.0, unit };
    let response_ns = Latency { count: 9000, p99: Some(3_100_000), ..Latency::default() };
    let probe = Probe {
        stage: Stage::Climb,
        rate: 12_000.0,
        achieved_ratio: 1.0,
        excess: Some(0.0123),
        held: true,
        response_ns,
        ..Probe::default()
    };
    let held = "climb        12,000 docs/s   p99     3.10 ms   excess  0.0123   held";
    let failed = "climb        12,000 docs/s   p99     3.10 ms   excess    2.50   failed: p99 is not < 3 ms";
    let reasons = vec!["p99 is not < 3 ms".to_owned()];
    for kind in [Kind::Plain, Kind::Terminal] {
        let mut live = Live::new(Width(120), kind);
        live.on(&trying);
        let update = live.on(&second(0, &["insert"]));
        assert!(update.lines_to_print.is_empty());
        assert_eq!(update.status.is_some_and(|it| it.contains("25 %")), kind == Kind::Terminal);
        check(&mut live, &Event::Probed(probe.clone()), &[held], None);
        live.on(&trying);
        let lost = Probe { excess: Some(2.5), held: false, reasons: reasons.clone(), ..probe.clone() };
        check(&mut live, &Event::Probed(lost), &[failed], None);
    }
}

#[test]
fn a_probe_of_few_operations_shows_its_median_and_an_older_one_its_achieved_rate() {
    let few = Latency { count: 752, p50: Some(3_100_000), ..Latency::default() };
    let probe = Probe { stage: Stage::Reference, rate: 12_000.0, excess: Some(0.0), ..Probe::default() };
    let probe = Probe { achieved_ratio: 1.0, held: true, response_ns: few, ..probe };
    let mut live = Live::new(Width(120), Kind::Plain);
    let line = "reference    12,000 per second   p50     3.10 ms   excess       0   held";
    check(&mut live, &Event::Probed(probe.clone()), &[line], None);
    let older = Probe {
        stage: Stage::Climb,
        response_ns: Latency { count: 9000, p99: Some(3_100_000), ..Latency::default() },
        excess: None,
        ..probe
    };
    let line = "climb        12,000 per second   achieved  100 %   p99     3.10 ms   held";
    check(&mut live, &Event::Probed(older), &[line], None);
}

#[test]
fn a_plain_reader_hears_of_every_quarter_of_an_audit() {
    let mut live = Live::new(Width(80), Kind::Plain);
    let events = [10, 25, 26, 50, 99, 100].map(|read| Event::Auditing { read, expected: 100 });
    let printed: Vec<_> = events.iter().map(|event| live.on(event).lines_to_print.len()).collect();
    assert_eq!(printed, [0, 1, 0, 1, 1, 1]);
    assert_eq!(live.on(&Event::Auditing { read: 0, expected: 0 }), Update::default());
}

#[test]
fn notes_are_printed_and_leave_the_status_alone() {
    let mut live = Live::new(Width(80), Kind::Terminal);
    live.on(&Event::Auditing { read: 1, expected: 2 });
    let status = "reading back   ██████████░░░░░░░░░░ 50 %   1 of 2 documents";
    check(&mut live, &Event::Note { at_ns: 0, text: "said".into() }, &["said"], Some(status));
}

fn started(sends: Sends) -> Event {
    let (id, scenario, title, server) = ("1".into(), "s".into(), "t".into(), "here".into());
    Event::Started { id, scenario, title, server, wall_ms: 0, sends }
}

fn requests(number: u64, length_ns: u64, count: u64, documents: u64) -> Event {
    let line = IntervalLine { count, documents, ..IntervalLine::default() };
    Event::Interval(Interval {
        from_ns: number * SECOND_NS,
        length_ns,
        operations: BTreeMap::from([("ask".to_owned(), line)]),
        worker_cpu: Vec::new(),
        unreachable_ns: 0,
    })
}

#[test]
fn documents_are_shown_beside_requests_only_if_there_are_more() {
    let mut live = Live::new(Width(100), Kind::Plain);
    live.on(&started(Sends::Requests));
    live.on(&phase(None, Some(500)));
    check(&mut live, &requests(0, SECOND_NS, 250, 250), &["    1 s   250 requests/s   errors 0"], None);
    let lines = ["    2 s   2,500 docs/s   25 requests/s   errors 0"];
    check(&mut live, &requests(1, SECOND_NS, 25, 2_500), &lines, None);
    let mut live = Live::new(Width(100), Kind::Terminal);
    live.on(&started(Sends::Requests));
    live.on(&phase(None, Some(500)));
    let status = live.on(&requests(0, SECOND_NS, 250, 250)).status.unwrap();
    assert!(status.contains("250 of 500 requests") && !status.contains("doc"), "{status}");
}

#[test]
fn a_partial_second_is_not_scaled_up() {
    let mut live = Live::new(Width(100), Kind::Plain);
    live.on(&phase(None, None));
    live.on(&second(0, &["insert"]));
    let lines = ["  1.1 s   3 docs   3 ops   in 50.0 ms   errors 0"];
    check(&mut live, &requests(1, SECOND_NS / 20, 3, 3), &lines, None);
}

#[test]
fn a_phase_begins_with_its_load_and_not_with_its_announcement() {
    let mut live = Live::new(Width(100), Kind::Plain);
    live.on(&phase(None, None));
    let line = "    1 s   7 docs/s   7 ops/s   errors 0";
    check(&mut live, &requests(40, SECOND_NS, 7, 7), &[line], None);
}

#[test]
fn a_fault_is_timed_from_the_start_of_its_phase() {
    let mut live = Live::new(Width(100), Kind::Plain);
    live.on(&phase(None, None));
    let (at_ns, name) = (9 * SECOND_NS, "kill".to_owned());
    let fault = |phase_ns| Event::Fault { at_ns, phase_ns, name: name.clone(), undone: false, error: None };
    check(&mut live, &fault(Some(5 * SECOND_NS)), &["  5.0 s   kill begins"], None);
    check(&mut live, &fault(None), &["  9.0 s   kill begins"], None);
}

#[test]
fn a_bar_is_full_only_when_everything_is_done() {
    assert_eq!(bar(0.999), "███████████████████░ 99 %");
    assert_eq!(bar(1.2), "████████████████████ 100 %");
    assert_eq!(count_bar("load", 0, 0, "document"), "load   ░░░░░░░░░░░░░░░░░░░░ 0 %   0 of 0 documents");
}
