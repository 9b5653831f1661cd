//! Computes a history from runs, without a clock, a file or a terminal.

use super::divisive::{Split, levels, splits, without_small};
use super::form::{Change, FORMAT, History, HistoryRun, Settings, Track};
use super::order::{Error, in_order, unlike};
use crate::clock;
use crate::comparison::{self, Better, Measure, Subject, Verdict};
use crate::run::{Run, Verdict as Worth};

/// The runs to follow, with settings.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The runs, in any order.
    pub runs: Vec<Subject<'a>>,
    /// The only metric to follow; all if left out.
    pub metric: Option<String>,
    /// Whether to follow runs that differ.
    pub force: bool,
    /// The settings of the search.
    pub settings: Settings,
}

/// Follows the figures of a scenario through its runs.
///
/// # Errors
/// If the runs cannot be followed, with the remedy.
pub fn follow(request: Request<'_>) -> Result<History, Error> {
    let Request { mut runs, metric, force, settings } = request;
    in_order(&mut runs)?;
    let forced = match unlike(&runs) {
        Some(error) if !force => return Err(error),
        Some(Error::Unlike { differences, .. }) => differences,
        _ => Vec::new(),
    };
    let measures = asked(&runs, metric.as_deref())?;
    let track = |(index, measure): (usize, &Measure)| track(measure, index == 0, &runs, &settings);
    Ok(History {
        format: FORMAT,
        title: runs.last().map(|it| it.run.scenario.title.clone()).unwrap_or_default(),
        forced,
        settings,
        metrics: measures.iter().enumerate().map(track).collect(),
        notes: notes(&runs),
        runs: runs.iter().map(made).collect(),
        conclusions: Vec::new(),
    })
}

/// The metrics that comparisons of these runs use, or the requested one. The first is the primary metric. No other metric
/// replaces it if it is unknown, because the choice would then depend on a missing value.
fn asked(runs: &[Subject<'_>], name: Option<&str>) -> Result<Vec<Measure>, Error> {
    let each: Vec<&Run> = runs.iter().map(|it| it.run).collect();
    let mut measures = comparison::measures(&each);
    if measures.is_empty() {
        return Err(Error::NothingMeasured);
    }
    let Some(name) = name else { return Ok(measures) };
    let known = measures.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
    measures.retain(|it| it.name == name);
    if measures.is_empty() { Err(Error::NoSuchMetric { name: name.to_owned(), known }) } else { Ok(measures) }
}

fn made(it: &Subject<'_>) -> HistoryRun {
    HistoryRun {
        directory: it.name.clone(),
        id: it.run.id.clone(),
        started: clock::utc(it.run.started_ms),
        started_ms: it.run.started_ms,
    }
}

/// The position of a run, and the value of a metric in it.
type Known = (usize, f64);

fn track(measure: &Measure, primary: bool, runs: &[Subject<'_>], settings: &Settings) -> Track {
    // A zero has no logarithm: the notes name runs that did nothing.
    let value = |it: &Subject<'_>| measure.of(it.run).filter(|value| *value > 0.0 && value.is_finite());
    let values: Vec<Option<f64>> = runs.iter().map(value).collect();
    let known: Vec<Known> =
        values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?))).collect();
    let needed = 2 * settings.segment_min;
    let figures: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let logs: Vec<f64> = figures.iter().map(|value| value.ln()).collect();
    let splits = without_small(&figures, splits(&logs, settings), settings.min_effect);
    let levels = levels(&figures, &splits);
    let steps = splits.iter().zip(levels.iter().zip(levels.iter().skip(1)));
    Track {
        name: measure.name.clone(),
        words: measure.words.clone(),
        unit: measure.unit,
        better: measure.better,
        primary,
        known: known.len() as u32,
        needed: (known.len() < needed as usize).then_some(needed),
        level: levels.last().copied(),
        changes: steps
            .map(|(split, (from, to))| change(split, [*from, *to], measure.better, &known, runs))
            .collect(),
        values,
    }
}

fn change(
    split: &Split,
    [from, to]: [f64; 2],
    better: Better,
    known: &[Known],
    runs: &[Subject<'_>],
) -> Change {
    let (before, after) = (known[split.at - 1].0, known[split.at].0);
    let is_better = (to > from) == (better == Better::More);
    Change {
        before: before as u32,
        after: after as u32,
        from,
        to,
        ratio: to / from,
        p: split.p,
        verdict: if is_better { Verdict::Better } else { Verdict::Worse },
        differences: comparison::differences(&runs[before], &runs[after]),
    }
}

/// Warnings about the runs.
fn notes(runs: &[Subject<'_>]) -> Vec<String> {
    let of = runs.len();
    let count = |test: fn(&Run) -> bool| runs.iter().filter(|it| test(it.run)).count();
    let found = [
        (count(|run| !comparison::is_kept(run)), "documents that were acknowledged are missing"),
        (count(comparison::is_idle), "nothing was done: no operation was acknowledged, or no rate held"),
        (count(|run| run.verdict == Worth::Invalid), "the verdict is `invalid`: the figures are misleading"),
    ];
    let note = |(runs, words): (usize, &str)| format!("in {runs} of {of} runs {words}");
    found.into_iter().filter(|(runs, _)| *runs > 0).map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latency;
    use crate::run::Operation;

    /// Runs that scatter by a percent around each rate.
    fn runs(rates: &[(f64, usize)]) -> Vec<Run> {
        let rates = rates.iter().flat_map(|(rate, runs)| std::iter::repeat_n(*rate, *runs));
        let run = |(index, rate): (usize, f64)| {
            let rate = rate * (1.0 + 0.005 * ((index * 7 % 5) as f64 - 2.0));
            let response_ns = Latency { p50: Some((1e9 / rate) as u64), ..Latency::default() };
            let operation = Operation {
                count: 100,
                documents: 100,
                documents_per_s: rate,
                response_ns,
                ..Operation::default()
            };
            Run {
                id: format!("r{index}"),
                command: "run".into(),
                started_ms: index as u64 * 1_000,
                verdict: Worth::Pass,
                operations: [("insert".to_owned(), operation)].into(),
                ..Run::default()
            }
        };
        rates.enumerate().map(run).collect()
    }

    fn request(runs: &[Run]) -> Request<'_> {
        let named = |run: &Run| format!("dir-{}", run.id);
        let runs = runs.iter().map(|run| Subject { name: named(run), run, scenario: None }).collect();
        Request { runs, metric: None, force: false, settings: Settings::default() }
    }

    #[test]
    fn a_change_has_its_runs_ratio_direction_and_other_differences() {
        let mut all = runs(&[(5_000.0, 12), (4_500.0, 8)]);
        all[12..].iter_mut().for_each(|run| run.server.version = Some("8.1".into()));
        all.reverse();
        let history = follow(request(&all)).unwrap();
        let primary = history.primary().unwrap();
        assert_eq!(
            (primary.name.as_str(), primary.known, primary.needed),
            ("insert.documents_per_s", 20, None)
        );
        let [change] = &primary.changes[..] else { panic!("{:?}", primary.changes) };
        assert_eq!((change.before, change.after, change.verdict), (11, 12, Verdict::Worse));
        assert_eq!(history.runs[12].directory, "dir-r12");
        assert!((change.ratio - 0.9).abs() < 0.01 && change.p <= 0.01, "{change:?}");
        assert_eq!(change.differences[0].path, "server.version");
        assert_eq!(primary.level, Some(change.to));
        assert!(history.is_regression() && !history.is_failed());
        let median = &history.metrics[1];
        assert_eq!(median.name, "insert.response_ns.p50");
        assert_eq!(median.newest().unwrap().verdict, Verdict::Worse, "a longer response is worse");
    }

    #[test]
    fn a_metric_that_recovered_is_not_a_regression() {
        let all = runs(&[(5_000.0, 12), (4_000.0, 12), (5_000.0, 12)]);
        let history = follow(request(&all)).unwrap();
        let turns: Vec<_> = history.metrics[0].changes.iter().map(|it| it.verdict).collect();
        assert_eq!(turns, [Verdict::Worse, Verdict::Better]);
        assert!(!history.is_regression());
    }

    #[test]
    fn too_few_runs_say_how_many_are_needed_and_do_not_pass() {
        let mut all = runs(&[(5_000.0, 9)]);
        let history = follow(request(&all)).unwrap();
        assert_eq!((history.metrics[0].known, history.metrics[0].needed), (9, Some(10)));
        assert!(history.is_failed() && history.metrics[0].changes.is_empty());
        all.extend(runs(&[(5_000.0, 11)]).split_off(9));
        all[3].operations.clear();
        let history = follow(request(&all)).unwrap();
        let primary = &history.metrics[0];
        assert_eq!((primary.known, primary.needed, primary.values[3]), (10, None, None));
        assert!(history.notes[0].starts_with("in 1 of 11 runs nothing was done"), "{:?}", history.notes);
    }

    #[test]
    fn a_single_known_metric_can_be_followed() {
        let all = runs(&[(5_000.0, 10)]);
        let asked = |name: &str| follow(Request { metric: Some(name.into()), ..request(&all) });
        let history = asked("insert.response_ns.p50").unwrap();
        assert_eq!((history.metrics.len(), history.metrics[0].primary), (1, true));
        let error = asked("insert.rate").unwrap_err().to_string();
        assert!(error.contains("known metrics: insert.documents_per_s, insert.response_ns.p50"), "{error}");
        let idle = [Run { id: "a".into(), ..Run::default() }, Run::default()];
        assert_eq!(follow(request(&idle)).unwrap_err(), Error::NothingMeasured);
    }

    #[test]
    fn runs_that_differ_are_refused_and_with_force_their_differences_are_listed() {
        let mut all = runs(&[(5_000.0, 10)]);
        all[4].environment.cores = 8;
        assert!(matches!(follow(request(&all)), Err(Error::Unlike { .. })));
        let history = follow(Request { force: true, ..request(&all) }).unwrap();
        assert_eq!(history.forced[0].path, "environment.cores");
    }
}
