//! Compares the destination with the source.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use plimsoll_stores::audit::Report;

use super::changes;
use super::engine::Engine;
use super::profile::{Profile, Source};
use super::testbed::Testbed;

/// The ledger in the directory of a run that produced records.
const LEDGER: &str = "acknowledged.ndjson";
/// The exit codes of a complete audit: success and mismatch.
const MADE: [i32; 2] = [0, 4];

/// The report of `plimsoll pipeline audit` for a topic; inserted documents are compared with their changes.
pub fn audit(testbed: &Testbed, profile: &Profile, dir: &Path, inserted: u64) -> anyhow::Result<Report> {
    if profile.source == Source::Changes {
        return changes::audit(&testbed.uri(), profile, inserted);
    }
    let file = dir.join(format!("{}.yaml", profile.name));
    let mut program = Engine::program();
    program.args(["pipeline", "audit", "--json"]).arg(file);
    for run in ledgers(dir, profile.name)? {
        program.arg("--produced").arg(run);
    }
    let made = program.output();
    let made = made.context("audit the destination")?;
    if !made.status.code().is_some_and(|code| MADE.contains(&code)) {
        bail!("the audit of {} failed: {}", profile.name, String::from_utf8_lossy(&made.stderr).trim());
    }
    serde_json::from_slice(&made.stdout).context("parse the audit")
}

/// The directories of the feeders' runs that had a record acknowledged. A broker that loses such a record
/// loses it from the source too, so that only these ledgers show the loss.
///
/// # Errors
/// No such run exists, or the directory cannot be read.
pub fn ledgers(dir: &Path, name: &str) -> anyhow::Result<Vec<PathBuf>> {
    let feed = format!("{name}-feed-");
    let is_ledger = |run: &PathBuf| {
        let is_feed = run.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&feed));
        is_feed && fs::metadata(run.join(LEDGER)).is_ok_and(|ledger| ledger.len() > 0)
    };
    let entries = fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    let runs: Vec<PathBuf> =
        entries.map_while(Result::ok).map(|entry| entry.path()).filter(is_ledger).collect();
    if runs.is_empty() {
        bail!("no run in {} has a ledger of {feed}*: the broker's losses would not show", dir.display());
    }
    Ok(runs)
}
