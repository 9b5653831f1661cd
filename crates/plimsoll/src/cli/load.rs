//! Defines the arguments of commands that send load: `run`, `line`, `ladder`, and `merge` for shards.

use std::path::PathBuf;

use clap::Args;

use super::LoadArgs;

/// Run a scenario.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A file, or the name of a shipped scenario.
    pub scenario: String,
    /// For a matrix: the values to run instead of the defaults, for example --only size=1M,10M; `all` selects
    /// every value.
    #[arg(long, value_name = "axis=value[,value]")]
    pub only: Vec<String>,
    /// For a matrix: print the cells and their estimated cost, without running them.
    #[arg(long)]
    pub list: bool,
    /// For a matrix: run the missing cells in this directory of an earlier one.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "list"])]
    pub resume: Option<PathBuf>,
    /// Also write the result to this file, in the form that k6 passes to handleSummary.
    #[arg(long, value_name = "FILE")]
    pub summary_export: Option<PathBuf>,
    /// Also write the result to this file, in the form of k6's --summary-export, where `true` marks a failed
    /// threshold.
    #[arg(long, value_name = "FILE")]
    pub summary_export_legacy: Option<PathBuf>,
    /// Begin the load at this moment, after all preparations: a time in UTC such as 2026-11-21T18:30:00Z,
    /// milliseconds since 1970, or +10s. Shards with the same moment are one run, which `plimsoll merge`
    /// joins.
    #[arg(long, value_name = "TIME")]
    pub start_at: Option<String>,
    /// The options of the load.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Join shards.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The run directory of every shard.
    #[arg(required = true, value_name = "DIR")]
    pub shards: Vec<PathBuf>,
    /// The directory of the joined run; by default a new one below plimsoll-runs.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print only its run.json on standard output.
    #[arg(long)]
    pub json: bool,
    /// Print only errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Search for the load line.
#[derive(Debug, Args)]
pub struct LineArgs {
    /// A file, or the name of a shipped scenario.
    #[arg(default_value = "bulk-baseline")]
    pub scenario: String,
    /// Search three times, and confirm for longer than two checkpoints.
    #[arg(long)]
    pub thorough: bool,
    /// The options of the load.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Measure throughput with more and more writers.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// A file, or the name of a shipped scenario.
    #[arg(default_value = "bulk-baseline")]
    pub scenario: String,
    /// The numbers of writers, one for each rung.
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32])]
    pub writers: Vec<u32>,
    /// The measured time of each rung, in seconds; one more second lets it settle.
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    pub step: u64,
    /// The options of the load.
    #[command(flatten)]
    pub load: LoadArgs,
}
