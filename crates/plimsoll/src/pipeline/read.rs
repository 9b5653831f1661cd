//! Reads a pipeline's file.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::typed::PipelineFile;
use crate::scenario::{Text, parse_with};

/// A pipeline's file that was read, and the folder that its relative paths start from.
///
/// # Errors
/// What cannot be found, read or understood, and where.
pub fn read(file: &Path, overrides: &[String]) -> anyhow::Result<(PipelineFile, PathBuf)> {
    if !file.is_file() {
        bail!("there is no pipeline `{}`: name a YAML file that says `source` and `sink`", file.display());
    }
    let Text { name, base, text, origin } = Text::of_file(file)?;
    let mut pipeline: PipelineFile = parse_with(&text, &origin, overrides)?;
    if pipeline.name.is_empty() {
        pipeline.name = name;
    }
    Ok((pipeline, base))
}
