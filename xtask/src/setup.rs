//! `cargo xtask setup`: installs what the tests need into the cache. Quick when it is there.

use anyhow::Result;

use crate::command::cargo;
use crate::{cache, command, python};

/// Installs the embedded server and the Python environment.
pub(crate) fn run() -> Result<()> {
    server()?;
    python::install(&cache::directory()?)
}

/// The binary's own command does it, so that ours is the way of a user too. It builds for minutes the first time.
fn server() -> Result<()> {
    command::run(cargo().args(["run", "--quiet", "--package", "plimsoll", "--", "server", "install"]))
}
