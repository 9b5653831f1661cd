//! `cargo xtask setup`: installs what the tests need into the cache. Quick when it is there.

use std::path::Path;

use anyhow::Result;
use plimsoll_install::Cache;

use crate::command::cargo;
use crate::{command, prometheus, python};

/// Installs the embedded server, the Kafka broker, the Python environment, Prometheus and the embedding model.
pub(crate) fn run() -> Result<()> {
    server()?;
    broker()?;
    let cache = Cache::locate()?;
    python::install(cache.root(), &python::TESTS)?;
    prometheus::install(cache.root())?;
    model(cache.root())
}

/// The binary's own command does it, so that ours is the way of a user too. It builds for minutes the first time.
fn server() -> Result<()> {
    command::run(cargo().args(["run", "--quiet", "--package", "plimsoll", "--", "server", "install"]))
}

/// Maven fetches 54 MB the first time, and the client library is built.
fn broker() -> Result<()> {
    let words = "run --quiet --package plimsoll-kafka --example install_broker";
    command::run(cargo().args(words.split(' ')))
}

/// 107 MB and some seconds the first time. It is built without the runtime, which it does not need.
pub(crate) fn model(cache: &Path) -> Result<()> {
    let words = "run --quiet --package plimsoll-onnx --no-default-features --example install --";
    command::run(cargo().args(words.split(' ')).arg(cache))
}
