//! Defines the arguments of commands about the program itself: `scenarios`, `selftest`, `schema`, `completions`, `man`,
//! `model`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

/// The shipped scenarios.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct ScenariosArgs {
    /// Print this scenario.
    pub name: Option<String>,
    /// Another source of scenarios.
    #[command(subcommand)]
    pub command: Option<ScenariosCommand>,
}

/// The subcommands of `scenarios`.
#[derive(Debug, Subcommand)]
pub enum ScenariosCommand {
    /// Print a scenario whose documents resemble those of an existing collection.
    Derive(DeriveArgs),
}

/// Derive a scenario from a collection. Reads only: sizes, shares, ranges and field names are taken over,
/// values are synthetic.
#[derive(Debug, Args)]
pub struct DeriveArgs {
    /// The server: a mongodb:// URI, or one to start: `mongod` (from the PATH), `embedded` or
    /// `embedded:relaxed`.
    #[arg(long, value_name = "URI|embedded[:profile]", default_value = "mongodb://localhost:27017")]
    pub server: String,
    /// The collection.
    #[arg(long, value_name = "DB.COLL")]
    pub collection: String,
    /// The largest number of documents to read.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub sample: u32,
    /// Copy the values of fields with few different values into the scenario.
    #[arg(long)]
    pub copy_values: bool,
}

/// Verify Plimsoll's accuracy.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Run only the checks with faulty servers, for this number of rounds, each with a new seed. Every second
    /// round also breaks connections. The first round that does not find exactly the introduced defects is
    /// the last.
    #[arg(long, value_name = "N", conflicts_with = "full", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// The number of documents of a round.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 2_000_000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub documents: u64,
    /// One in this many documents is forgotten, one gets a flipped bit, and one is stored twice.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub one_in: u64,
    /// The seed of the first round; by default the time of day.
    #[arg(long, requires = "rounds")]
    pub seed: Option<u64>,
    /// Also compare runs: a server with itself, and with a server that takes 10 % longer.
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
    /// Definitions of workflows.
    Workflow,
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
