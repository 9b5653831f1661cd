//! Writes the directory of a pipeline's run.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use plimsoll_measure::stream::{Second, Stream};

use super::typed::PipelineFile;
use plimsoll_run::run_dir::{fresh, occupied, write_private};

const FILE: &str = "pipeline.yaml";
const SECONDS: &str = "seconds.ndjson";
const SUMMARY: &str = "pipeline.json";

/// The directory of a pipeline's run.
pub struct Dir {
    path: PathBuf,
    seconds: BufWriter<File>,
}

impl Dir {
    /// Creates the directory, and writes the resolved file into it.
    ///
    /// # Errors
    /// The directory is not empty, or cannot be written.
    pub fn create(out: Option<&Path>, file: &PipelineFile, started_ms: u64) -> anyhow::Result<Self> {
        let path = out.map_or_else(|| fresh(&file.name, started_ms), Path::to_owned);
        if let Some(fault) = occupied(&path) {
            bail!("{fault}: name another directory with --out");
        }
        let here = || format!("make the directory {}; name another place with --out", path.display());
        fs::create_dir_all(&path).with_context(here)?;
        let text =
            serde_saphyr::to_string(file).map_err(|error| anyhow!("write the pipeline as YAML: {error}"))?;
        write_private(&path.join(FILE), &text)?;
        let seconds = BufWriter::new(File::create(path.join(SECONDS)).with_context(here)?);
        Ok(Self { path, seconds })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a second; when this returns, the line is handed to the system.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn keep(&mut self, second: &Second) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.seconds, second)?;
        self.seconds.write_all(b"\n")?;
        Ok(self.seconds.flush()?)
    }

    /// Writes the summary.
    ///
    /// # Errors
    /// The summary cannot be written.
    pub fn conclude(&self, stream: &Stream) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(stream)? + "\n";
        fs::write(self.path.join(SUMMARY), text).with_context(|| format!("write to {}", self.path.display()))
    }
}
