//! Runs the kill campaign, a benchmark of the program that needs a broker and a server.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::setup;

/// Sets up, and runs the campaign; without `--out` the results go to `target/bench-kills`.
pub(crate) fn run(options: &[String]) -> Result<()> {
    setup::run()?;
    let mut campaign = cargo();
    campaign.args(["bench", "--package", "plimsoll", "--features", "full", "--bench", "kills", "--"]);
    command::run(campaign.args(options))
}
