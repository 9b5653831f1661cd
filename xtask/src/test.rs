//! Runs `cargo xtask test`: checks everything, quick checks first.

use std::thread;

use anyhow::{Result, anyhow};
use clap::Args;

use crate::command::{self, FULL, cargo};
use crate::deny::{self, Advisories};
use crate::steps::Steps;
use crate::test_programs::{self, Program, Tests};
use crate::{dist, setup};

/// Options of the checks.
#[derive(Args)]
pub(crate) struct Test {
    /// Also run the long checks: kill campaigns, comparisons of real runs, the packed release build,
    /// advisories of dependencies.
    #[arg(long)]
    all: bool,
}

/// Runs all steps and prints the duration of each, also after a failure.
pub(crate) fn run(test: &Test) -> Result<()> {
    let mut steps = Steps::default();
    let mut programs = Vec::new();
    let mut result = usual(&mut steps, &mut programs);
    if result.is_ok() && test.all {
        result = long(&mut steps, &programs);
    }
    eprint!("\n{steps}");
    result
}

fn usual(steps: &mut Steps, programs: &mut Vec<Program>) -> Result<()> {
    steps.run("format", format)?;
    steps.run("deny", || deny::run(Advisories::Ask))?;
    steps.run("build", || test_programs::build().map(|built| *programs = built))?;
    // The embedded server takes minutes to build and leaves cores idle at times. The quick checks use them.
    let built = command::target()?.join("debug");
    let setup = thread::spawn(move || setup::install(&built));
    steps.run("lint", lint)?;
    steps.run("docs", docs)?;
    steps.run("unit", || tests(programs, Tests::Unit))?;
    steps.run("setup", || setup.join().map_err(|_| anyhow!("the setup panicked"))?)?;
    steps.run("test", || tests(programs, Tests::Integration))?;
    steps.run("pack", pack)
}

fn long(steps: &mut Steps, programs: &[Program]) -> Result<()> {
    steps.run("long", || tests(programs, Tests::Long))?;
    let xtask = |words: &str| command::run(cargo().arg("xtask").args(words.split(' ')));
    steps.run("kills", || xtask("bench kills"))?;
    steps.run("workflow kills", || xtask("bench workflow-kills --kills 80"))?;
    steps.run("compare", || xtask("bench compare --rounds 3"))?;
    steps.run("dist", || xtask("dist"))?;
    steps.run("advisory", || deny::run(Advisories::On))
}

fn format() -> Result<()> {
    command::run(cargo().args(["fmt", "--all", "--check"]))
}

/// Lints the full program, and the default one, which has no services, no Kafka and no vectors. The second pass names the workspace and the
/// examples because that gives the dependencies the features of the first pass, so only our own crates are checked again.
fn lint() -> Result<()> {
    command::run(cargo().arg("clippy").args(FULL).args(["--all-targets", "--", "-D", "warnings"]))?;
    let words = ["--workspace", "--lib", "--bins", "--examples", "--", "-D", "warnings"];
    command::run(cargo().arg("clippy").args(words))
}

fn tests(programs: &[Program], tests: Tests) -> Result<()> {
    test_programs::run(programs, tests, &command::target()?.join("test-logs"))
}

/// Documents examples too, because the dependencies then have the same features as for the lints. Runs the examples in
/// the documentation.
fn docs() -> Result<()> {
    let words = ["--no-deps", "--lib", "--bin", "xtask", "--examples"];
    command::run(cargo().arg("doc").args(FULL).args(words).env("RUSTDOCFLAGS", "-Dwarnings"))?;
    command::run(cargo().arg("test").args(FULL).args(["--doc", "--quiet"]))
}

/// Packs the binary of the tests, which shows that the package is complete.
fn pack() -> Result<()> {
    let target = command::target()?;
    let out = target.join("pack");
    let packed = dist::pack(&target.join("debug/plimsoll"), &out)?;
    dist::check(&packed, &out)
}
