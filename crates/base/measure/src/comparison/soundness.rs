//! Finds failures and invalid runs, which count regardless of the figures.

use std::collections::BTreeMap;

use super::differences::Subject;
use super::form::Broken;
use super::sign_flip::{ALPHA, weigh};
use crate::run::{Run, Verdict};

/// Whether a run did nothing useful.
pub(crate) fn is_idle(run: &Run) -> bool {
    match run.command.as_str() {
        "line" => run.line.as_ref().is_none_or(|line| line.rate.is_none()),
        "ladder" => run.ladder.as_ref().is_none_or(|it| it.rungs.iter().all(|rung| rung.throughput <= 0.0)),
        _ => run.operations.values().all(|operation| operation.count == 0),
    }
}

/// Whether every acknowledged document of a run exists.
pub(crate) fn is_kept(run: &Run) -> bool {
    run.integrity.as_ref().is_none_or(|integrity| integrity.holds())
}

/// Runs with the verdict `invalid`.
pub(super) fn invalid(runs: &[Subject<'_>]) -> u32 {
    runs.iter().filter(|it| it.run.verdict == Verdict::Invalid).count() as u32
}

/// Operations that failed in all runs of a side.
pub(super) fn failed(runs: &[Subject<'_>]) -> u64 {
    runs.iter().flat_map(|it| it.run.operations.values()).flat_map(|it| it.errors.values()).sum()
}

/// Whether operations failed in B but none in A, or B is shown to fail a larger share of its operations. Shares are compared,
/// because a faster side sends more. A search exceeds the load line on purpose, so its failures do not count.
pub(super) fn fails_more(a: &[Subject<'_>], b: &[Subject<'_>], seed: u64) -> bool {
    let is_search = |it: &Subject<'_>| matches!(it.run.command.as_str(), "line" | "ladder");
    if a.iter().chain(b).any(is_search) {
        return false;
    }
    let share = |run: &Run| {
        let sent: u64 = run.operations.values().map(|it| it.count).sum();
        let failed: u64 = run.operations.values().flat_map(|it| it.errors.values()).sum();
        failed as f64 / (sent + failed).max(1) as f64
    };
    (failed(a) == 0 && failed(b) > 0) || is_shown(a, b, seed, share)
}

/// Whether B is shown to be invalid in more runs. A single invalid run shows nothing, because a busy machine causes one now
/// and then. Runs that the tool limited do not count against B.
pub(super) fn invalid_more(a: &[Subject<'_>], b: &[Subject<'_>], seed: u64) -> bool {
    is_shown(a, b, seed, |run| f64::from(u8::from(run.verdict == Verdict::Invalid && !run.client.limited)))
}

/// Whether a figure that may be zero is shown to be larger in B. The test is that of the metrics, on differences instead of
/// ratios.
fn is_shown(a: &[Subject<'_>], b: &[Subject<'_>], seed: u64, of: impl Fn(&Run) -> f64) -> bool {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| of(b.run) - of(a.run)).collect();
    weigh(&differences, seed).is_some_and(|evidence| evidence.centre > 0.0 && evidence.p <= ALPHA)
}

/// Expectations that failed in some run, with the number of runs on each side.
pub(super) fn broken(a: &[Subject<'_>], b: &[Subject<'_>]) -> Vec<Broken> {
    let mut counts: BTreeMap<(&str, &str), [u32; 2]> = BTreeMap::new();
    for (side, runs) in [a, b].into_iter().enumerate() {
        for (metric, expression) in runs.iter().flat_map(|it| unheld(it.run)) {
            counts.entry((metric, expression)).or_default()[side] += 1;
        }
    }
    let entry = |((metric, expression), [a, b]): ((&str, &str), [u32; 2])| Broken {
        metric: metric.to_owned(),
        expression: expression.to_owned(),
        a,
        b,
    };
    counts.into_iter().map(entry).collect()
}

fn unheld(run: &Run) -> impl Iterator<Item = (&str, &str)> {
    // The share of failed operations has its own test, because one stray error is not a finding.
    let unheld = run.expectations.iter().filter(|it| !it.held && !it.by_default);
    unheld.map(|it| (it.metric.as_str(), it.expression.as_str()))
}

/// A note if only some runs were calibrated. Then the runs were measured differently, and the machine's drift is unknown for
/// the uncalibrated runs.
pub(super) fn uncalibrated(a: &[Subject<'_>], b: &[Subject<'_>]) -> Option<String> {
    let calibrated = |runs: &[Subject<'_>]| {
        runs.iter().filter(|it| !it.run.client.calibration_null_per_s.is_empty()).count()
    };
    let (in_a, in_b) = (calibrated(a), calibrated(b));
    (in_a != in_b).then(|| {
        format!(
            "{in_a} of {} runs of A and {in_b} of {} of B were calibrated (--no-calibration skips it): the runs were measured \
             differently, and the machine's drift is unknown for the uncalibrated runs",
            a.len(),
            b.len()
        )
    })
}

/// The reasons of the runs of a side, each with its number of runs.
pub(super) fn notes(side: &str, runs: &[Subject<'_>]) -> Vec<String> {
    let mut known: Vec<(&String, usize)> = Vec::new();
    for reason in runs.iter().flat_map(|it| &it.run.reasons) {
        match known.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, count)) => *count += 1,
            None => known.push((reason, 1)),
        }
    }
    let of = runs.len();
    let entry = |(reason, count): (&String, usize)| match of {
        1 => format!("{side}: {reason}"),
        _ => format!("{side}, {count} of {of} runs: {reason}"),
    };
    let mut notes: Vec<String> = known.into_iter().map(entry).collect();
    let failed = failed(runs);
    notes.extend((failed > 0).then(|| {
        let sent: u64 = runs.iter().flat_map(|it| it.run.operations.values()).map(|it| it.count).sum();
        format!("{side}: {failed} operations failed, {sent} were acknowledged; latencies exclude the failed")
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Client, Expectation, Operation};

    fn subjects(runs: &[Run]) -> Vec<Subject<'_>> {
        runs.iter().map(|run| Subject { name: run.id.clone(), run, scenario: None }).collect()
    }

    fn expecting(held: [bool; 2]) -> Run {
        let one = |(expression, held): (&str, bool)| Expectation {
            metric: "insert.response".into(),
            expression: expression.into(),
            held,
            ..Expectation::default()
        };
        let expectations = ["p(50)<1ms", "p(99)<5ms"].into_iter().zip(held).map(one).collect();
        Run { expectations, verdict: Verdict::Pass, ..Run::default() }
    }

    #[test]
    fn expectations_are_counted_by_the_runs_of_each_side_that_break_them() {
        let a = [expecting([true, true]), expecting([true, false])];
        let b = [expecting([true, false]), expecting([true, false])];
        let found = broken(&subjects(&a), &subjects(&b));
        let expected =
            Broken { metric: "insert.response".into(), expression: "p(99)<5ms".into(), a: 1, b: 2 };
        assert_eq!(found, [expected]);
        assert!(broken(&subjects(&a[..1]), &subjects(&a[..1])).is_empty());
    }

    #[test]
    fn invalid_runs_and_failed_operations_are_counted() {
        let mut runs = [expecting([true; 2]), expecting([false; 2])];
        runs[0].verdict = Verdict::Invalid;
        runs[1].verdict = Verdict::Fail;
        let errors = [("Timeout".to_owned(), 3), ("Refused".to_owned(), 4)].into();
        runs[1].operations = [("insert".to_owned(), Operation { errors, ..Operation::default() })].into();
        assert_eq!((invalid(&subjects(&runs)), failed(&subjects(&runs))), (1, 7));
    }

    /// Ten runs of which `bad` are made bad.
    fn ten(bad: usize, make: impl Fn(&mut Run)) -> Vec<Run> {
        let operation = Operation { count: 900, ..Operation::default() };
        let operations = BTreeMap::from([("insert".to_owned(), operation)]);
        let mut runs = vec![Run { verdict: Verdict::Pass, operations, ..Run::default() }; 10];
        runs[..bad].iter_mut().for_each(make);
        runs
    }

    #[test]
    fn more_failures_are_shown_by_the_test_that_every_metric_uses() {
        let failing = |errors: u64| {
            move |run: &mut Run| {
                let operation = run.operations.get_mut("insert").unwrap();
                operation.errors.insert("Timeout".into(), errors);
            }
        };
        for (a, b, expected) in [
            (ten(0, failing(1)), ten(10, failing(1)), true),
            (ten(10, failing(1)), ten(10, failing(50)), true),
            (ten(10, failing(50)), ten(10, failing(1)), false),
            (ten(10, failing(5)), ten(10, failing(5)), false),
            // If runs of both sides fail, chance explains a few more.
            (ten(1, failing(5)), ten(5, failing(5)), false),
            // One failure suffices if the other side has none.
            (ten(0, failing(1)), ten(1, failing(1)), true),
            (ten(1, failing(1)), ten(0, failing(1)), false),
        ] {
            assert_eq!(fails_more(&subjects(&a), &subjects(&b), 0), expected, "{:?}", b[0].operations);
        }
        let searched = |mut runs: Vec<Run>| {
            runs.iter_mut().for_each(|run| run.command = "line".into());
            runs
        };
        let (a, b) = (searched(ten(0, failing(1))), searched(ten(10, failing(9))));
        assert!(!fails_more(&subjects(&a), &subjects(&b), 0), "a search causes failures on purpose");
    }

    #[test]
    fn many_invalid_runs_count_against_b_unless_the_tool_limited_them() {
        let invalid = |run: &mut Run| run.verdict = Verdict::Invalid;
        let limited = |run: &mut Run| (run.verdict, run.client.limited) = (Verdict::Invalid, true);
        for (a, b, expected) in [
            (ten(0, invalid), ten(10, invalid), true),
            (ten(0, invalid), ten(8, invalid), true),
            (ten(0, invalid), ten(7, invalid), false),
            (ten(10, invalid), ten(10, invalid), false),
            (ten(10, invalid), ten(0, invalid), false),
            (ten(0, limited), ten(10, limited), false),
        ] {
            assert_eq!(invalid_more(&subjects(&a), &subjects(&b), 0), expected);
        }
    }

    #[test]
    fn calibrating_only_one_side_gives_a_note() {
        let client = || Client { calibration_null_per_s: vec![1e5, 1e5], ..Client::default() };
        let (with, without) = ([Run { client: client(), ..Run::default() }], [Run::default()]);
        let said = uncalibrated(&subjects(&with), &subjects(&without)).unwrap();
        assert!(said.contains("1 of 1 runs of A and 0 of 1 of B"), "{said}");
        assert_eq!(uncalibrated(&subjects(&with), &subjects(&with)), None);
        assert_eq!(uncalibrated(&subjects(&without), &subjects(&without)), None);
    }
}
