//! Defines the arguments of commands about the program itself: `scenarios`, `selftest`, `schema`, `completions`, `man`,
//! `model`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// The shipped scenarios.
#[derive(Debug, Args)]
pub struct ScenariosArgs {
    /// Print this scenario.
    pub name: Option<String>,
}

/// Verify Plimsoll's accuracy.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Run only the checks with faulty servers, for this number of rounds, each with a new seed. Every second
    /// round also breaks connections. The first round that does not find exactly the introduced defects is
    /// the last.
    #[arg(long, value_name = "N", conflicts_with = "full", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// The documents of a round.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 2_000_000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub documents: u64,
    /// The number of documents of which the server forgets one, flips a bit in one and stores one twice.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub one_in: u64,
    /// The seed of the first round; by default the time of day.
    #[arg(long, requires = "rounds")]
    pub seed: Option<u64>,
    /// Also compare runs: a server with itself, and with one that takes 10 % longer.
    #[arg(long)]
    pub full: bool,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print a schema.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The kind of file.
    #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
    pub of: SchemaOf,
}

/// The files that have a schema.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SchemaOf {
    /// Scenario files.
    Scenario,
    /// run.json
    Run,
    /// matrix.json
    Matrix,
    /// comparison.json
    Comparison,
    /// The output of `history --json`.
    History,
    /// suite.json
    Suite,
    /// Pipeline files.
    Pipeline,
    /// pipeline.json
    Stream,
}

/// Print completions.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

/// Write the manual pages.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// An existing directory for the pages, one for each command.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// The subcommands of `model`.
#[derive(Debug, clap::Subcommand)]
pub enum ModelCommand {
    /// Fetch all-MiniLM-L6-v2 and ONNX Runtime into the cache (about 110 MB), and verify their digests.
    Install,
}
