//! Checks the conclusions on the load.

use plimsoll_measure::first_error::FirstError;

use super::*;

#[test]
fn the_work_of_an_operation_has_its_latency() {
    check(
        |run| {
            *insert(run) = Operation {
                count: 5_000,
                documents: 5_000_000,
                documents_per_s: 123_456.0,
                response_ns: latency(1_270_000, 3_100_000, 12_000_000),
                ..Operation::default()
            };
        },
        &[
            "insert: 5,000,000 documents in 5,000 operations were acknowledged, 123,456 documents/s. The median \
           response took 1.27 ms, p99 3.10 ms, the longest 12.0 ms.",
        ],
    );
}

#[test]
fn few_operations_have_no_percentile() {
    let few = |count, p50| {
        move |run: &mut Run| {
            let response_ns = Latency { count, p50, max: Some(12_000_000), ..Latency::default() };
            *insert(run) = Operation { count, rate_per_s: 5.0, response_ns, ..Operation::default() };
        }
    };
    let median = "insert: 900 operations were acknowledged, 5 operations/s. The median response took 1.00 ms, \
                  p99 – (needs 1,000 operations), the longest 12.0 ms.";
    check(few(900, Some(1_000_000)), &[median]);
    check(
        few(8, None),
        &["insert: 8 operations were acknowledged, 5 operations/s. The longest response took 12.0 ms."],
    );
}

#[test]
fn a_target_that_was_not_reached_is_named() {
    check(
        |run| {
            *insert(run) =
                Operation { due: 1_000, achieved: Some(0.95), skipped: 20, ..Operation::default() };
        },
        &[
            "insert: the target rate was not reached: 95 % of the 1,000 operations that became due were completed, \
             less than 99 %.",
            "insert: 20 overdue operations were given up, which breaks every objective.",
        ],
    );
    check(|run| insert(run).achieved = Some(0.99), &[]);
}

#[test]
fn errors_are_listed_by_class() {
    check(
        |run| {
            let errors = [("duplicate_key", 10), ("timeout", 2), ("unacknowledged", 5)];
            insert(run).errors = errors.map(|(name, count)| (name.to_owned(), count)).into();
            insert(run).document_errors = BTreeMap::from([("duplicate_key".into(), 100)]);
        },
        &["insert: 12 operations failed: 10 duplicate key, 2 timeout. 100 documents failed (duplicate key)."],
    );
}

#[test]
fn the_first_error_of_a_class_is_quoted_with_its_command() {
    let error = FirstError::new(121, "DocumentValidationFailure", "Document failed validation");
    check(
        |run| {
            let error = error.clone().of_command("{insert: \"c\"}");
            insert(run).first_errors = BTreeMap::from([("validation".to_owned(), error)]);
        },
        &[
            "insert: the first validation error was 121 DocumentValidationFailure: Document failed validation. The command \
           was {insert: \"c\"}.",
        ],
    );
}

#[test]
fn a_failed_expectation_has_its_measured_value() {
    let expectation = |value, reason: Option<&str>| Expectation {
        metric: "insert.response".into(),
        expression: "p(99)<50ms".into(),
        value,
        reason: reason.map(str::to_owned),
        ..Expectation::default()
    };
    check(
        |run| run.expectations = vec![expectation(Some(63e6), None), expectation(None, Some("n too small"))],
        &[
            "Expected insert.response p(99)<50ms, measured 63.0 ms.",
            "Expected insert.response p(99)<50ms, which is not known: n too small.",
        ],
    );
}

#[test]
fn a_percentile_that_failures_change_has_both_figures() {
    let operation = |failed: u64, p99: Option<u64>| {
        move |run: &mut Run| {
            let response_ns = latency(1_000_000, 41_000_000, 60_000_000);
            let all = Latency { count: response_ns.count + failed, p99, max: None, ..response_ns.clone() };
            let (count, rate_per_s) = (response_ns.count, 5.0);
            *insert(run) = Operation { count, rate_per_s, response_ns, ..Operation::default() };
            insert(run).response_with_failures_ns = Some(all);
        }
    };
    let count = latency(1, 1, 1).count;
    let sentence = |figures: &str| {
        let count = crate::units::exact(count);
        format!(
            "insert: {count} operations were acknowledged, 5 operations/s. The median response took 1.00 ms, p99 41.0 ms\
             {figures}, the longest 60.0 ms."
        )
    };
    check(operation(count / 4, None), &[&sentence(" (with failures: none, 20 % failed)")]);
    check(operation(count / 4, Some(55_000_000)), &[&sentence(" (with failures: 55.0 ms, 20 % failed)")]);
    check(operation(1, Some(41_000_300)), &[&sentence("")]);
}

#[test]
fn a_stall_that_the_mean_hides_is_named() {
    let spread = SecondsSpread { seconds: 60, min: 900.0, p1: 900.0, p50: 120_000.0, max: 130_000.0 };
    check(
        |run| insert(run).documents_in_a_second = Some(spread),
        &["insert: throughput stalled: the slowest second did 900 documents, the median second 120,000."],
    );
}

#[test]
fn waiting_before_sending_is_separate_from_service_time() {
    check(
        |run| {
            insert(run).response_ns = latency(1_000_000, 40_000_000, 50_000_000);
            insert(run).service_ns = latency(1_000_000, 4_000_000, 5_000_000);
        },
        &[
            "insert: operations queued: p99 is 40.0 ms from the moment they were due and 4.00 ms from the moment they \
           were sent.",
        ],
    );
}

#[test]
fn operations_of_a_service_are_called_requests() {
    check(
        |run| {
            run.answers = vec![Answers::default()];
            let errors = BTreeMap::from([("timeout".to_owned(), 2)]);
            let asked = Operation {
                count: 500,
                documents: 500,
                documents_per_s: 50.0,
                due: 1_000,
                achieved: Some(0.5),
                skipped: 1,
                errors,
                documents_in_a_second: Some(SecondsSpread {
                    seconds: 9,
                    min: 1.0,
                    p1: 1.0,
                    p50: 50.0,
                    max: 60.0,
                }),
                ..Operation::default()
            };
            run.operations = BTreeMap::from([("ask".to_owned(), asked)]);
        },
        &[
            "ask: 500 requests were acknowledged, 50 requests/s. The longest response took –.",
            "ask: the target rate was not reached: 50 % of the 1,000 requests that became due were completed, less than 99 %.",
            "ask: 1 overdue request was given up, which breaks every objective.",
            "ask: 2 requests failed (timeout).",
            "ask: throughput stalled: the slowest second did 1 requests, the median second 50.",
        ],
    );
}

#[test]
fn the_bottleneck_of_a_single_load_is_stated_as_a_possibility() {
    let bottleneck = |at_limit| Bottleneck { phase: "load".into(), at_limit, ..Bottleneck::default() };
    check(
        |run| {
            run.bottleneck = Some(bottleneck(vec![candidate("server CPU", "used by the server 1.95 cores")]))
        },
        &[
            "Phase load: bottleneck: perhaps server CPU (used by the server 1.95 cores), at its limit under load. \
           `plimsoll line` compares with a rate that holds.",
        ],
    );
    check(
        |run| run.bottleneck = Some(bottleneck(Vec::new())),
        &["Phase load: no bottleneck found; try more writers."],
    );
    check(
        |run| {
            let unchecked = vec![Unchecked { name: "disk".into(), reason: "not reported".into() }];
            run.phases = phase(|phase| phase.open = true);
            run.bottleneck = Some(Bottleneck { unchecked, ..bottleneck(Vec::new()) });
        },
        &["Phase load: no bottleneck found.", "Not checked: disk (not reported)."],
    );
    check(
        |run| {
            run.bottleneck =
                Some(Bottleneck { reason: Some("it ended early".into()), ..bottleneck(Vec::new()) })
        },
        &["Phase load: bottleneck not assessed: it ended early."],
    );
}
