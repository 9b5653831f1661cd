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

/// Sets up, and compares numbers of workflow processes: one, two and four, unless the options name others.
pub(crate) fn run_processes(options: &[String]) -> Result<()> {
    let is_named = options.iter().any(|option| option.starts_with("--processes"));
    let usual = ["--processes".to_owned(), "1,2,4".to_owned()];
    campaign("workflow_kills", &[if is_named { &[] } else { &usual[..] }, options].concat())
}

fn campaign(bench: &str, options: &[String]) -> Result<()> {
    setup::run()?;
    let mut campaign = cargo();
    campaign.args(["bench", "--package", "plimsoll", "--features", "full", "--bench", bench, "--"]);
    command::run(campaign.args(options))
}
