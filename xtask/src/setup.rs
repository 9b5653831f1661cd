//! Runs `cargo xtask setup`: installs what the tests need into the cache. It is quick when everything is
//! installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use plimsoll_install::Cache;

use crate::command::{self, FULL, cargo};
use crate::{peers, prometheus, python};

/// The programs of this workspace that install something.
const PROGRAMS: [&str; 8] = [
    "--bin",
    "plimsoll",
    "--example",
    "install_broker",
    "--example",
    "install_postgres",
    "--example",
    "install",
];

/// Builds the installing programs, and installs everything.
pub(crate) fn run() -> Result<()> {
    install(&build()?)
}

/// Installs the Python environments, Prometheus, the other servers, a headless browser, the Kafka broker, PostgreSQL, the embedding model and the embedded
/// server with the programs in `built`. It compiles no workspace crate, so another cargo may run meanwhile.
pub(crate) fn install(built: &Path) -> Result<()> {
    let cache = Cache::locate()?;
    python::install(cache.root(), &python::TESTS)?;
    python::install(cache.root(), &python::SCICAT)?;
    prometheus::install(cache.root())?;
    peers::install(cache.root())?;
    // Maven fetches 54 MB the first time, and the client library is built.
    command::run(&mut Command::new(built.join("examples/install_broker")))?;
    // Maven fetches 15 MB the first time.
    command::run(&mut Command::new(built.join("examples/install_postgres")))?;
    // 107 MB and some seconds the first time.
    command::run(Command::new(built.join("examples/install")).arg(cache.root()))?;
    // Runs the command that a user runs; its first build takes minutes.
    command::run(Command::new(built.join("plimsoll")).args(["server", "install"]))
}

/// Installs only the embedding model.
pub(crate) fn model() -> Result<()> {
    let cache = Cache::locate()?;
    let built = build()?;
    command::run(Command::new(built.join("examples/install")).arg(cache.root()))
}

/// Builds the installing programs with the features of the tests, so that the tests compile nothing twice.
/// Returns their directory.
fn build() -> Result<PathBuf> {
    command::run(cargo().args(["build", "--quiet"]).args(FULL).args(PROGRAMS))?;
    Ok(command::target()?.join("debug"))
}
