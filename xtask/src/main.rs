//! Our automation, in Rust: the same words on a laptop and in CI.

mod bench;
mod setup;
mod test;

mod prometheus;
mod python;

mod command;
mod steps;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Our automation: the same words on a laptop and in CI.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    word: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Install what the tests need into the cache: the embedded server, a Kafka broker, Prometheus, a Python with PyMongo and the embedding model.
    Setup,
    /// Check everything: format, lints, tests, documentation. Stops at the first failure.
    Test,
    /// Measure, and show what was measured.
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> Result<()> {
    match Cli::parse().word {
        Word::Setup => setup::run(),
        Word::Test => test::run(),
        Word::Bench(bench) => bench::run(&bench),
    }
}
