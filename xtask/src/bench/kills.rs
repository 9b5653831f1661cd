//! The campaign of kills, which is a benchmark of the program: it needs the program, a broker and a server.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::setup;

/// Sets up, and runs the campaign; without `--out` it keeps its results under `target/bench-kills`.
pub(crate) fn run(options: &[String]) -> Result<()> {
    setup::run()?;
    let mut campaign = cargo();
    campaign.args(["bench", "--package", "plimsoll", "--features", "full", "--bench", "kills", "--"]);
    command::run(campaign.args(options))
}
