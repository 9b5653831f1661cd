//! Writes and reads the matrix directory: one run directory per run, and the results after every run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use plimsoll_measure::matrix::{FORMAT, Matrix};
use plimsoll_measure::run::Run;
use plimsoll_report::matrix::page;

use super::runs::Found;
use plimsoll_run::run_dir::{self, MATRIX};

const PAGE: &str = "matrix.html";
const SCENARIO: &str = "scenario.yaml";
/// Directories of one run that were put aside.
const ASIDE_MAX: u32 = 100;

/// A matrix directory.
#[derive(Clone, Debug)]
pub struct MatrixDir {
    path: PathBuf,
}

impl MatrixDir {
    /// Makes the directory `out`, or a new one below `plimsoll-runs`.
    ///
    /// # Errors
    /// When it holds something already, or the disk refuses.
    pub fn create(out: Option<&Path>, name: &str, started_ms: u64) -> anyhow::Result<Self> {
        let path = out.map_or_else(|| run_dir::fresh(name, started_ms), Path::to_owned);
        if path.join(MATRIX).is_file() {
            bail!(
                "{} holds a matrix already: go on with it by --resume, or name another directory with --out",
                path.display()
            );
        }
        if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!(
                "{} is not empty: a matrix needs a directory of its own; name another one with --out",
                path.display()
            );
        }
        fs::create_dir_all(&path).with_context(|| {
            format!("make the directory {}; name another place with --out", path.display())
        })?;
        Ok(Self { path })
    }

    /// A directory of an earlier matrix, and what it says.
    ///
    /// # Errors
    /// When it is none, or was written by a later version.
    pub fn open(path: &Path) -> anyhow::Result<(Self, Matrix)> {
        Ok((Self { path: path.to_owned() }, read(path)?))
    }

    /// A directory that holds runs for another purpose.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the scenario as resolved, for nobody else to read: it may hold passwords and tokens of a service.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn scenario(&self, resolved: &str) -> anyhow::Result<()> {
        // A file that is there keeps its mode when it is written again: a new one takes its place.
        let new = self.path.join(format!("{SCENARIO}.new"));
        fs::remove_file(&new).unwrap_or_default();
        run_dir::write_private(&new, resolved)?;
        fs::rename(&new, self.path.join(SCENARIO)).with_context(|| self.full())
    }

    /// Writes what is known, and its page.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save(&self, matrix: &Matrix) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(matrix).context("write matrix.json")?;
        // A crash in the middle of writing leaves the file as it was.
        let new = format!("{MATRIX}.new");
        self.write(&new, &format!("{text}\n"))?;
        fs::rename(self.path.join(new), self.path.join(MATRIX)).with_context(|| self.full())?;
        self.write(PAGE, &page(matrix))
    }

    /// What is there of the run in `directory`.
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
        if let Found::Summary(run) = self.found(directory) { Some(*run) } else { None }
    }

    /// Renames what is there of a run, so that it can be made again. Nothing of it is removed.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn put_aside(&self, directory: &str) -> anyhow::Result<()> {
        let from = self.path.join(directory);
        let aside = (1..=ASIDE_MAX).map(|number| self.path.join(format!("{directory}.cut-{number}")));
        let to = aside.into_iter().find(|path| !path.exists());
        let to = to.with_context(|| {
            format!("{}: put aside {ASIDE_MAX} times: start a new matrix", from.display())
        })?;
        fs::rename(&from, &to).with_context(|| format!("rename {} to {}", from.display(), to.display()))
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.path.join(name), text).with_context(|| self.full())
    }

    fn full(&self) -> String {
        format!(
            "write to {}; is the disk full? Free some space, then go on with --resume {}",
            self.path.display(),
            self.path.display()
        )
    }
}

/// What a matrix directory says.
///
/// # Errors
/// When it is none, or was written by a later version.
pub fn read(path: &Path) -> anyhow::Result<Matrix> {
    let file = path.join(MATRIX);
    let text = fs::read_to_string(&file)
        .with_context(|| format!("read {}; name the directory of a matrix", file.display()))?;
    let matrix: Matrix =
        serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
    if matrix.format != FORMAT {
        bail!(
            "{} has format {}, and this version knows {FORMAT}: use the version that wrote it",
            file.display(),
            matrix.format
        );
    }
    Ok(matrix)
}

/// Writes the page of a matrix from what its directory says.
///
/// # Errors
/// When it is none, or the disk refuses.
pub fn write_page(path: &Path, out: Option<&Path>) -> anyhow::Result<PathBuf> {
    let matrix = read(path)?;
    let out = out.map_or_else(|| path.join(PAGE), Path::to_owned);
    fs::write(&out, page(&matrix)).with_context(|| format!("write {}", out.display()))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nobody_else_reads_the_scenario_even_where_one_lay_that_everybody_could() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(SCENARIO);
        for earlier in [None, Some("old")] {
            if let Some(text) = earlier {
                fs::remove_file(&file).unwrap();
                fs::write(&file, text).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            }
            MatrixDir::at(dir.path()).scenario("http: {auth: …}").unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::read_to_string(&file).unwrap(), "http: {auth: …}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_reads_what_it_writes_and_puts_aside_what_was_cut_off() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("m");
        let dir = MatrixDir::create(Some(&path), "m", 0).unwrap();
        let matrix = Matrix { format: FORMAT, name: "m".into(), ..Matrix::default() };
        dir.save(&matrix).unwrap();
        assert_eq!(read(&path).unwrap(), matrix);
        let again = MatrixDir::create(Some(&path), "m", 0).unwrap_err().to_string();
        assert!(again.contains("go on with it by --resume"), "{again}");

        assert_eq!(dir.found("001-a"), Found::Nothing);
        fs::create_dir(path.join("001-a")).unwrap();
        assert_eq!(dir.found("001-a"), Found::Unfinished);
        dir.put_aside("001-a").unwrap();
        assert_eq!(dir.found("001-a"), Found::Nothing);
        assert!(path.join("001-a.cut-1").is_dir());
    }

    #[test]
    fn a_later_form_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let later = Matrix { format: FORMAT + 1, ..Matrix::default() };
        fs::write(dir.path().join(MATRIX), serde_json::to_string(&later).unwrap()).unwrap();
        assert!(read(dir.path()).unwrap_err().to_string().contains("use the version that wrote it"));
        assert!(read(Path::new("/nowhere")).is_err());
    }
}
