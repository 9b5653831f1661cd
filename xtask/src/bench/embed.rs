//! Runs `cargo xtask bench embed`: Plimsoll's embedder compared with its peers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use plimsoll_install::Cache;

use crate::command::{self, cargo};
use crate::{python, setup};

/// The directory of the candle build in the cache: a new version is rebuilt.
const CANDLE: &str = "candle-0.11.1";

/// The peers to compare with.
#[derive(Args)]
pub(crate) struct Embed {
    /// Install Python's ONNX Runtime into the cache first; without it only Plimsoll is measured.
    #[arg(long)]
    install: bool,
    /// Build the candle program into the cache first, which takes some minutes; it needs the files of
    /// `--install`.
    #[arg(long)]
    candle: bool,
    /// Options of the benchmark: --rounds N, --seconds S
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Runs the benchmark; installed or built peers take part again.
pub(crate) fn run(embed: &Embed) -> Result<()> {
    let cache = Cache::locate()?;
    let cache = cache.root();
    setup::model()?;
    if embed.install || embed.candle {
        python::install(cache, &python::EMBEDDING)?;
    }
    if embed.candle {
        build_candle(cache)?;
    }
    let mut command = cargo();
    command.args(["bench", "--package", "plimsoll-onnx", "--bench", "embed", "--", "--cache"]).arg(cache);
    let python = cache.join(python::EMBEDDING.directory).join("bin/python");
    for (option, program) in [("--python", &python), ("--candle", &candle(cache))] {
        if python.exists() && program.exists() {
            command.arg(option).arg(program);
        }
    }
    command::run(command.args(&embed.options))
}

/// Builds for this machine's processor, as candle's authors do, but without their MKL bindings, which no
/// registry provides.
fn build_candle(cache: &Path) -> Result<()> {
    let mut command = cargo();
    command.args(["build", "--release", "--manifest-path", "xtask/candle/Cargo.toml", "--target-dir"]);
    command::run(command.arg(cache.join(CANDLE)).env("RUSTFLAGS", "-C target-cpu=native"))
}

fn candle(cache: &Path) -> PathBuf {
    cache.join(CANDLE).join("release/plimsoll-candle")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_directory_names_the_candle_version() {
        let manifest = include_str!("../../candle/Cargo.toml");
        let version = CANDLE.strip_prefix("candle-").unwrap();
        for part in ["core", "nn", "transformers"] {
            assert!(manifest.contains(&format!("candle-{part} = \"={version}\"")), "{part}");
        }
    }
}
