//! Compares two sides: from runs to verdicts, without a clock, a file or a terminal.

use super::differences::Subject;
use super::form::{Comparison, FORMAT, Method, Noise, Pair, Settings, Side, SideRun};
use super::judge::{judge, single};
use super::measures::{Measure, measures};
use super::pairing::{Error, in_pairs, look};
use super::sign_flip::{PAIRS_EXACT, SAMPLES};
use super::soundness::{
    broken, failed, fails_more, invalid, invalid_more, is_idle, is_kept, notes, uncalibrated,
};
use super::values::Values;
use crate::run::Run;

/// The sides to compare, with settings.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The names of A and B.
    pub names: [String; 2],
    /// The baseline.
    pub a: Vec<Subject<'a>>,
    /// The side to judge.
    pub b: Vec<Subject<'a>>,
    /// Keys that may differ: those of the scenario as `--set` names them, or those of run.json below `server` and
    /// `environment`.
    pub varied: Vec<String>,
    /// Whether to compare runs that are not comparable.
    pub force: bool,
    /// The primary metric; if absent, the first metric that every run has.
    pub primary: Option<String>,
    /// The least difference, and the seed.
    pub settings: Settings,
}

/// Compares B with A.
///
/// # Errors
/// If they cannot be compared, with the remedy.
pub fn compare(request: Request<'_>) -> Result<Comparison, Error> {
    let Request { names: [name_a, name_b], mut a, mut b, varied, force, primary, settings } = request;
    let pairs = in_pairs(&mut a, &mut b)?;
    let (differences, against) = look(&a, &b, &varied);
    if let Some(error) = against.first().filter(|_| !force) {
        return Err(error.clone());
    }
    let runs = || a.iter().chain(&b).map(|it| it.run);
    let noise = Noise::of(runs().collect::<Vec<_>>().into_iter());
    let values = values(&a, &b);
    let idle = a.iter().chain(&b).any(|it| is_idle(it.run));
    let (primary, stands_in) = choose(&values, primary.as_deref(), idle)?;
    let method = method(pairs);
    let mut metrics =
        if pairs == 1 { single(values, primary) } else { judge(values, primary, &settings, &noise) };
    let first = metrics.remove(primary);
    let verdict = first.verdict;
    metrics.insert(0, first);
    let begun = runs().min_by_key(|run| run.started_ms);
    Ok(Comparison {
        format: FORMAT,
        title: a.first().map(|it| it.run.scenario.title.clone()).unwrap_or_default(),
        started: begun.map(|run| run.started.clone()).unwrap_or_default(),
        started_ms: begun.map_or(0, |run| run.started_ms),
        notes: [
            Vec::from_iter(stands_in),
            Vec::from_iter(uncalibrated(&a, &b)),
            notes("A", &a),
            notes("B", &b),
        ]
        .concat(),
        broken: broken(&a, &b),
        fails_more: fails_more(&a, &b, settings.seed),
        invalid_more: invalid_more(&a, &b, settings.seed),
        a: side(name_a, &a),
        b: side(name_b, &b),
        differences,
        forced: against.iter().map(ToString::to_string).collect(),
        settings,
        method,
        noise,
        verdict,
        metrics,
        conclusions: Vec::new(),
    })
}

/// Checks whether these pairs can be compared once there are enough of them.
///
/// # Errors
/// If they can never be compared, with the remedy.
pub fn check(request: &Request<'_>) -> Result<(), Error> {
    let Request { a, b, varied, force, primary, .. } = request;
    if let Some(error) = look(a, b, varied).1.into_iter().next().filter(|_| !force) {
        return Err(error);
    }
    choose(&values(a, b), primary.as_deref(), false).map(|_| ())
}

fn method(pairs: usize) -> Method {
    match pairs {
        1 => Method::Single,
        pairs if pairs > PAIRS_EXACT => Method::Sampled { pairs: pairs as u32, samples: SAMPLES as u32 },
        pairs => Method::Exact { pairs: pairs as u32 },
    }
}

fn side(name: String, runs: &[Subject<'_>]) -> Side {
    let one = |it: &Subject<'_>| SideRun {
        directory: it.name.clone(),
        id: it.run.id.clone(),
        started_ms: it.run.started_ms,
    };
    let first = runs.first();
    Side {
        name,
        runs: runs.iter().map(one).collect(),
        server: first.map(|it| it.run.server.clone()).unwrap_or_default(),
        environment: first.map(|it| it.run.environment.clone()).unwrap_or_default(),
        kept: runs.iter().all(|it| is_kept(it.run)),
        idle: runs.iter().filter(|it| is_idle(it.run)).count() as u32,
        invalid: invalid(runs),
        failed: failed(runs),
    }
}

fn values(a: &[Subject<'_>], b: &[Subject<'_>]) -> Vec<Values> {
    let runs: Vec<&Run> = a.iter().chain(b).map(|it| it.run).collect();
    let of = |measure: Measure| {
        let pair = |(a, b): (&Subject<'_>, &Subject<'_>)| Pair { a: measure.of(a.run), b: measure.of(b.run) };
        let pairs = a.iter().zip(b).map(pair).collect();
        Values { measure, pairs }
    };
    measures(&runs).into_iter().map(of).collect()
}

/// The index of the primary metric, and why it is not the default one. If a run did nothing, the default metric stays:
/// otherwise the client's cost alone would decide.
fn choose(values: &[Values], asked: Option<&str>, idle: bool) -> Result<(usize, Option<String>), Error> {
    let Some(usual) = values.first() else { return Err(Error::NothingMeasured) };
    if let Some(name) = asked {
        let known = || values.iter().map(|it| it.measure.name.as_str()).collect::<Vec<_>>().join(", ");
        let place = values.iter().position(|it| it.measure.name == name);
        let unknown = || Error::NoSuchMetric { name: name.to_owned(), known: known() };
        return place.map(|place| (place, None)).ok_or_else(unknown);
    }
    // Too few operations for a p99 must not prevent a verdict.
    let is_known = |it: &Values| it.pairs.iter().all(|pair| pair.a.is_some() && pair.b.is_some());
    let first_known = values.iter().position(is_known).filter(|_| !idle).unwrap_or(0);
    let stands_in = (first_known > 0).then(|| {
        let (of, in_place) = (&usual.measure.words, &values[first_known].measure.words);
        format!("{of} is not known in every pair; the primary metric is {in_place} instead")
    });
    Ok((first_known, stands_in))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::form::Verdict;
    use super::*;
    use crate::histogram::Latency;
    use crate::run::{Client, Expectation, Operation, ScenarioFacts};

    /// A run that did `count` operations; its client used CPU even for none.
    fn run(number: u64, count: u64, p99: Option<u64>) -> Run {
        let response_ns = Latency { p50: (count > 0).then_some(500), p99, ..Latency::default() };
        let operation = Operation {
            count,
            documents: count,
            documents_per_s: count as f64,
            response_ns,
            ..Operation::default()
        };
        Run {
            id: number.to_string(),
            command: "run".into(),
            started_ms: number,
            scenario: ScenarioFacts { hash: "aa".into(), ..ScenarioFacts::default() },
            operations: BTreeMap::from([("insert".to_owned(), operation)]),
            client: Client { cpu_us_per_operation: Some(5.0), ..Client::default() },
            ..Run::default()
        }
    }

    fn compared(runs: &[Run]) -> Comparison {
        let side = |rest: u64| {
            let mine = runs.iter().filter(move |run| run.started_ms % 2 == rest);
            mine.map(|run| Subject { name: run.id.clone(), run, scenario: None }).collect()
        };
        compare(Request {
            names: ["A".into(), "B".into()],
            a: side(1),
            b: side(0),
            varied: Vec::new(),
            force: false,
            primary: None,
            settings: Settings::default(),
        })
        .unwrap()
    }

    #[test]
    fn a_side_that_did_nothing_is_a_failure_and_no_substitute_metric_decides() {
        for idle in [10, 1] {
            let rejects = |number: u64| number.is_multiple_of(2) && number / 2 <= idle;
            let one = |number| {
                if rejects(number) { run(number, 0, None) } else { run(number, 1_000, Some(900)) }
            };
            let it = compared(&(1..=20).map(one).collect::<Vec<_>>());
            assert_eq!(it.metrics[0].name, "insert.documents_per_s", "{idle}");
            assert_eq!((it.verdict, it.is_regression()), (Verdict::NoVerdict, false), "{idle}");
            assert!(it.is_failed(), "{idle}");
            assert_eq!((it.a.idle, it.b.idle), (0, idle as u32));
        }
    }

    #[test]
    fn an_expectation_that_b_breaks_more_often_than_a_counts_whatever_the_verdict() {
        for (a, b, expected) in [(0, 1, true), (2, 10, true), (1, 1, false), (3, 0, false)] {
            let one = |number: u64| {
                let broken = if number.is_multiple_of(2) { b } else { a };
                let held = number.div_ceil(2) > broken;
                let expectations = vec![Expectation { held, ..Expectation::default() }];
                Run { expectations, ..run(number, 1_000, Some(900)) }
            };
            let it = compared(&(1..=20).map(one).collect::<Vec<_>>());
            assert_eq!((it.verdict, it.is_broken()), (Verdict::NoDifference, expected), "{a} and {b}");
            assert_eq!((u64::from(it.broken[0].a), u64::from(it.broken[0].b)), (a, b));
        }
    }

    #[test]
    fn failures_of_b_alone_make_it_unsound_and_failures_of_a_do_not() {
        for (failing, expected) in [(2, true), (1, false)] {
            let mut runs: Vec<Run> = (1..=20).map(|number| run(number, 1_000, Some(900))).collect();
            let failed = runs[failing - 1].operations.get_mut("insert").unwrap();
            failed.errors.insert("Timeout".into(), 1);
            let it = compared(&runs);
            assert_eq!(it.is_unsound(), expected, "run {failing}");
            assert_eq!(it.verdict, Verdict::NoDifference, "failures do not change the verdict on a metric");
        }
    }

    #[test]
    fn whether_runs_can_be_compared_is_known_from_the_first_pair_on() {
        let (a, mut b) = (run(1, 10, Some(9)), run(2, 10, Some(9)));
        b.scenario.hash = "bb".into();
        let subject = |run| Subject { name: String::new(), run, scenario: None };
        let checked = |varied: &[&str], force: bool, primary: Option<&str>| {
            let varied = varied.iter().map(|&key| key.to_owned()).collect();
            let (primary, settings) = (primary.map(str::to_owned), Settings::default());
            let (names, a, b) = (["A".into(), "B".into()], vec![subject(&a)], vec![subject(&b)]);
            check(&Request { names, a, b, varied, force, primary, settings })
        };
        assert!(matches!(checked(&[], false, None), Err(Error::Incomparable { .. })));
        assert_eq!(checked(&["scenario"], false, None), Ok(()));
        assert_eq!(checked(&[], true, None), Ok(()));
        assert!(matches!(checked(&[], true, Some("speed")), Err(Error::NoSuchMetric { .. })));
    }

    #[test]
    fn two_single_runs_that_both_did_something_are_not_a_failure() {
        assert!(!compared(&[run(1, 10, Some(9)), run(2, 10, Some(9))]).is_failed());
        assert!(compared(&[run(1, 10, Some(9)), run(2, 0, None)]).is_failed());
    }

    #[test]
    fn a_substitute_primary_metric_is_noted() {
        let mut runs: Vec<Run> = (1..=20).map(|number| run(number, 10, (number != 4).then_some(9))).collect();
        // The schedule gives the rate, so the usual metric is p99.
        let operations = runs.iter_mut().flat_map(|run| run.operations.values_mut());
        operations.for_each(|operation| operation.achieved = Some(1.0));
        let it = compared(&runs);
        assert_eq!(it.metrics[0].name, "insert.response_ns.p50");
        assert!(it.notes[0].contains("p99 response of insert is not known in every pair"), "{:?}", it.notes);
        assert!(!it.is_failed());
    }
}
