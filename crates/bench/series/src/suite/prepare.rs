//! Starts a suite, or opens an earlier one to complete it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use plimsoll_host::machine;
use plimsoll_measure::clock::{utc, wall_ms};
use plimsoll_measure::suite::{FORMAT, Suite};
use plimsoll_run::system::Registry;

use super::read::{Loaded, parse};
use super::resolve::{Arguments, Test, build, kept, summary, title};
use super::results;
use super::schedule::{is_same, schedule};
use super::typed::Existing;
use crate::directory::{SeriesDir, read};
use crate::same_machine::check_same;

/// The file with the request of a suite: every test with all its columns.
const TYPED: &str = "suite.yaml";

/// A suite that is ready for its runs.
#[derive(Debug)]
pub struct Prepared {
    /// Its directory.
    pub dir: SeriesDir,
    /// Its results so far.
    pub suite: Suite,
    /// Its tests.
    pub tests: Vec<Test>,
}

/// The results before the first run.
pub fn planned(loaded: &Loaded, tests: &[Test]) -> Suite {
    let started_ms = wall_ms();
    Suite {
        format: FORMAT,
        name: loaded.name.clone(),
        title: title(loaded),
        question: loaded.suite.question.clone(),
        started: utc(started_ms),
        started_ms,
        tests: tests.iter().map(summary).collect(),
        runs: schedule(tests),
        ..Suite::default()
    }
}

/// Creates the directory `out`, or a new one, and stores the request in it.
///
/// # Errors
/// When it is not empty, or a file cannot be written.
pub fn begin(out: Option<&Path>, loaded: &Loaded, tests: Vec<Test>) -> anyhow::Result<Prepared> {
    let mut suite = planned(loaded, &tests);
    let dir = SeriesDir::create::<Suite>(out, &format!("{}-suite", suite.name), suite.started_ms)?;
    keep(&dir, loaded, &tests)?;
    suite.environment = machine::environment(dir.path());
    Ok(Prepared { dir, suite, tests })
}

/// Stores the request privately, because a URI in it may contain a password.
fn keep(dir: &SeriesDir, loaded: &Loaded, tests: &[Test]) -> anyhow::Result<()> {
    let text = serde_saphyr::to_string(&kept(loaded, tests));
    dir.replace_private(TYPED, &text.map_err(|error| anyhow!("write the suite as YAML: {error}"))?)?;
    results::write(dir, &[])
}

/// Reads an earlier suite if all its runs are done: then its scenarios need not exist any more.
///
/// # Errors
/// When the directory has no suite.
pub fn completed(path: &Path) -> anyhow::Result<Option<Suite>> {
    let suite: Suite = read(path).with_context(|| {
        format!("--resume {}: name a directory that `plimsoll suite` made", path.display())
    })?;
    Ok(Some(suite).filter(|suite| suite.complete))
}

/// Opens an earlier suite. Its tests and its machine must be the same; `existing` replaces the rules of its rows.
///
/// # Errors
/// When the tests or the machine differ, or another process runs the suite.
pub fn reopen(path: &Path, existing: Option<Existing>, registry: Registry) -> anyhow::Result<Prepared> {
    let (dir, suite, loaded) = open(path)?;
    check_same(&suite.environment, &machine::environment(path))?;
    let mut tests = build(&loaded, &Arguments::default(), registry).context("--resume")?;
    for (test, before) in tests.iter().zip(&suite.tests) {
        ensure!(
            test.name == before.name && test.job.hash == before.hash,
            "--resume: the {} {} of test {} has changed since the suite was started: start anew without --resume",
            before.kind.name(),
            before.what,
            before.name
        );
    }
    ensure!(
        tests.len() == suite.tests.len() && is_same(&schedule(&tests), &suite.runs),
        "--resume: {} names other tests than suite.json: start anew without --resume",
        path.display()
    );
    if let Some(existing) = existing {
        tests.iter_mut().for_each(|test| test.job.rule(existing));
    }
    Ok(Prepared { dir, suite, tests })
}

fn open(path: &Path) -> anyhow::Result<(SeriesDir, Suite, Loaded)> {
    let (dir, suite) = SeriesDir::open::<Suite>(path)?;
    let typed = fs::read_to_string(path.join(TYPED)).with_context(|| format!("read {TYPED}"))?;
    let loaded = parse(&suite.name, TYPED, &typed, PathBuf::from("."))?;
    let rows = results::open(&dir)?;
    // This removes a line that a crash cut off.
    results::write(&dir, &rows)?;
    Ok((dir, Suite { rows, ..suite }, loaded))
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::suite::{Outcome, Row};

    use super::*;

    fn row(run: u32, outcome: Outcome) -> Row {
        Row { run, outcome, test: "a".into(), ..Row::default() }
    }

    fn begun(path: &Path) -> SeriesDir {
        let loaded = parse("s", "s.csv", "name,scenario\na,rate\n", PathBuf::from(".")).unwrap();
        let tests = build(&loaded, &Arguments::default(), crate::suite::kind::TEST_REGISTRY).unwrap();
        let dir = SeriesDir::create::<Suite>(Some(path), "s", 0).unwrap();
        keep(&dir, &loaded, &tests).unwrap();
        dir.save(&planned(&loaded, &tests)).unwrap();
        dir
    }

    #[test]
    fn an_incomplete_line_is_removed_and_its_run_is_written_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("s");
        let dir = begun(&path);
        results::append(&dir, &row(1, Outcome::Completed)).unwrap();
        results::append(&dir, &row(2, Outcome::Completed)).unwrap();
        let file = path.join("results.csv");
        let text = fs::read(&file).unwrap();
        fs::write(&file, &text[..text.len() - 3]).unwrap();
        drop(dir);
        let (dir, suite, loaded) = open(&path).unwrap();
        assert_eq!((suite.rows.len(), loaded.suite.tests.len(), loaded.name.as_str()), (1, 1, "s"));
        results::append(&dir, &row(2, Outcome::Hung)).unwrap();
        drop(dir);
        let rows = open(&path).unwrap().1.rows;
        assert_eq!(rows, [row(1, Outcome::Completed), row(2, Outcome::Hung)]);
    }

    #[test]
    fn a_repeated_run_has_one_line() {
        let parent = tempfile::tempdir().unwrap();
        let dir = begun(&parent.path().join("s"));
        results::append(&dir, &row(1, Outcome::Interrupted)).unwrap();
        results::write(&dir, &[]).unwrap();
        results::append(&dir, &row(1, Outcome::Completed)).unwrap();
        assert_eq!(results::open(&dir).unwrap(), [row(1, Outcome::Completed)]);
        let none = format!("{:#}", completed(parent.path()).unwrap_err());
        assert!(none.contains("a directory that `plimsoll suite` made"), "{none}");
    }
}
