//! Finds the directory that the user named, or the latest one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::{COMPARISON, EVENTS, MATRIX, RUNS, SUITE};

/// The named run directory, or the latest one.
///
/// # Errors
/// When there is no run, or the path is not a run directory.
pub fn locate(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => latest(&[EVENTS, MATRIX])
            .with_context(|| format!("there is no run below {RUNS}: name a run directory"))?,
    };
    if !path.exists() {
        bail!("{} does not exist: name a run directory; runs from here are below {RUNS}", path.display());
    }
    if let Some((whole, path)) = locate_whole(Some(&path)) {
        bail!("{} is {}: name one of the run directories in it", path.display(), whole.words());
    }
    if !path.join(EVENTS).is_file() {
        bail!("{} is not a run directory: it has no {EVENTS}", path.display());
    }
    Ok(path)
}

/// Whether this is a run directory.
pub fn is_run(path: &Path) -> bool {
    path.join(EVENTS).is_file()
}

/// The named matrix directory. Without a name: the latest one, if no run is later.
pub fn locate_matrix(named: Option<&Path>) -> Option<PathBuf> {
    let path = named.map(Path::to_owned).or_else(|| latest(&[EVENTS, MATRIX]))?;
    path.join(MATRIX).is_file().then_some(path)
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

/// Locates the named directory of several runs. Without a name: the latest one, if no run is later.
pub fn locate_whole(named: Option<&Path>) -> Option<(Whole, PathBuf)> {
    let latest = || latest(&[EVENTS, MATRIX, SUITE, COMPARISON]);
    let path = named.map(Path::to_owned).or_else(latest)?;
    let whole = Whole::ALL.into_iter().find(|(file, _)| path.join(file).is_file());
    whole.map(|(_, whole)| (whole, path))
}

/// The latest directory below `plimsoll-runs` that has one of these files.
fn latest(names: &[&str]) -> Option<PathBuf> {
    let runs = fs::read_dir(RUNS).ok()?.flatten().map(|entry| entry.path());
    let written =
        |path: &Path| names.iter().filter_map(|name| path.join(name).metadata().ok()?.modified().ok()).max();
    runs.filter_map(|path| Some((written(&path)?, path))).max().map(|(_, path)| path)
}
