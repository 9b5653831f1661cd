//! Writes and reads the comparison directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use plimsoll_measure::comparison::{Comparison, FORMAT};
use plimsoll_report::comparison::{Links, page};
use serde::{Deserialize, Serialize};

use plimsoll_run::run_dir;

/// The file of a comparison directory.
pub use plimsoll_run::run_dir::COMPARISON;
const PAGE: &str = "comparison.html";
const PLAN: &str = "ab.json";

/// What was asked for when a comparison was begun, so that it is gone on with the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// SHA-256 of the scenario as each side resolves it.
    pub hashes: [String; 2],
    /// What A is, in words without passwords.
    pub a: String,
    /// What B is, likewise.
    pub b: String,
    /// The servers that each was asked to be measured on, likewise.
    pub servers: [String; 2],
}

/// Makes the directory `out`, or a new one below `plimsoll-runs`.
///
/// # Errors
/// When it holds something already, or the disk refuses.
pub fn create(out: Option<&Path>, name: &str, started_ms: u64) -> anyhow::Result<PathBuf> {
    let path = out.map_or_else(|| run_dir::fresh(name, started_ms), Path::to_owned);
    if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!(
            "{} is not empty: a comparison needs a directory of its own; name another one with --out, or go on with one of \
             `plimsoll ab` by --resume",
            path.display()
        );
    }
    fs::create_dir_all(&path)
        .with_context(|| format!("make the directory {}; name another place with --out", path.display()))?;
    Ok(path)
}

/// Writes what was found, and its page.
///
/// # Errors
/// When the disk refuses.
pub fn save(path: &Path, comparison: &Comparison, links: Links) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(comparison).context("write comparison.json")?;
    write(path, COMPARISON, &format!("{text}\n"))?;
    write(path, PAGE, &page(comparison, links))
}

/// What a comparison directory says.
///
/// # Errors
/// When it is none, or was written by a later version.
pub fn read(path: &Path) -> anyhow::Result<Comparison> {
    let file = path.join(COMPARISON);
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let comparison: Comparison =
        serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
    ensure!(
        comparison.format == FORMAT,
        "{} has format {}, and this version knows {FORMAT}: use the version that wrote it",
        file.display(),
        comparison.format
    );
    Ok(comparison)
}

/// Keeps what was asked for.
///
/// # Errors
/// When the disk refuses.
pub fn keep_plan(path: &Path, plan: &Plan) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(plan).context("write ab.json")?;
    write(path, PLAN, &format!("{text}\n"))
}

/// Checks that a comparison that was begun is gone on with the same words.
///
/// # Errors
/// When there is none, or others were asked for.
pub fn check_plan(path: &Path, plan: &Plan) -> anyhow::Result<()> {
    let file = path.join(PLAN);
    let text = fs::read_to_string(&file).with_context(|| {
        format!("--resume: read {}; name a directory that `plimsoll ab` made", file.display())
    })?;
    let begun: Plan =
        serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
    ensure!(
        begun == *plan,
        "--resume: {} was begun with another scenario, server, --a or --b: give the same, or begin anew without --resume",
        path.display()
    );
    Ok(())
}

fn write(path: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::write(path.join(name), text)
        .with_context(|| format!("write to {}; is the disk full? Free some space", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_reads_what_it_writes_and_refuses_a_later_form() {
        let dir = tempfile::tempdir().unwrap();
        let path = create(Some(&dir.path().join("c")), "c", 0).unwrap();
        let comparison = Comparison { format: FORMAT, title: "x".into(), ..Comparison::default() };
        save(&path, &comparison, Links::None).unwrap();
        assert_eq!(read(&path).unwrap(), comparison);
        assert!(path.join(PAGE).is_file());
        let again = create(Some(&path), "c", 0).unwrap_err().to_string();
        assert!(again.contains("is not empty"), "{again}");
        save(&path, &Comparison { format: FORMAT + 1, ..comparison }, Links::None).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("use the version that wrote it"));
    }

    #[test]
    fn a_comparison_is_gone_on_with_the_same_words_only() {
        let dir = tempfile::tempdir().unwrap();
        let plan = |b: &str| Plan {
            scenario: "s".into(),
            hashes: ["x".into(), "y".into()],
            a: "as the scenario says".into(),
            b: b.into(),
            servers: [String::new(), String::new()],
        };
        let missing = format!("{:#}", check_plan(dir.path(), &plan("a=1")).unwrap_err());
        assert!(missing.contains("a directory that `plimsoll ab` made"), "{missing}");
        keep_plan(dir.path(), &plan("a=1")).unwrap();
        check_plan(dir.path(), &plan("a=1")).unwrap();
        let other = check_plan(dir.path(), &plan("a=2")).unwrap_err().to_string();
        assert!(other.contains("give the same"), "{other}");
    }
}
