//! Defines the arguments of commands about the program itself: `scenarios`, `selftest`, `schema`, `completions`, `man`,
//! `model`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// The shipped scenarios.
#[derive(Debug, Args)]
pub struct ScenariosArgs {
    /// Print this one.
    pub name: Option<String>,
}

/// Check the ruler.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Only the faulty servers, so many times, each with a new seed and in every second one with connections that break; ends
    /// with the first round that does not find exactly what was lied about.
    #[arg(long, value_name = "N", conflicts_with = "full", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Documents of a round.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 2_000_000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub documents: u64,
    /// Of so many documents of a round the server forgets one, flips a bit of one and stores one twice.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub one_in: u64,
    /// What the first round follows from; the time of day if left out.
    #[arg(long, requires = "rounds")]
    pub seed: Option<u64>,
    /// Compare runs as well: a server against itself, and against one that takes 10 % longer.
    #[arg(long)]
    pub full: bool,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print a schema.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which one.
    #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
    pub of: SchemaOf,
}

/// What has a schema.
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
    /// What `history --json` prints.
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
    /// For which shell.
    pub shell: Shell,
}

/// Write the manual pages.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// An existing directory: it receives a page for each command.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// What to do with the model.
#[derive(Debug, clap::Subcommand)]
pub enum ModelCommand {
    /// Fetch all-MiniLM-L6-v2 and ONNX Runtime into the cache, about 110 MB, and hold them to their digests.
    Install,
}
