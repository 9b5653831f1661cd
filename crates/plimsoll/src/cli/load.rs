//! Defines the arguments of commands that send load: `run`, `line`, `ladder`, and `merge` for shards.

use std::path::PathBuf;

use clap::Args;

use super::LoadArgs;

/// Run a scenario.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A file, or the name of a shipped scenario.
    pub scenario: String,
    /// Of a matrix: the values to run instead of the defaults, for example --only size=1M,10M; `all` stands for every one.
    #[arg(long, value_name = "axis=value[,value]")]
    pub only: Vec<String>,
    /// Of a matrix: print the cells and what they will cost, and do nothing.
    #[arg(long)]
    pub list: bool,
    /// Of a matrix: make the runs that are missing in this directory of an earlier one.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "list"])]
    pub resume: Option<PathBuf>,
    /// Write the result to this file as well, in the form that k6 hands to handleSummary.
    #[arg(long, value_name = "FILE")]
    pub summary_export: Option<PathBuf>,
    /// The same in k6's older form, which its own --summary-export writes: there `true` is a threshold that failed.
    #[arg(long, value_name = "FILE")]
    pub summary_export_legacy: Option<PathBuf>,
    /// Begin the load at this moment, with everything ready before: a time in UTC such as 2026-11-21T18:30:00Z, milliseconds
    /// since 1970, or +10s. Shards that are given the same one are one run, which `plimsoll merge` joins.
    #[arg(long, value_name = "TIME")]
    pub start_at: Option<String>,
    /// How and where.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Join shards.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The run directory of every shard.
    #[arg(required = true, value_name = "DIR")]
    pub shards: Vec<PathBuf>,
    /// The directory of the joined run; a new one below plimsoll-runs if left out.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print its run.json on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
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
    /// How and where.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Climb a ladder of writers.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// A file, or the name of a shipped scenario.
    #[arg(default_value = "bulk-baseline")]
    pub scenario: String,
    /// How many writers, one number a rung.
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32])]
    pub writers: Vec<u32>,
    /// How long each rung is measured, in seconds; one second more lets it settle.
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    pub step: u64,
    /// How and where.
    #[command(flatten)]
    pub load: LoadArgs,
}
