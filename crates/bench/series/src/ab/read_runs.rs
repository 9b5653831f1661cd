//! Reads measured runs from run directories, run.json files or directories of runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use plimsoll_measure::comparison::Subject;
use plimsoll_measure::run::{FORMAT, Run};
use serde_json::Value;

use crate::directory::ASIDE;
use plimsoll_run::run_dir;

const RUN: &str = "run.json";
/// The run directory in the directory of a suite's run.
const OF_SUITE: &str = "run";
/// The largest run.json, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A run and its scenario.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its directory, as the user named it.
    pub name: String,
    /// Its summary.
    pub run: Run,
    /// Its resolved scenario, if the directory has it.
    pub scenario: Option<Value>,
}

impl Measured {
    /// The run as a subject of a comparison.
    pub fn subject(&self) -> Subject<'_> {
        Subject { name: self.name.clone(), run: &self.run, scenario: self.scenario.clone() }
    }
}

/// Reads the runs in `paths`: run directories, run.json files, and directories of run directories.
///
/// # Errors
/// When a path has another form, or cannot be read.
pub fn read_runs(paths: &[PathBuf]) -> anyhow::Result<Vec<Measured>> {
    let all: Vec<Vec<Measured>> = paths.iter().map(|path| group(path)).collect::<anyhow::Result<_>>()?;
    Ok(all.concat())
}

fn group(path: &Path) -> anyhow::Result<Vec<Measured>> {
    if path.is_file() {
        return Ok(vec![read(path)?]);
    }
    ensure!(
        path.is_dir(),
        "{} does not exist: name a run directory, a run.json or a directory of runs",
        path.display()
    );
    if let Some(file) = summary(path) {
        return Ok(vec![read(&file)?]);
    }
    let mut inside: Vec<PathBuf> = fs::read_dir(path)
        .with_context(|| format!("read {}", path.display()))?
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().contains(ASIDE))
        .filter_map(|entry| summary(&entry.path()))
        .collect();
    inside.sort();
    if inside.is_empty() {
        bail!(
            "{} holds no run: neither it nor a directory below it has a {RUN}; a killed run has none",
            path.display()
        );
    }
    inside.iter().map(|file| read(file)).collect()
}

/// The summary of the run in a directory. For a run of a suite it is the summary of the load, not of its warm-up.
fn summary(directory: &Path) -> Option<PathBuf> {
    [directory.join(RUN), directory.join(OF_SUITE).join(RUN)].into_iter().find(|file| file.is_file())
}

/// The run in `file`, and the scenario in the same directory.
///
/// # Errors
/// When it cannot be read or parsed.
pub fn read(file: &Path) -> anyhow::Result<Measured> {
    let size = file.metadata().with_context(|| format!("read {}", file.display()))?.len();
    ensure!(
        size <= FILE_BYTES_MAX,
        "{} has {size} bytes: a run.json has at most {FILE_BYTES_MAX}",
        file.display()
    );
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let run: Run = serde_json::from_str(&text).with_context(|| {
        format!("{} is not a run.json: name a run directory or its run.json", file.display())
    })?;
    ensure!(
        run.format == FORMAT,
        "{} has format {}, and this version knows {FORMAT}: use the version that wrote it",
        file.display(),
        run.format
    );
    let is_own = file.file_name().is_some_and(|name| name == RUN);
    let directory = file.parent().filter(|_| is_own);
    let scenario = directory.and_then(|directory| {
        let text = fs::read_to_string(run_dir::scenario(directory)).ok()?;
        serde_saphyr::from_str(&text).ok()
    });
    let name = directory.unwrap_or(file).display().to_string();
    Ok(Measured { name, run, scenario })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(dir: &Path, name: &str, format: u32) {
        let dir = dir.join(name);
        fs::create_dir_all(&dir).unwrap();
        let run = Run { format, id: name.into(), ..Run::default() };
        fs::write(dir.join(RUN), serde_json::to_string(&run).unwrap()).unwrap();
        fs::write(dir.join("scenario.yaml"), "client: lean\n").unwrap();
    }

    fn names(paths: &[PathBuf]) -> Vec<String> {
        read_runs(paths).unwrap().into_iter().map(|it| it.run.id).collect()
    }

    #[test]
    fn a_run_is_named_by_its_directory_its_file_or_the_parent_directory() {
        let dir = tempfile::tempdir().unwrap();
        ["001-a", "002-b", "001-a.cut-1"].iter().for_each(|name| keep(dir.path(), name, FORMAT));
        assert_eq!(
            names(&[dir.path().to_owned()]),
            ["001-a", "002-b"],
            "directories that were put aside are left out"
        );
        assert_eq!(names(&[dir.path().join("002-b"), dir.path().join("001-a/run.json")]), ["002-b", "001-a"]);
        let it = read_runs(&[dir.path().join("001-a")]).unwrap().remove(0);
        assert_eq!(it.scenario.unwrap()["client"], "lean");
        assert!(it.name.ends_with("001-a"));
    }

    #[test]
    fn the_runs_of_a_suite_are_named_without_their_warm_ups() {
        let dir = tempfile::tempdir().unwrap();
        ["001-a/run", "001-a/warm-up", "002-b/run", "001-a.cut-1/run"]
            .iter()
            .for_each(|name| keep(dir.path(), name, FORMAT));
        assert_eq!(names(&[dir.path().to_owned()]), ["001-a/run", "002-b/run"]);
        assert_eq!(names(&[dir.path().join("001-a")]), ["001-a/run"]);
    }

    #[test]
    fn a_path_without_a_run_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), "later", FORMAT + 1);
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("other.json"), "{\"a\": 1}").unwrap();
        for (name, part) in [
            ("nowhere", "does not exist: name a run directory"),
            ("empty", "holds no run"),
            ("other.json", "is not a run.json"),
            ("later", "use the version that wrote it"),
        ] {
            let message = format!("{:#}", read_runs(&[dir.path().join(name)]).unwrap_err());
            assert!(message.contains(part), "{name}: {message}");
        }
    }
}
