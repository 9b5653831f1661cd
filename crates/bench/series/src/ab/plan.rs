//! Stores the request of a comparison, so that it continues with the same request: `ab.json`.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::directory::SeriesDir;

const FILE: &str = "ab.json";

/// The request of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// SHA-256 of the scenario as each side resolves it.
    pub hashes: [String; 2],
    /// The description of A, without passwords.
    pub a: String,
    /// The description of B, without passwords.
    pub b: String,
    /// The servers of each side, without passwords.
    pub servers: [String; 2],
}

impl Plan {
    /// Writes it into a directory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, dir: &SeriesDir) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("write ab.json")?;
        dir.replace(FILE, &format!("{text}\n"))
    }

    /// Checks that an earlier comparison had the same request.
    ///
    /// # Errors
    /// When the request is missing, or differs.
    pub fn check(&self, path: &Path) -> anyhow::Result<()> {
        let file = path.join(FILE);
        let text = fs::read_to_string(&file).with_context(|| {
            format!("--resume: read {}; name a directory that `plimsoll ab` made", file.display())
        })?;
        let earlier: Self =
            serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
        ensure!(
            earlier == *self,
            "--resume: {} was started with another scenario, server, --a or --b: give the same, or start anew without --resume",
            path.display()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::comparison::Comparison;

    use super::*;

    #[test]
    fn a_comparison_continues_with_the_same_request_only() {
        let parent = tempfile::tempdir().unwrap();
        let plan = |b: &str| Plan {
            scenario: "s".into(),
            hashes: ["x".into(), "y".into()],
            a: "as the scenario says".into(),
            b: b.into(),
            servers: [String::new(), String::new()],
        };
        let path = parent.path().join("c");
        let missing = format!("{:#}", plan("a=1").check(&path).unwrap_err());
        assert!(missing.contains("a directory that `plimsoll ab` made"), "{missing}");
        plan("a=1").keep(&SeriesDir::create::<Comparison>(Some(&path), "c", 0).unwrap()).unwrap();
        plan("a=1").check(&path).unwrap();
        let other = plan("a=2").check(&path).unwrap_err().to_string();
        assert!(other.contains("give the same"), "{other}");
    }
}
