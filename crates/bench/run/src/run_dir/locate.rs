//! Resolves the path that the user named, or finds the latest result.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::{ASIDE, COMPARISON, EVENTS, MATRIX, RUN, RUNS, SUITE};

/// The name of the run directory inside the directory of a suite's run.
const OF_SUITE: &str = "run";

/// The kinds of results that a path can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A run directory.
    Run(PathBuf),
    /// The directory of a matrix, a suite or a comparison.
    Whole(Whole, PathBuf),
    /// A directory of runs.
    Runs(PathBuf),
    /// A file outside a run directory: a copied run.json, or a result of another tool.
    File(PathBuf),
}

/// The kind of a directory that holds several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// A matrix.
    Matrix,
    /// A suite of tests.
    Suite,
    /// A comparison.
    Comparison,
}

impl Whole {
    const ALL: [(&str, Self); 3] =
        [(MATRIX, Self::Matrix), (SUITE, Self::Suite), (COMPARISON, Self::Comparison)];

    /// A description of the kind.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Matrix => "a matrix of runs",
            Self::Suite => "a suite of tests",
            Self::Comparison => "a comparison",
        }
    }
}

/// Resolves a path: a run directory, its run.json, the directory or the results file of a matrix, a suite or a comparison, a
/// directory of runs, or another file.
///
/// # Errors
/// When the path does not exist, or is a directory without a run.
pub fn resolve(path: &Path) -> anyhow::Result<Named> {
    if !path.exists() {
        bail!(
            "{} does not exist: name a run directory, its run.json or a directory of runs; runs from here are below {RUNS}",
            path.display()
        );
    }
    if path.is_file() {
        let directory = path.parent().filter(|_| is_result(path)).map(in_words);
        return Ok(directory
            .and_then(|path| directly(&path))
            .unwrap_or_else(|| Named::File(path.to_owned())));
    }
    if let Some(named) = directly(path) {
        return Ok(named);
    }
    if runs_in(path).is_empty() {
        bail!(
            "{} holds no run: neither it nor a directory below it has a {RUN} or an {EVENTS}; name a run directory, its {RUN} \
             or a directory of runs",
            path.display()
        );
    }
    Ok(Named::Runs(path.to_owned()))
}

/// Whether a file is named like the results file of a run or of several runs.
fn is_result(file: &Path) -> bool {
    [RUN, MATRIX, SUITE, COMPARISON].iter().any(|name| file.file_name().is_some_and(|it| it == *name))
}

/// The parent directory of a file as a path: `.` for a bare file name, whose parent is empty.
fn in_words(parent: &Path) -> PathBuf {
    if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() }
}

/// The result that a directory itself holds.
fn directly(directory: &Path) -> Option<Named> {
    let whole = Whole::ALL.into_iter().find(|(file, _)| directory.join(file).is_file());
    match whole {
        Some((_, whole)) => Some(Named::Whole(whole, directory.to_owned())),
        None => run_in(directory).map(Named::Run),
    }
}

/// The run directory: this directory itself, or the one that it holds for the load (not the warm-up) of a suite's run.
fn run_in(directory: &Path) -> Option<PathBuf> {
    let is_named = |path: &PathBuf| path.join(RUN).is_file() || is_run(path);
    [directory.to_owned(), directory.join(OF_SUITE)].into_iter().find(is_named)
}

/// The run directories directly below a directory, by name. Earlier attempts, which were put aside, are left out.
pub fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let current = entries.filter(|entry| !entry.file_name().to_string_lossy().contains(ASIDE));
    let mut runs: Vec<PathBuf> = current.filter_map(|entry| run_in(&entry.path())).collect();
    runs.sort();
    runs
}

/// The named run directory, or the latest one.
///
/// # Errors
/// When no run exists, or the path names no run.
pub fn locate(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match locate_run_or_matrix(named)? {
        Named::Run(path) => Ok(path),
        Named::Whole(whole, path) => {
            bail!("{} is {}: name one of the run directories in it", path.display(), whole.words())
        }
        Named::Runs(path) | Named::File(path) => {
            bail!("{} is not a run directory or its {RUN}: name one of these", path.display())
        }
    }
}

/// The named result. For a directory of runs, the latest result in it. Without a name, the latest result below `plimsoll-runs`.
///
/// # Errors
/// When there is no result.
pub fn locate_any(named: Option<&Path>) -> anyhow::Result<Named> {
    locate_among(named, &[EVENTS, RUN, MATRIX, SUITE, COMPARISON])
}

/// The named result as [`locate_any`]. The latest one is a run or a matrix.
///
/// # Errors
/// When there is no run.
pub fn locate_run_or_matrix(named: Option<&Path>) -> anyhow::Result<Named> {
    locate_among(named, &[EVENTS, RUN, MATRIX])
}

fn locate_among(named: Option<&Path>, files: &[&str]) -> anyhow::Result<Named> {
    let directory = match named.map(resolve).transpose()? {
        Some(Named::Runs(directory)) => directory,
        Some(other) => return Ok(other),
        None => PathBuf::from(RUNS),
    };
    let none = || format!("there is no run below {}: name a run directory", directory.display());
    let latest = latest(&directory, files).with_context(none)?;
    directly(&latest).with_context(none)
}

/// Whether this is a run directory.
pub fn is_run(path: &Path) -> bool {
    path.join(EVENTS).is_file()
}

/// The latest directory below `directory` that has one of these files.
fn latest(directory: &Path, names: &[&str]) -> Option<PathBuf> {
    let runs = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    let written =
        |path: &Path| names.iter().filter_map(|name| path.join(name).metadata().ok()?.modified().ok()).max();
    let written = |path: PathBuf| Some((written(&path).or_else(|| written(&path.join(OF_SUITE)))?, path));
    runs.filter_map(written).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path, name: &str) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}").unwrap();
    }

    #[test]
    fn a_run_is_named_by_its_directory_or_its_summary() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in [
            "ended/run.json",
            "killed/events.ndjson",
            "of-suite/run/run.json",
            "m/matrix.json",
            "m/001/run.json",
        ] {
            file(dir.path(), name);
        }
        for (name, expected) in [
            ("ended", Named::Run(at("ended"))),
            ("ended/run.json", Named::Run(at("ended"))),
            ("killed", Named::Run(at("killed"))),
            ("of-suite", Named::Run(at("of-suite/run"))),
            ("m", Named::Whole(Whole::Matrix, at("m"))),
            ("m/matrix.json", Named::Whole(Whole::Matrix, at("m"))),
            ("m/001", Named::Run(at("m/001"))),
            ("killed/events.ndjson", Named::File(at("killed/events.ndjson"))),
            ("", Named::Runs(at(""))),
        ] {
            assert_eq!(resolve(&at(name)).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn a_directory_of_runs_means_the_latest_one() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["1/run.json", "3/run.json", "2/run.json"] {
            file(dir.path(), name);
        }
        let later = fs::File::options().write(true).open(dir.path().join("2/run.json")).unwrap();
        later
            .set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000))
            .unwrap();
        assert_eq!(locate(Some(dir.path())).unwrap(), dir.path().join("2"));
        assert_eq!(runs_in(dir.path()), ["1", "2", "3"].map(|name| dir.path().join(name)));
    }

    #[test]
    fn a_path_without_a_run_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "notes.txt");
        file(dir.path(), "s/suite.json");
        for (name, part) in [
            ("nowhere", "does not exist: name a run directory, its run.json or a directory of runs"),
            ("notes.txt", "is not a run directory or its run.json"),
            ("s", "is a suite of tests: name one of the run directories in it"),
            ("", "holds no run"),
        ] {
            let message = format!("{:#}", locate(Some(&dir.path().join(name))).unwrap_err());
            assert!(message.contains(part), "{name}: {message}");
        }
    }
}
