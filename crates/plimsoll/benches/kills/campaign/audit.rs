//! Compares the destination with the source.

use std::path::Path;

use anyhow::{Context, bail};
use plimsoll_stores::audit::Report;

use super::changes;
use super::engine::Engine;
use super::profile::{Profile, Source};
use super::testbed::Testbed;

/// The exit codes of a complete audit: success and mismatch.
const MADE: [i32; 2] = [0, 4];

/// The report of `plimsoll pipeline audit` for a topic; inserted documents are compared with their changes.
pub fn audit(testbed: &Testbed, profile: &Profile, dir: &Path, inserted: u64) -> anyhow::Result<Report> {
    if profile.source == Source::Changes {
        return changes::audit(&testbed.uri(), profile, inserted);
    }
    let file = dir.join(format!("{}.yaml", profile.name));
    let made = Engine::program().args(["pipeline", "audit", "--json"]).arg(file).output();
    let made = made.context("audit the destination")?;
    if !made.status.code().is_some_and(|code| MADE.contains(&code)) {
        bail!("the audit of {} failed: {}", profile.name, String::from_utf8_lossy(&made.stderr).trim());
    }
    serde_json::from_slice(&made.stdout).context("parse the audit")
}
