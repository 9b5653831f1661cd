//! `cargo xtask test`: everything that must hold, the quick before the slow.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::setup;
use crate::steps::Steps;

/// Runs all steps and prints how long each took, also when one fails.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    let result = all(&mut steps);
    eprint!("\n{steps}");
    result
}

fn all(steps: &mut Steps) -> Result<()> {
    steps.run("format", format)?;
    steps.run("lint", lint)?;
    steps.run("setup", setup::run)?;
    steps.run("test", test)?;
    steps.run("docs", docs)
}

fn format() -> Result<()> {
    command::run(cargo().args(["fmt", "--all", "--check"]))
}

/// Also of the program without Kafka and vectors, which the README offers.
fn lint() -> Result<()> {
    command::run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let lean = ["clippy", "--package", "plimsoll", "--no-default-features", "--", "-D", "warnings"];
    command::run(cargo().args(lean))
}

fn test() -> Result<()> {
    command::run(cargo().args(["test", "--workspace"]))
}

fn docs() -> Result<()> {
    command::run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-Dwarnings"))
}
