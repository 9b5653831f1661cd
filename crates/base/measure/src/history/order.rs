//! Sorts the runs of a history, and refuses incomparable runs.

use crate::comparison::{self, Difference, RunError, Subject};

/// The fewest runs.
pub const RUNS_MIN: usize = 2;
/// The most runs.
pub const RUNS_MAX: usize = 500;
/// The keys that may differ from run to run: a history shows their effect.
pub const VARYING: [&str; 3] = ["server.version", "server.product", "environment.plimsoll"];

/// Why runs cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too few runs.
    #[error("{runs} run has no history: name at least {RUNS_MIN} runs, or their directory")]
    TooFew {
        /// Runs.
        runs: usize,
    },
    /// Too many runs.
    #[error("{runs} runs: at most {RUNS_MAX} are followed; leave out the oldest")]
    TooMany {
        /// Runs.
        runs: usize,
    },
    /// A run is unusable.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The runs differ.
    #[error(
        "the runs are not alike, {first} and {second} differ in:\n{}\ngive runs of one scenario on one machine (the versions of \
         the server and of Plimsoll may differ), or override with --force",
        comparison::listed(differences, ["the first", "the second"])
    )]
    Unlike {
        /// The oldest run.
        first: String,
        /// A run that differs from `first`.
        second: String,
        /// The differences.
        differences: Vec<Difference>,
    },
    /// The runs have no such metric.
    #[error("--metric {name}: unknown metric; known metrics: {known}")]
    NoSuchMetric {
        /// The requested name.
        name: String,
        /// The available names.
        known: String,
    },
    /// Nothing was measured.
    #[error("nothing to follow: no operation was acknowledged")]
    NothingMeasured,
}

/// Sorts runs by their start.
///
/// # Errors
/// If there are too few or too many runs, or a run is a duplicate or incomplete.
pub(super) fn in_order(runs: &mut [Subject<'_>]) -> Result<(), Error> {
    match runs.len() {
        runs if runs < RUNS_MIN => return Err(Error::TooFew { runs }),
        runs if runs > RUNS_MAX => return Err(Error::TooMany { runs }),
        _ => {}
    }
    comparison::usable(runs.iter())?;
    runs.sort_by_key(|it| it.run.started_ms);
    Ok(())
}

/// The first run that differs from the oldest in more than [`VARYING`].
pub(super) fn unlike(runs: &[Subject<'_>]) -> Option<Error> {
    let (first, others) = runs.split_first()?;
    let varying = VARYING.map(str::to_owned);
    others.iter().find_map(|second| {
        let mut differences = comparison::differences(first, second);
        differences.retain(|it| !comparison::is_varied(&it.path, &varying));
        (!differences.is_empty()).then(|| Error::Unlike {
            first: first.name.clone(),
            second: second.name.clone(),
            differences,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    fn runs(started: &[u64]) -> Vec<Run> {
        let run = |at: &u64| Run { id: format!("r{at}"), started_ms: *at, ..Run::default() };
        started.iter().map(run).collect()
    }

    fn subjects(runs: &[Run]) -> Vec<Subject<'_>> {
        runs.iter().map(|run| Subject { name: run.id.clone(), run, scenario: None }).collect()
    }

    #[track_caller]
    fn check(runs: &[Run], part: &str) {
        let error = in_order(&mut subjects(runs)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn runs_without_a_history_are_refused_with_the_remedy() {
        check(&runs(&[1]), "1 run has no history: name at least 2 runs");
        check(&runs(&(0..=RUNS_MAX as u64).collect::<Vec<_>>()), "at most 500 are followed");
        check(&runs(&[1, 2, 1]), "duplicate run r1");
        let mut cut = runs(&[1, 2]);
        cut[1].interrupted = true;
        check(&cut, "incomplete run r2");
    }

    #[test]
    fn runs_are_followed_in_the_order_in_which_they_were_made() {
        let runs = runs(&[3, 1, 2]);
        let mut subjects = subjects(&runs);
        in_order(&mut subjects).unwrap();
        assert_eq!(subjects.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["r1", "r2", "r3"]);
    }

    #[test]
    fn versions_may_differ_and_nothing_else_may() {
        let mut runs = runs(&[1, 2, 3]);
        runs[1].server.version = Some("8.1".into());
        runs[1].server.product = Some("other 8.1".into());
        runs[2].environment.plimsoll = "0.2.0".into();
        assert_eq!(unlike(&subjects(&runs)), None);
        runs[2].environment.cores = 8;
        let text = unlike(&subjects(&runs)).unwrap().to_string();
        let parts = ["r1 and r3 differ in", "environment.cores: 0 in the first, 8 in the second", "--force"];
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("environment.plimsoll"), "{text}");
    }
}
