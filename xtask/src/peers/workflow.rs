//! Installs the peers of the workflow engine, for its benchmark: programs that Go builds, and Restate's server from npm.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use plimsoll_install::digest;

use super::Peer;
use crate::command;

/// The Go module with the programs, from the root of the workspace. Its `go.sum` pins all modules.
const MODULE: &str = "xtask/workflow-peers";
const SUMS: &str = include_str!("../../workflow-peers/go.sum");
/// The programs of the module.
const PROGRAMS: [&str; 2] = ["dbos", "restate"];
/// The package with Restate's server, and the SHA-256 of its archive.
const PACKAGE: &str = "@restatedev/restate-server-linux-x64@1.7.12";
const ARCHIVE: &str = "restatedev-restate-server-linux-x64-1.7.12.tgz";
const ARCHIVE_SHA256: &str = "4d40ef3b28cd6d96503f2ae9f7d119b6902bead3fbeaadfd865530631959118f";

pub(super) fn peer() -> Peer {
    Peer {
        name: "the peers of the workflow engine",
        directory: super::WORKFLOW,
        pin: format!("{PACKAGE} {ARCHIVE_SHA256}\n{SUMS}"),
        takes: "Go compiles two programs and npm fetches 81 MB, once",
        make,
    }
}

/// Puts `dbos`, `restate` and `restate-server` into the directory.
fn make(directory: &Path, _log: &Path) -> Result<()> {
    let mut go = Command::new("go");
    go.env("GOFLAGS", "").env("GOWORK", "off");
    go.args(["build", "-C", MODULE, "-mod=readonly", "-trimpath", "-buildvcs=false", "-o"]).arg(directory);
    go.args(PROGRAMS.map(|program| format!("./{program}")));
    command::run(&mut go).context("it needs Go 1.25 or newer and a network (https://go.dev/dl)")?;
    restate(directory).context("it needs npm and a network (Debian: `apt-get install npm`)")
}

fn restate(directory: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination"]).arg(directory).arg(PACKAGE);
    command::run(npm.stdout(Stdio::null()))?;
    let archive = directory.join(ARCHIVE);
    let (sum, _) = digest::of_file(&archive).with_context(|| format!("read {}", archive.display()))?;
    ensure!(
        sum == ARCHIVE_SHA256,
        "{PACKAGE} has the digest {sum} instead of {ARCHIVE_SHA256}: try another registry"
    );
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&archive).arg("-C").arg(directory);
    command::run(tar.args(["--strip-components=2", "package/bin/restate-server"]))?;
    fs::remove_file(&archive).with_context(|| format!("remove {}", archive.display()))
}
