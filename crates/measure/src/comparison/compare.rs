//! Two sides in, a comparison out: the whole way from runs to verdicts, without a clock, a file or a word on a terminal.

use super::form::{Comparison, FORMAT, Method, Noise, Pair, Settings, Side, SideRun, Verdict};
use super::judge::{judge, single};
use super::measures::{Measure, measures};
use super::sign_flip::{PAIRS_EXACT, SAMPLES};
use super::subject::{Error, Subject, in_pairs, look};
use super::values::Values;
use crate::run::Run;

/// What is to be compared, and how.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What A and B are called.
    pub names: [String; 2],
    /// What B is compared with.
    pub a: Vec<Subject<'a>>,
    /// What is judged.
    pub b: Vec<Subject<'a>>,
    /// Keys that may differ: those of the scenario as `--set` names them, or those of run.json below `server` and
    /// `environment`.
    pub varied: Vec<String>,
    /// Whether runs that are not comparable are compared all the same.
    pub force: bool,
    /// The primary metric; the first that every run knows if left out.
    pub primary: Option<String>,
    /// The least difference, and the seed.
    pub settings: Settings,
}

/// Compares B with A.
///
/// # Errors
/// Why they cannot be compared, and what to do.
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
    let primary = choose(&values, primary.as_deref())?;
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
        notes: [notes("A", &a), notes("B", &b)].concat(),
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
    }
}

fn is_kept(run: &Run) -> bool {
    run.integrity.as_ref().is_none_or(|integrity| integrity.holds())
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

/// The index of the primary metric.
fn choose(values: &[Values], asked: Option<&str>) -> Result<usize, Error> {
    if values.is_empty() {
        return Err(Error::NothingMeasured);
    }
    let Some(name) = asked else {
        let has_all = |it: &Values| it.pairs.iter().all(|pair| pair.ratio().is_some());
        return Ok(values.iter().position(has_all).unwrap_or(0));
    };
    let unknown = || {
        let known: Vec<_> = values.iter().map(|it| it.measure.name.as_str()).collect();
        Error::NoSuchMetric { name: name.to_owned(), known: known.join(", ") }
    };
    values.iter().position(|it| it.measure.name == name).ok_or_else(unknown)
}

/// What speaks against the runs of a side, each reason with the number of runs that it is about.
fn notes(side: &str, runs: &[Subject<'_>]) -> Vec<String> {
    let mut known: Vec<(&String, usize)> = Vec::new();
    for reason in runs.iter().flat_map(|it| &it.run.reasons) {
        match known.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, count)) => *count += 1,
            None => known.push((reason, 1)),
        }
    }
    let of = runs.len();
    let told = |(reason, count): (&String, usize)| match of {
        1 => format!("{side}: {reason}"),
        _ => format!("{side}, {count} of {of} runs: {reason}"),
    };
    let mut notes: Vec<String> = known.into_iter().map(told).collect();
    let failed: u64 =
        runs.iter().flat_map(|it| it.run.operations.values()).flat_map(|it| it.errors.values()).sum();
    notes.extend((failed > 0).then(|| {
        let sent: u64 = runs.iter().flat_map(|it| it.run.operations.values()).map(|it| it.count).sum();
        format!(
            "{side}: {failed} operations failed and {sent} were acknowledged; latencies are of the latter"
        )
    }));
    notes
}

impl Comparison {
    /// Whether there is a verdict at all.
    pub fn is_judged(&self) -> bool {
        self.verdict != Verdict::NoVerdict
    }
}
