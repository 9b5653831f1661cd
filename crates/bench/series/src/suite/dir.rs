//! Writes and reads the suite directory.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use plimsoll_measure::suite::{FORMAT, Row, Suite};
use plimsoll_report::suite::page;
use rustix::fs::{FlockOperation, flock};

use super::read::{Loaded, parse};
use super::{results, typed};
use crate::matrix::dir::MatrixDir;
use plimsoll_run::run_dir::{self, SUITE};

const PAGE: &str = "suite.html";
const RESULTS: &str = "results.csv";
/// What was asked for, everything spelt out.
const TYPED: &str = "suite.yaml";
/// Who makes the suite holds this file.
const LOCK: &str = "suite.lock";

/// A suite directory, for this process alone: rows that two processes wrote would be lost.
#[derive(Debug)]
pub struct SuiteDir {
    path: PathBuf,
    results: File,
    /// Held until this value is gone, or the process.
    _lock: File,
}

impl SuiteDir {
    /// Makes the directory `out`, or a new one below `plimsoll-runs`, and keeps what was asked for.
    ///
    /// # Errors
    /// When it holds something already, or the disk refuses.
    pub fn create(
        out: Option<&Path>,
        name: &str,
        asked: &typed::Suite,
        started_ms: u64,
    ) -> anyhow::Result<Self> {
        let path = out.map_or_else(|| run_dir::fresh(&format!("{name}-suite"), started_ms), Path::to_owned);
        if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!(
                "{} is not empty: a suite needs a directory of its own; name another one with --out, or go on with an earlier \
                 one by --resume",
                path.display()
            );
        }
        fs::create_dir_all(&path).with_context(|| {
            format!("make the directory {}; name another place with --out", path.display())
        })?;
        let lock = hold(&path)?;
        let text =
            serde_saphyr::to_string(asked).map_err(|error| anyhow!("write the suite as YAML: {error}"))?;
        // A URI may hold a password.
        run_dir::write_private(&path.join(TYPED), &text)?;
        replace(&path.join(RESULTS), &results::header())?;
        Ok(Self { results: appending(&path)?, path, _lock: lock })
    }

    /// An earlier suite: what was asked for, and what is known of its runs. What a crash cut off is removed.
    ///
    /// # Errors
    /// When there is none, or somebody changed it.
    pub fn open(path: &Path) -> anyhow::Result<(Self, Loaded, Suite)> {
        resumed(path)?;
        let lock = hold(path)?;
        // What it says now that nobody else writes to it.
        let suite = resumed(path)?;
        let typed = fs::read_to_string(path.join(TYPED)).with_context(|| format!("read {TYPED}"))?;
        let loaded = parse(&suite.name, TYPED, &typed, PathBuf::from("."))?;
        let text = fs::read(path.join(RESULTS)).with_context(|| format!("read {RESULTS}"))?;
        let rows = results::read(&String::from_utf8_lossy(&text)).context(RESULTS)?;
        let lines: String = rows.iter().map(results::line).collect();
        replace(&path.join(RESULTS), &(results::header() + &lines))?;
        let dir = Self { results: appending(path)?, path: path.to_owned(), _lock: lock };
        Ok((dir, loaded, Suite { rows, ..suite }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty directory for a run; what an earlier try left there is put aside.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn run(&self, directory: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join(directory);
        if path.exists() {
            MatrixDir::at(&self.path).put_aside(directory)?;
        }
        fs::create_dir(&path).with_context(|| format!("make the directory {}", path.display()))?;
        Ok(path)
    }

    /// Appends what came of a run: it is on the disk when this is done.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn append(&mut self, row: &Row) -> anyhow::Result<()> {
        let line = results::line(row);
        let written = self.results.write_all(line.as_bytes()).and_then(|()| self.results.sync_data());
        written.with_context(|| full(&self.path))
    }

    /// Removes what is known of runs that are made again, so that there is one line a run at the end.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn keep(&mut self, rows: &[Row]) -> anyhow::Result<()> {
        let lines: String = rows.iter().map(results::line).collect();
        replace(&self.path.join(RESULTS), &(results::header() + &lines))?;
        self.results = appending(&self.path)?;
        Ok(())
    }

    /// Writes what the runs say together, and its page.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save(&self, suite: &Suite) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(suite).context("write suite.json")?;
        replace(&self.path.join(SUITE), &format!("{text}\n"))?;
        replace(&self.path.join(PAGE), &page(suite))
    }
}

/// What the directory of an earlier suite says.
///
/// # Errors
/// When there is none.
pub fn resumed(path: &Path) -> anyhow::Result<Suite> {
    read(path)
        .with_context(|| format!("--resume {}: name a directory that `plimsoll suite` made", path.display()))
}

/// Takes a suite directory for this process.
fn hold(path: &Path) -> anyhow::Result<File> {
    let lock = File::create(path.join(LOCK)).with_context(|| full(path))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(|| {
        format!(
            "{}: another process makes this suite, and each would lose what the other writes; wait for its end, or end it",
            path.display()
        )
    })?;
    Ok(lock)
}

fn appending(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new().append(true).open(path.join(RESULTS)).context("open the results")
}

/// What a suite directory says.
///
/// # Errors
/// When it is none, or was written by a later version.
pub fn read(path: &Path) -> anyhow::Result<Suite> {
    let file = path.join(SUITE);
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let suite: Suite =
        serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
    ensure!(
        suite.format == FORMAT,
        "{} has format {}, and this version knows {FORMAT}: use the version that wrote it",
        file.display(),
        suite.format
    );
    Ok(suite)
}

/// Writes a file so that a crash leaves it as it was or as it will be.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_data()
    });
    written.and_then(|()| fs::rename(&new, path)).with_context(|| full(path))
}

fn full(path: &Path) -> String {
    format!("write to {}; is the disk full? Free some space", path.display())
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::suite::Outcome;

    use super::*;

    fn row(run: u32, outcome: Outcome) -> Row {
        Row { run, outcome, test: "a".into(), ..Row::default() }
    }

    fn begun(path: &Path) -> SuiteDir {
        let asked = typed::Suite {
            tests: vec![typed::Row {
                name: Some("a".into()),
                scenario: Some("rate".into()),
                ..typed::Row::default()
            }],
            ..typed::Suite::default()
        };
        let dir = SuiteDir::create(Some(path), "s", &asked, 0).unwrap();
        dir.save(&Suite { format: FORMAT, name: "s".into(), ..Suite::default() }).unwrap();
        dir
    }

    #[test]
    fn what_a_crash_cut_off_is_removed_and_the_next_line_is_whole() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("s");
        let mut dir = begun(&path);
        dir.append(&row(1, Outcome::Completed)).unwrap();
        dir.append(&row(2, Outcome::Completed)).unwrap();
        let file = path.join(RESULTS);
        let text = fs::read(&file).unwrap();
        fs::write(&file, &text[..text.len() - 3]).unwrap();
        drop(dir);
        let (mut dir, loaded, suite) = SuiteDir::open(&path).unwrap();
        assert_eq!((suite.rows.len(), loaded.suite.tests.len(), loaded.name.as_str()), (1, 1, "s"));
        dir.append(&row(2, Outcome::Hung)).unwrap();
        drop(dir);
        let rows = SuiteDir::open(&path).unwrap().2.rows;
        assert_eq!(rows, [row(1, Outcome::Completed), row(2, Outcome::Hung)]);
    }

    #[test]
    fn a_run_that_is_made_again_has_one_line_and_its_first_try_is_put_aside() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("s");
        let mut dir = begun(&path);
        dir.append(&row(1, Outcome::Interrupted)).unwrap();
        dir.run("001-a").unwrap();
        fs::write(path.join("001-a/x"), "").unwrap();
        dir.keep(&[]).unwrap();
        dir.run("001-a").unwrap();
        dir.append(&row(1, Outcome::Completed)).unwrap();
        drop(dir);
        assert_eq!(SuiteDir::open(&path).unwrap().2.rows, [row(1, Outcome::Completed)]);
        assert!(path.join("001-a.cut-1/x").is_file());
    }

    #[test]
    fn a_suite_is_made_by_one_process_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("s");
        let dir = begun(&path);
        let second = format!("{:#}", SuiteDir::open(&path).unwrap_err());
        assert!(second.contains("another process makes this suite"), "{second}");
        drop(dir);
        let (mut dir, ..) = SuiteDir::open(&path).unwrap();
        dir.keep(&[]).unwrap();
        assert!(SuiteDir::open(&path).is_err(), "it is held for as long as the suite is made");
    }

    #[test]
    fn a_directory_that_is_taken_or_is_none_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("s");
        begun(&path);
        let again = SuiteDir::create(Some(&path), "s", &typed::Suite::default(), 0).unwrap_err().to_string();
        assert!(again.contains("go on with an earlier one by --resume"), "{again}");
        let none = format!("{:#}", SuiteDir::open(parent.path()).unwrap_err());
        assert!(none.contains("a directory that `plimsoll suite` made"), "{none}");
    }
}
