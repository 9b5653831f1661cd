//! Reads measured runs from run directories, run.json files or directories of runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use plimsoll_measure::comparison::Subject;
use plimsoll_measure::run::{FORMAT, Run};
use serde_json::Value;

use plimsoll_run::run_dir::{self, Named, RUN};

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

/// Reads the runs in `paths`: run directories, run.json files, and directories of run directories. A merged run counts once:
/// its shards are left out.
///
/// # Errors
/// When a path has another form, or cannot be read.
pub fn read_runs(paths: &[PathBuf]) -> anyhow::Result<Vec<Measured>> {
    let all: Vec<Vec<Measured>> = paths.iter().map(|path| group(path)).collect::<anyhow::Result<_>>()?;
    Ok(without_shards(all.concat()))
}

/// The runs without the shards of merged ones, which have the same identity.
fn without_shards(mut runs: Vec<Measured>) -> Vec<Measured> {
    let merged = runs.iter().filter(|it| it.run.joined.is_some());
    let merged: BTreeSet<String> = merged.map(|it| it.run.id.clone()).collect();
    runs.retain(|it| it.run.joined.is_some() || !merged.contains(&it.run.id));
    runs
}

fn group(path: &Path) -> anyhow::Result<Vec<Measured>> {
    let runs = match run_dir::resolve(path)? {
        Named::File(file) => return Ok(vec![read(&file)?]),
        Named::Run(directory) => vec![directory],
        Named::Whole(_, directory) | Named::Runs(directory) => run_dir::runs_in(&directory),
    };
    let ended: Vec<PathBuf> = runs.iter().map(|run| run.join(RUN)).filter(|file| file.is_file()).collect();
    ensure!(
        !ended.is_empty(),
        "{} holds no run: neither it nor a directory below it has a {RUN}; a killed run has none",
        path.display()
    );
    ended.iter().map(|file| read(file)).collect()
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
    use plimsoll_measure::run::Joined;

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
    fn a_merged_run_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), "other", FORMAT);
        for (name, joined) in [("1-of-2", None), ("2-of-2", None), ("merged", Some(Joined::default()))] {
            let run = Run { format: FORMAT, id: "aa".into(), joined, ..Run::default() };
            fs::create_dir_all(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join(RUN), serde_json::to_string(&run).unwrap()).unwrap();
        }
        let found = read_runs(&[dir.path().to_owned()]).unwrap();
        let names: Vec<_> = found.iter().map(|it| it.name.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["merged", "other"]);
        assert_eq!(read_runs(&[dir.path().join("1-of-2")]).unwrap().len(), 1, "a shard alone is a run");
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
