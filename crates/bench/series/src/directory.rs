//! Creates, locks, writes and reads the directory of a series: a suite, a matrix or a comparison.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use plimsoll_measure::comparison::{self, Comparison};
use plimsoll_measure::matrix::{self, Matrix};
use plimsoll_measure::run::Run;
use plimsoll_measure::suite::{self, Suite};
use plimsoll_process::home::try_lock;
use plimsoll_report as report;
use plimsoll_run::run_dir::{self, ASIDE};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum number of earlier attempts of one run.
const ASIDE_MAX: u32 = 100;

/// The results file of a series and its page.
pub trait Results: Serialize + DeserializeOwned {
    /// The kind of series, in one word.
    const KIND: &'static str;
    /// The name of the results file.
    const FILE: &'static str;
    /// The name of the file with the page.
    const PAGE: &'static str;
    /// The version of the file's form that this program supports.
    const FORMAT: u32;

    /// The version of the file's form.
    fn format(&self) -> u32;

    /// The page's text.
    fn page(&self) -> String;
}

impl Results for Suite {
    const KIND: &'static str = "suite";
    const FILE: &'static str = run_dir::SUITE;
    const PAGE: &'static str = "suite.html";
    const FORMAT: u32 = suite::FORMAT;

    fn format(&self) -> u32 {
        self.format
    }

    fn page(&self) -> String {
        report::suite::page(self)
    }
}

impl Results for Matrix {
    const KIND: &'static str = "matrix";
    const FILE: &'static str = run_dir::MATRIX;
    const PAGE: &'static str = "matrix.html";
    const FORMAT: u32 = matrix::FORMAT;

    fn format(&self) -> u32 {
        self.format
    }

    fn page(&self) -> String {
        report::matrix::page(self)
    }
}

impl Results for Comparison {
    const KIND: &'static str = "comparison";
    const FILE: &'static str = run_dir::COMPARISON;
    const PAGE: &'static str = "comparison.html";
    const FORMAT: u32 = comparison::FORMAT;

    fn format(&self) -> u32 {
        self.format
    }

    fn page(&self) -> String {
        report::comparison::page(self, report::comparison::Links::Siblings)
    }
}

/// The state of a run in a directory.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The run has no directory.
    Nothing,
    /// The directory has no summary: the run was interrupted.
    Unfinished,
    /// The directory has a summary.
    Summary(Box<Run>),
}

/// The directory of a series.
#[derive(Debug)]
pub struct SeriesDir {
    path: PathBuf,
    /// The lock, until this value is dropped or the process ends.
    _lock: Option<File>,
}

impl SeriesDir {
    /// Creates the directory `out`, or a new one below `plimsoll-runs`, and locks it.
    ///
    /// # Errors
    /// When it is not empty, or a file cannot be written.
    pub fn create<T: Results>(out: Option<&Path>, name: &str, started_ms: u64) -> anyhow::Result<Self> {
        let path = create::<T>(out, name, started_ms)?;
        Self::locked::<T>(&path)
    }

    /// Opens the directory of an earlier series and locks it.
    ///
    /// # Errors
    /// When it has no such series, another process has locked it, or a later version wrote it.
    pub fn open<T: Results>(path: &Path) -> anyhow::Result<(Self, T)> {
        read::<T>(path).with_context(|| format!("--resume {}", path.display()))?;
        let dir = Self::locked::<T>(path)?;
        // Another process may have written between the first read and the lock.
        Ok((dir, read(path)?))
    }

    /// Locks a directory for this process: two processes would lose each other's results.
    ///
    /// # Errors
    /// When another process has locked it.
    pub fn locked<T: Results>(path: &Path) -> anyhow::Result<Self> {
        let lock = File::create(path.join(format!("{}.lock", T::KIND))).with_context(|| full(path))?;
        try_lock(&lock).with_context(|| {
            format!("{}: another process makes this {}: wait for its end, or end it", path.display(), T::KIND)
        })?;
        Ok(Self { path: path.to_owned(), _lock: Some(lock) })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the results and their page.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save<T: Results>(&self, results: &T) -> anyhow::Result<()> {
        save(&self.path, results, &results.page())
    }

    /// Replaces a file; a crash leaves the old text or the new one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn replace(&self, name: &str, text: &str) -> anyhow::Result<()> {
        replace(&self.path.join(name), text)
    }

    /// Replaces a file that may contain passwords and tokens: only its owner can read it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn replace_private(&self, name: &str, text: &str) -> anyhow::Result<()> {
        // A rewritten file keeps its mode, so a new file takes its place.
        let new = self.path.join(format!("{name}.new"));
        fs::remove_file(&new).unwrap_or_default();
        run_dir::write_private(&new, text)?;
        fs::rename(&new, self.path.join(name)).with_context(|| full(&self.path))
    }

    /// The state of the run in `directory`.
    pub fn found(&self, directory: &str) -> Found {
        let path = self.path.join(directory);
        match run_dir::read_run(&path) {
            Ok(run) => Found::Summary(Box::new(run)),
            Err(_) if path.exists() => Found::Unfinished,
            Err(_) => Found::Nothing,
        }
    }

    /// The summary of the run in `directory`, if it has one.
    pub fn summary(&self, directory: &str) -> Option<Run> {
        run_dir::read_run(&self.path.join(directory)).ok()
    }

    /// Renames the directory of an earlier attempt, if there is one. Its files stay.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn put_aside(&self, directory: &str) -> anyhow::Result<()> {
        let from = self.path.join(directory);
        if !from.exists() {
            return Ok(());
        }
        let mut aside = (1..=ASIDE_MAX).map(|number| self.path.join(format!("{directory}{ASIDE}{number}")));
        let to = aside.find(|path| !path.exists());
        let to = to.with_context(|| {
            format!("{}: put aside {ASIDE_MAX} times: start a new series", from.display())
        })?;
        fs::rename(&from, &to).with_context(|| format!("rename {} to {}", from.display(), to.display()))
    }
}

/// Creates the directory `out`, or a new one below `plimsoll-runs`.
///
/// # Errors
/// When it is not empty, or a file cannot be written.
pub fn create<T: Results>(out: Option<&Path>, name: &str, started_ms: u64) -> anyhow::Result<PathBuf> {
    check_vacant::<T>(out)?;
    let path = out.map_or_else(|| run_dir::fresh(name, started_ms), Path::to_owned);
    fs::create_dir_all(&path).with_context(|| {
        format!("create the directory {}; choose another place with --out", path.display())
    })?;
    Ok(path)
}

/// Refuses a directory that is not empty.
///
/// # Errors
/// When it holds files, or is a file.
pub fn check_vacant<T: Results>(out: Option<&Path>) -> anyhow::Result<()> {
    let Some(fault) = out.and_then(run_dir::occupied) else { return Ok(()) };
    bail!(
        "{fault}: a {kind} needs an empty directory: choose another with --out, or continue an earlier {kind} with --resume",
        kind = T::KIND
    )
}

/// Reads the results of a series.
///
/// # Errors
/// When the directory has no results, or a later version wrote them.
pub fn read<T: Results>(path: &Path) -> anyhow::Result<T> {
    let file = path.join(T::FILE);
    let text = fs::read_to_string(&file)
        .with_context(|| format!("read {}: name the directory of a {}", file.display(), T::KIND))?;
    let results: T = serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
    ensure!(
        results.format() == T::FORMAT,
        "{} has format {}, and this version knows {}: use the version that wrote it",
        file.display(),
        results.format(),
        T::FORMAT
    );
    Ok(results)
}

/// Writes results and a page into a directory.
///
/// # Errors
/// When a file cannot be written.
pub fn save<T: Results>(path: &Path, results: &T, page: &str) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(results).with_context(|| format!("write {}", T::FILE))?;
    replace(&path.join(T::FILE), &format!("{text}\n"))?;
    replace(&path.join(T::PAGE), page)
}

/// Writes the page of a series again, from its results file.
///
/// # Errors
/// When the results are missing, or the page cannot be written.
pub fn write_page<T: Results>(path: &Path, out: Option<&Path>) -> anyhow::Result<PathBuf> {
    let out = out.map_or_else(|| path.join(T::PAGE), Path::to_owned);
    fs::write(&out, read::<T>(path)?.page()).with_context(|| format!("write {}", out.display()))?;
    Ok(out)
}

fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_data()
    });
    written.and_then(|()| fs::rename(&new, path)).with_context(|| full(path))
}

/// The message of a failed write.
pub fn full(path: &Path) -> String {
    format!("write to {}; is the disk full? Free some space", path.display())
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn check<T: Results + PartialEq + Debug>(results: &T, later: &T) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("s");
        let none = format!("{:#}", SeriesDir::open::<T>(parent.path()).unwrap_err());
        assert!(none.contains(&format!("name the directory of a {}", T::KIND)), "{none}");

        let dir = SeriesDir::create::<T>(Some(&path), "s", 0).unwrap();
        dir.save(results).unwrap();
        assert_eq!(&read::<T>(&path).unwrap(), results);
        assert_eq!(write_page::<T>(&path, None).unwrap(), path.join(T::PAGE));
        assert!(path.join(T::PAGE).is_file());
        let again = SeriesDir::create::<T>(Some(&path), "s", 0).unwrap_err().to_string();
        assert!(again.contains("is not empty") && again.contains("with --resume"), "{again}");

        let second = format!("{:#}", SeriesDir::open::<T>(&path).unwrap_err());
        assert!(second.contains(&format!("another process makes this {}", T::KIND)), "{second}");
        drop(dir);
        let (dir, read_back) = SeriesDir::open::<T>(&path).unwrap();
        assert_eq!(&read_back, results);
        dir.save(later).unwrap();
        assert!(read::<T>(&path).unwrap_err().to_string().contains("use the version that wrote it"));
    }

    #[test]
    fn every_series_reads_its_form_refuses_a_later_one_and_is_locked_by_one_process() {
        let matrix = |format| Matrix { format, name: "m".into(), ..Matrix::default() };
        check(&matrix(matrix::FORMAT), &matrix(matrix::FORMAT + 1));
        let suite = |format| Suite { format, name: "s".into(), ..Suite::default() };
        check(&suite(suite::FORMAT), &suite(suite::FORMAT + 1));
        let compared = |format| Comparison { format, title: "x".into(), ..Comparison::default() };
        check(&compared(comparison::FORMAT), &compared(comparison::FORMAT + 1));
    }

    #[test]
    fn a_private_file_replaces_a_public_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("scenario.yaml");
        let series = SeriesDir { path: dir.path().to_owned(), _lock: None };
        for earlier in [None, Some("old")] {
            if let Some(text) = earlier {
                fs::remove_file(&file).unwrap();
                fs::write(&file, text).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            }
            series.replace_private("scenario.yaml", "http: {auth: …}").unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::read_to_string(&file).unwrap(), "http: {auth: …}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_earlier_attempt_is_put_aside() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("m");
        let dir = SeriesDir::create::<Matrix>(Some(&path), "m", 0).unwrap();
        assert_eq!(dir.found("001-a"), Found::Nothing);
        dir.put_aside("001-a").unwrap();
        fs::create_dir(path.join("001-a")).unwrap();
        assert_eq!(dir.found("001-a"), Found::Unfinished);
        dir.put_aside("001-a").unwrap();
        assert_eq!(dir.found("001-a"), Found::Nothing);
        assert!(path.join("001-a.cut-1").is_dir());
    }
}
