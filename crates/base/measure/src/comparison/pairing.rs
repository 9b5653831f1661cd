//! Pairs the runs of two sides, and refuses runs that are not comparable.

use std::collections::BTreeSet;

use super::differences::{Subject, differences, is_varied};
use super::form::Difference;
use super::sign_flip::{ALPHA, PAIRS_MAX, PAIRS_MIN, smallest_p};

/// The maximum number of listed differences.
const LISTED_MAX: usize = 12;

/// Why runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// One side has no run.
    #[error("{0} has no run: name at least one run directory for each side")]
    Empty(&'static str),
    /// A run is unusable.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The sides have different numbers of runs.
    #[error(
        "A has {a} runs and B has {b}, but each run of A needs one of B: leave out the extra ones, or measure the missing ones"
    )]
    Uneven {
        /// Runs of A.
        a: usize,
        /// Runs of B.
        b: usize,
    },
    /// The test cannot show anything with so few pairs.
    #[error("{}", too_few(*pairs))]
    TooFew {
        /// Pairs.
        pairs: usize,
    },
    /// Too many pairs.
    #[error("{pairs} pairs: at most {PAIRS_MAX} are compared; leave some out")]
    TooMany {
        /// Pairs.
        pairs: usize,
    },
    /// The runs of one side differ.
    #[error(
        "the runs of {side} are not alike, {first} and {second} differ in:\n{}\ngive runs of one variant only, or override \
         with --force",
        listed(differences, ["the first", "the second"])
    )]
    Unlike {
        /// `A` or `B`.
        side: &'static str,
        /// A run.
        first: String,
        /// A run that differs from `first`.
        second: String,
        /// The differences.
        differences: Vec<Difference>,
    },
    /// A and B differ in more than the varied keys.
    #[error(
        "A and B are not comparable, they differ in:\n{}\nname the compared key with --varies KEY, or override with \
         --force",
        listed(differences, ["A", "B"])
    )]
    Incomparable {
        /// The differences.
        differences: Vec<Difference>,
    },
    /// The runs of A and B do not alternate. Then drift of the machine would count as a difference.
    #[error(
        "A and B were not measured in turns: a change of the machine between {0} and {1} would count as a difference.\n\
         Measure them in turns with `plimsoll ab`, or override with --force"
    )]
    NotInTurns(String, String),
    /// The runs have no such metric.
    #[error("--primary {name}: unknown metric; known metrics: {known}")]
    NoSuchMetric {
        /// The requested name.
        name: String,
        /// The available names.
        known: String,
    },
    /// Nothing was measured.
    #[error("nothing to compare: no operation was acknowledged")]
    NothingMeasured,
}

/// Why a run cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A run is named twice.
    #[error("duplicate run {0}: name each run once, or measure again for a further run")]
    Twice(String),
    /// A run was ended early.
    #[error("incomplete run {0}: it ended early; leave it out, or measure it again")]
    Cut(String),
}

/// Checks that every run is complete and named once.
pub(crate) fn usable<'a>(runs: impl Iterator<Item = &'a Subject<'a>>) -> Result<(), RunError> {
    let mut known = BTreeSet::new();
    for it in runs {
        let id = if it.run.id.is_empty() { &it.name } else { &it.run.id };
        if !known.insert(id) {
            return Err(RunError::Twice(it.name.clone()));
        }
        if it.run.interrupted || it.run.aborted.is_some() {
            return Err(RunError::Cut(it.name.clone()));
        }
    }
    Ok(())
}

impl Error {
    /// The error without the advice for `plimsoll compare`, if `--force` overrides it.
    pub fn forcible(&self) -> Option<String> {
        let is_forcible =
            matches!(self, Self::Unlike { .. } | Self::Incomparable { .. } | Self::NotInTurns(..));
        let text = self.to_string();
        text.rsplit_once('\n').filter(|_| is_forcible).map(|(found, _)| found.to_owned())
    }
}

fn too_few(pairs: usize) -> String {
    format!(
        "{pairs} pairs are too few: the smallest possible p is 2 ÷ 2^{pairs} = {:.4}, but a difference is shown at {ALPHA} or \
         less; measure at least {PAIRS_MIN} pairs (the default of `plimsoll ab` is 10), or compare two single runs without a verdict",
        smallest_p(pairs)
    )
}

/// Lists differences, a line each.
pub(crate) fn listed(differences: &[Difference], [a, b]: [&str; 2]) -> String {
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing".to_owned());
    let line = |it: &Difference| format!("  {}: {} in {a}, {} in {b}", it.path, word(&it.a), word(&it.b));
    let mut lines: Vec<String> = differences.iter().take(LISTED_MAX).map(line).collect();
    let more = differences.len().saturating_sub(LISTED_MAX);
    lines.extend((more > 0).then(|| format!("  and {more} more")));
    lines.join("\n")
}

/// Sorts both sides by when they were started, so that the i-th runs are the i-th pair.
///
/// # Errors
/// If the runs cannot be paired, or form too few pairs. One run on each side is a special case.
pub(super) fn in_pairs(a: &mut [Subject<'_>], b: &mut [Subject<'_>]) -> Result<usize, Error> {
    for (side, runs) in [("A", &*a), ("B", &*b)] {
        if runs.is_empty() {
            return Err(Error::Empty(side));
        }
    }
    usable(a.iter().chain(&*b))?;
    match (a.len(), b.len()) {
        (a, b) if a != b => return Err(Error::Uneven { a, b }),
        (pairs, _) if pairs > 1 && pairs < PAIRS_MIN => return Err(Error::TooFew { pairs }),
        (pairs, _) if pairs > PAIRS_MAX => return Err(Error::TooMany { pairs }),
        _ => {}
    }
    a.sort_by_key(|it| it.run.started_ms);
    b.sort_by_key(|it| it.run.started_ms);
    Ok(a.len())
}

/// The differences between A and B, and all objections to comparing them.
pub(super) fn look(a: &[Subject<'_>], b: &[Subject<'_>], varied: &[String]) -> (Vec<Difference>, Vec<Error>) {
    let mut against: Vec<Error> =
        [("A", a), ("B", b)].iter().filter_map(|(side, runs)| unlike(side, runs)).collect();
    let (Some(first), Some(other)) = (a.first(), b.first()) else { return (Vec::new(), against) };
    let found = differences(first, other);
    let undeclared: Vec<Difference> =
        found.iter().filter(|it| !is_varied(&it.path, varied)).cloned().collect();
    if !undeclared.is_empty() {
        against.push(Error::Incomparable { differences: undeclared });
    }
    against.extend(not_in_turns(a, b));
    (found, against)
}

/// The first run of a side that differs from the oldest one.
fn unlike(side: &&'static str, runs: &[Subject<'_>]) -> Option<Error> {
    let (first, others) = runs.split_first()?;
    others.iter().find_map(|second| {
        let differences = differences(first, second);
        (!differences.is_empty()).then(|| Error::Unlike {
            side,
            first: first.name.clone(),
            second: second.name.clone(),
            differences,
        })
    })
}

/// Each pair must end before the next one starts, in either order of its two runs.
fn not_in_turns(a: &[Subject<'_>], b: &[Subject<'_>]) -> Option<Error> {
    let pairs: Vec<_> = a.iter().zip(b).collect();
    pairs.windows(2).find_map(|both| {
        let [(a, b), (next_a, next_b)] = both else { return None };
        let last = if a.run.started_ms > b.run.started_ms { a } else { b };
        let next = if next_a.run.started_ms < next_b.run.started_ms { next_a } else { next_b };
        (last.run.started_ms > next.run.started_ms)
            .then(|| Error::NotInTurns(next.name.clone(), last.name.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    fn runs(prefix: &str, started: &[u64]) -> Vec<Run> {
        let run = |at: &u64| Run { id: format!("{prefix}{at}"), started_ms: *at, ..Run::default() };
        started.iter().map(run).collect()
    }

    fn subjects(runs: &[Run]) -> Vec<Subject<'_>> {
        runs.iter().map(|run| Subject { name: run.id.clone(), run, scenario: None }).collect()
    }

    #[track_caller]
    fn check(a: &[Run], b: &[Run], part: &str) {
        let error = in_pairs(&mut subjects(a), &mut subjects(b)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn runs_that_cannot_be_paired_are_refused_with_the_remedy() {
        let (odd, even): (Vec<u64>, Vec<u64>) = ((1..20).step_by(2).collect(), (2..21).step_by(2).collect());
        check(&[], &runs("b", &[1]), "A has no run");
        check(&runs("a", &odd), &runs("b", &even[1..]), "A has 10 runs and B has 9");
        check(
            &runs("a", &odd[..7]),
            &runs("b", &even[..7]),
            "7 pairs are too few: the smallest possible p is 2 ÷ 2^7 = 0.0156",
        );
        check(&runs("a", &[1, 2]), &runs("a", &[2, 3]), "duplicate run a2");
        let mut cut = runs("b", &[2]);
        cut[0].interrupted = true;
        check(&runs("a", &[1]), &cut, "incomplete run b2");
        let many: Vec<u64> = (0..=PAIRS_MAX as u64).collect();
        check(&runs("a", &many), &runs("b", &many), "at most 200");
    }

    #[test]
    fn runs_are_paired_by_when_they_were_made() {
        let (a, b) = (runs("a", &[5, 1, 9, 3, 11, 7, 13, 15]), runs("b", &[2, 6, 4, 8, 10, 12, 16, 14]));
        let (mut a, mut b) = (subjects(&a), subjects(&b));
        assert_eq!(in_pairs(&mut a, &mut b), Ok(8));
        assert_eq!((a[1].name.as_str(), b[1].name.as_str()), ("a3", "b4"));
        assert_eq!(not_in_turns(&a, &b), None);
    }

    #[test]
    fn all_runs_of_a_before_those_of_b_are_not_in_turns() {
        let turns = |a: &[u64], b: &[u64]| not_in_turns(&subjects(&runs("a", a)), &subjects(&runs("b", b)));
        assert_eq!(turns(&[1, 4, 5], &[2, 3, 6]), None, "A B B A A B");
        let error = turns(&[1, 2, 3], &[4, 5, 6]).unwrap().to_string();
        assert!(error.contains("between a2 and b4") && error.contains("plimsoll ab"), "{error}");
        let found = turns(&[1, 2, 3], &[4, 5, 6]).unwrap().forcible().unwrap();
        assert!(found.ends_with("count as a difference."), "{found}");
    }

    #[test]
    fn undeclared_differences_are_listed() {
        let (a, mut b) = (runs("a", &[1]), runs("b", &[2]));
        b[0].server.version = Some("8.0".into());
        let compared = |varied: &[&str]| {
            let varied: Vec<String> = varied.iter().map(|&key| key.to_owned()).collect();
            look(&subjects(&a), &subjects(&b), &varied)
        };
        let (differences, against) = compared(&[]);
        assert_eq!(differences[0].path, "server.version");
        let text = against[0].to_string();
        assert!(
            text.contains("server.version: nothing in A, \"8.0\" in B") && text.contains("--varies"),
            "{text}"
        );
        let found = against[0].forcible().unwrap();
        assert!(found.contains("\"8.0\" in B") && !found.contains("--"), "{found}");
        assert_eq!(Error::NothingMeasured.forcible(), None);
        assert_eq!(compared(&["server"]).1, []);
        assert_eq!(compared(&["server"]).0.len(), 1, "a varied difference is still listed");
    }

    #[test]
    fn a_side_whose_runs_differ_is_refused() {
        let (mut a, b) = (runs("a", &[1, 3]), runs("b", &[2, 4]));
        a[1].environment.cores = 8;
        let (_, against) = look(&subjects(&a), &subjects(&b), &[]);
        let text = against[0].to_string();
        assert!(
            text.contains("the runs of A are not alike, a1 and a3") && text.contains("environment.cores"),
            "{text}"
        );
    }
}
