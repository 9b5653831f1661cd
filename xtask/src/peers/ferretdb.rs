//! Installs FerretDB with its SQLite backend: Go fetches the pinned module and builds its program.
//!
//! The digest of the module is pinned here. The module's own `go.sum` pins all modules that it depends on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use plimsoll_install::fetch::{self, Output, Stream};
use plimsoll_install::remove;
use serde_json::Value;

use super::Peer;
use crate::command;

const MODULE: &str = "github.com/FerretDB/FerretDB";
const VERSION: &str = "v1.24.2";
/// The digest of the module in the form of `go.sum`.
const SUM: &str = "h1:trrUU0LbmusMbyubhPS1IELncvrIwKrsRT2LW1UUWCw=";
/// The file that the module's own build generates before it compiles. The program reports this version.
const VERSION_FILE: &str = "build/version/version.txt";
/// The number of packages between two reports of the progress; the build compiles about 550.
const REPORT_EVERY: usize = 100;
const HINT: &str = "it needs Go 1.24 or newer, a C compiler and a network (https://go.dev/dl)";

pub(super) fn peer() -> Peer {
    Peer {
        name: "FerretDB 1.24.2",
        directory: "ferretdb",
        pin: format!("{MODULE} {VERSION} {SUM}\n"),
        takes: "Go compiles it once, for 3 to 4 minutes of CPU time",
        make,
    }
}

/// Builds the program into `bin`.
fn make(directory: &Path, log: &Path) -> Result<()> {
    let source = directory.join("source");
    let module = download(directory).context(HINT)?;
    copy(&module, &source)?;
    fs::write(source.join(VERSION_FILE), VERSION).context("write the version of the build")?;
    build(directory, &source, log).context(HINT)?;
    Ok(remove(&source)?)
}

/// Fetches the module into Go's own cache, and returns its directory there. Its digest must be the pinned one.
fn download(directory: &Path) -> Result<String> {
    let mut go = go(directory);
    go.args(["mod", "download", "-json"]).arg(format!("{MODULE}@{VERSION}"));
    let output = go.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("run `go`")?;
    module_directory(&output.stdout)
}

/// The directory in the answer of `go mod download`, if the answer has the pinned digest.
fn module_directory(answer: &[u8]) -> Result<String> {
    let answer: Value = serde_json::from_slice(answer).context("read the answer of `go mod download`")?;
    if let Some(error) = answer["Error"].as_str() {
        anyhow::bail!("`go mod download` failed: {error}");
    }
    let sum = answer["Sum"].as_str().unwrap_or_default();
    ensure!(sum == SUM, "{MODULE} {VERSION} has the digest {sum} instead of {SUM}: try another Go proxy");
    Ok(answer["Dir"].as_str().context("find the module in Go's cache")?.to_owned())
}

/// Copies the module, because files in Go's cache are read-only and one is missing.
fn copy(module: &str, source: &Path) -> Result<()> {
    command::run(Command::new("cp").args(["-r", "--no-preserve=mode", module]).arg(source))
}

fn build(directory: &Path, source: &Path, log: &Path) -> Result<()> {
    let mut go = go(source);
    go.args([
        "build",
        "-v",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-tags",
        "ferretdb_no_postgresql",
    ]);
    go.arg("-o").arg(directory.join("bin/ferretdb")).arg("./cmd/ferretdb");
    let mut packages = 0;
    let finished = fetch::run(go, Stream::Stderr, Some(log), &mut |output| {
        if matches!(output, Output::Line(_)) {
            packages += 1;
            report(packages);
        }
    })?;
    ensure!(finished.status.success(), "`go build` failed ({}):\n{}", finished.status, finished.tail);
    Ok(())
}

fn report(packages: usize) {
    if packages.is_multiple_of(REPORT_EVERY) {
        eprintln!("FerretDB: {packages} packages fetched or compiled");
    }
}

/// Go without the user's flags and workspace.
fn go(directory: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(directory).env("GOFLAGS", "").env("GOWORK", "off");
    go
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_with_another_digest_is_refused() {
        let answer = |sum: &str| format!(r#"{{"Sum": "{sum}", "Dir": "/go/pkg"}}"#).into_bytes();
        assert_eq!(module_directory(&answer(SUM)).unwrap(), "/go/pkg");
        let refused = module_directory(&answer("h1:other=")).unwrap_err().to_string();
        assert!(refused.contains("h1:other=") && refused.contains(SUM), "{refused}");
        let failed = module_directory(br#"{"Error": "no such host"}"#).unwrap_err().to_string();
        assert!(failed.contains("no such host"), "{failed}");
    }
}
