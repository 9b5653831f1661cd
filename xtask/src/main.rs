//! Runs the project's automation: the same commands on a laptop and in CI.

mod bench;
mod deny;
mod dist;
mod notices;
mod setup;
mod test;
mod test_programs;

mod peers;
mod prometheus;
mod python;

mod command;
mod steps;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::deny::Advisories;

/// The project's automation: the same commands on a laptop and in CI.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need into the cache: the embedded server, a Kafka broker, FerretDB, mongo-java-server, Prometheus, a Python with PyMongo and the embedding model.
    Setup,
    /// Check everything: format, lints, dependencies, tests, documentation. Stops at the first failure.
    Test(test::Test),
    /// Check the licences, duplicates and sources of all dependencies.
    Deny {
        /// Check advisories as well; their database is fetched from outside the package registries.
        #[arg(long)]
        advisories: bool,
    },
    /// Write THIRD-PARTY.md: every crate in the program, with its licence.
    Notices,
    /// Pack the program with its pages, completions, systemd units and licences: an archive and a Debian
    /// package.
    Dist(dist::Dist),
    /// Run a benchmark, and show its results.
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Setup => setup::run(),
        Command::Test(test) => test::run(&test),
        Command::Deny { advisories: true } => deny::run(Advisories::On),
        Command::Deny { advisories: false } => deny::run(Advisories::Ask),
        Command::Notices => notices::run(),
        Command::Dist(dist) => dist::run(&dist),
        Command::Bench(bench) => bench::run(&bench),
    }
}
