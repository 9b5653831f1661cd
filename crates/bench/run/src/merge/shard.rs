//! Reads the run directory of a shard.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use plimsoll_load::arrivals::Share;
use plimsoll_measure::run::{FORMAT, Run};
use serde_json::Value;

use crate::run_dir;
use plimsoll_scenario::plan;

/// A measured shard.
#[derive(Clone, Debug)]
pub struct Shard {
    /// Its directory, as the user named it.
    pub name: String,
    /// Its directory as a path.
    pub path: PathBuf,
    /// Its summary.
    pub run: Run,
    /// The shard's share.
    pub share: Share,
    /// Its resolved scenario, if the file exists and can be parsed.
    pub scenario: Option<Value>,
}

impl Shard {
    /// Reads the run directory of a shard.
    ///
    /// # Errors
    /// When the path is not a run directory, or its run did not end.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        ensure!(path.is_dir(), "{name} does not exist: name the run directory of every shard");
        ensure!(
            run_dir::is_run(path),
            "{name} is not a run directory: name the run directory of every shard"
        );
        let run = run_dir::read_run(path).with_context(|| {
            format!("{name} did not end, so its results are incomplete: run all shards again, with a new --start-at")
        })?;
        ensure!(
            run.format == FORMAT,
            "{name} has format {}, and this version knows {FORMAT}: use the version that wrote it",
            run.format
        );
        let share = plan::shard(&run.scenario.shard).with_context(|| format!("understand {name}"))?;
        let text = fs::read_to_string(run_dir::scenario(path)).ok();
        let scenario = text.and_then(|text| serde_saphyr::from_str(&text).ok());
        Ok(Self { name, path: path.to_owned(), run, share, scenario })
    }

    /// The shard's share, as `i/n`.
    pub fn part(&self) -> &str {
        &self.run.scenario.shard
    }
}
