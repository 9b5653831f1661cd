//! Installs the peers of the workflow engine, for its benchmark: programs that Go builds, and Restate's server from npm.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Package, Peer};
use crate::command;

/// The Go module with the programs, from the root of the workspace. Its `go.sum` pins all modules.
const MODULE: &str = "xtask/workflow-peers";
const SUMS: &str = include_str!("../../workflow-peers/go.sum");
/// The module with Temporal, whose dependencies differ.
const TEMPORAL: &str = "xtask/workflow-peers/temporal";
const TEMPORAL_SUMS: &str = include_str!("../../workflow-peers/temporal/go.sum");
const TEMPORAL_PROGRAMS: [&str; 2] = ["temporal", "temporal-server"];
/// The sources of the programs: a changed program is built again.
const SOURCES: &str = concat!(
    include_str!("../../workflow-peers/load/load.go"),
    include_str!("../../workflow-peers/dbos/main.go"),
    include_str!("../../workflow-peers/plimsoll/main.go"),
    include_str!("../../workflow-peers/restate/main.go"),
    include_str!("../../workflow-peers/temporal/temporal/main.go"),
    include_str!("../../workflow-peers/temporal/temporal-server/main.go"),
);
/// The programs of the module. `plimsoll` has the clients of this project's workflow service.
const PROGRAMS: [&str; 3] = ["dbos", "plimsoll", "restate"];
const RESTATE: Package = Package {
    name: "@restatedev/restate-server-linux-x64@1.7.12",
    archive: "restatedev-restate-server-linux-x64-1.7.12.tgz",
    sha256: "4d40ef3b28cd6d96503f2ae9f7d119b6902bead3fbeaadfd865530631959118f",
};

pub(super) fn peer() -> Peer {
    Peer {
        name: "the peers of the workflow engine",
        directory: super::WORKFLOW,
        pin: format!("{} {}\n{SUMS}\n{TEMPORAL_SUMS}\n{SOURCES}", RESTATE.name, RESTATE.sha256),
        takes: "Go compiles five programs and npm fetches 81 MB, once",
        make,
    }
}

/// Puts `dbos`, `plimsoll`, `restate`, `restate-server`, `temporal` and `temporal-server` into the directory.
fn make(directory: &Path, _log: &Path) -> Result<()> {
    build(MODULE, &PROGRAMS, directory)?;
    build(TEMPORAL, &TEMPORAL_PROGRAMS, directory)?;
    RESTATE.unpack(directory, &directory.join("restate"))?;
    fs::rename(directory.join("restate/bin/restate-server"), directory.join("restate-server"))
        .context("move Restate's server")
}

/// Compiles the programs of a module into a directory.
fn build(module: &str, programs: &[&str], directory: &Path) -> Result<()> {
    let mut go = Command::new("go");
    go.env("GOFLAGS", "").env("GOWORK", "off");
    go.args(["build", "-C", module, "-mod=readonly", "-trimpath", "-buildvcs=false", "-o"]).arg(directory);
    go.args(programs.iter().map(|program| format!("./{program}")));
    command::run(&mut go).context("it needs Go 1.26 or newer and a network (https://go.dev/dl)")
}
