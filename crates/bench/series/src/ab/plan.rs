//! Stores the request of a comparison, so that it continues with the same request: `ab.json`.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::directory::SeriesDir;

const FILE: &str = "ab.json";

/// The request of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The criteria, fixed before the first run; absent in older directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criteria: Option<Criteria>,
}

/// The criteria of a comparison. No seen result may influence them, because p is valid only for a test that was fixed beforehand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// The metric that decides; if absent, throughput, or p99 where the schedule gives the rate.
    pub primary: Option<String>,
    /// The smallest relevant difference, as a share.
    pub min_effect: f64,
    /// The number of pairs.
    pub pairs: u32,
}

impl Plan {
    /// Writes the request into the directory of a comparison.
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
        let (mine, known) = (self.criteria.as_ref(), earlier.criteria.as_ref());
        let request = Self { criteria: self.criteria.clone(), ..earlier.clone() };
        ensure!(
            request == *self,
            "--resume: {} was started with another scenario, server, --a or --b: give the same, or start anew without --resume",
            path.display()
        );
        if let (Some(mine), Some(known)) = (mine, known)
            && mine != known
        {
            bail!(
                "--resume: {} was started with {}, and a result that was seen must not change that: give the same, or start anew without \
                 --resume",
                path.display(),
                known.words()
            );
        }
        Ok(())
    }
}

impl Criteria {
    /// The options that give these criteria.
    fn words(&self) -> String {
        let Self { primary, min_effect, pairs } = self;
        let primary =
            primary.as_ref().map_or("without --primary".to_owned(), |name| format!("--primary {name}"));
        format!("--pairs {pairs} --min-effect {}% {primary}", (min_effect * 1e6).round() / 1e4)
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
            criteria: Some(criteria(None, 10)),
        };
        let path = parent.path().join("c");
        let missing = format!("{:#}", plan("a=1").check(&path).unwrap_err());
        assert!(missing.contains("a directory that `plimsoll ab` made"), "{missing}");
        plan("a=1").keep(&SeriesDir::create::<Comparison>(Some(&path), "c", 0).unwrap()).unwrap();
        plan("a=1").check(&path).unwrap();
        let other = plan("a=2").check(&path).unwrap_err().to_string();
        assert!(other.contains("give the same"), "{other}");
        for changed in [criteria(Some("response.p99"), 10), criteria(None, 20), criteria(None, 8)] {
            let seen = Plan { criteria: Some(changed), ..plan("a=1") }.check(&path).unwrap_err().to_string();
            assert!(seen.contains("was started with --pairs 10 --min-effect 3% without --primary"), "{seen}");
        }
        // A directory of an older version does not know its criteria.
        fs::remove_file(path.join(FILE)).unwrap();
        let old = Plan { criteria: None, ..plan("a=1") };
        fs::write(path.join(FILE), serde_json::to_string(&old).unwrap()).unwrap();
        plan("a=1").check(&path).unwrap();
    }

    fn criteria(primary: Option<&str>, pairs: u32) -> Criteria {
        Criteria { primary: primary.map(str::to_owned), min_effect: 0.03, pairs }
    }
}
