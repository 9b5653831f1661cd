//! Runs the kill campaigns, benchmarks of the program that need a broker and a server.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::setup;

/// Sets up, and runs the campaign of pipelines; without `--out` the results go to `target/bench-kills`.
pub(crate) fn run(options: &[String]) -> Result<()> {
    campaign("kills", options)
}

/// Sets up, and runs the campaign of workflow engines; without `--out` the results go to `target/bench-workflow-kills`.
pub(crate) fn run_workflow(options: &[String]) -> Result<()> {
    campaign("workflow_kills", options)
}

fn campaign(bench: &str, options: &[String]) -> Result<()> {
    setup::run()?;
    let mut campaign = cargo();
    campaign.args(["bench", "--package", "plimsoll", "--features", "full", "--bench", bench, "--"]);
    command::run(campaign.args(options))
}
