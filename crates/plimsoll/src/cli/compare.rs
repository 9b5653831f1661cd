//! Defines the arguments of commands that compare runs: `compare`, `ab`, `history`.

use std::path::PathBuf;

use clap::Args;

use super::{JudgeArgs, LoadArgs};

/// Hold B against A.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A: run directories, run.json files, or directories that hold several runs. Without --with: A and B, one each; or a
    /// comparison that was made, to print it again.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// B, likewise.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// How to judge.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// What is compared and may differ: a key of the scenario as in --set, or server, environment or one below these.
    #[arg(long, value_name = "KEY")]
    pub varies: Vec<String>,
    /// Compare runs that are not comparable all the same.
    #[arg(long)]
    pub force: bool,
    /// Where comparison.json and the page go; a new directory below plimsoll-runs if left out.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print comparison.json on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// Measure A and B in turns.
#[derive(Debug, Args)]
pub struct AbArgs {
    /// A file, or the name of a shipped scenario.
    pub scenario: String,
    /// What A is: server=URI, set PATH=VALUE or binary=FILE; several times for several of them. As the scenario says if left
    /// out.
    #[arg(long, value_name = "WORDS")]
    pub a: Vec<String>,
    /// What B is, likewise.
    #[arg(long, value_name = "WORDS")]
    pub b: Vec<String>,
    /// How many runs of each; fewer than 8 can show nothing.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pairs: u32,
    /// Measure A against itself, to see what noise alone does.
    #[arg(long)]
    pub same: bool,
    /// Make the runs that are missing in this directory of an earlier comparison.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// How to judge.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// How and where both are measured.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Follow a scenario through its runs.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Run directories, run.json files, or directories that hold several runs; their order does not matter.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Look at this metric alone, for example insert.response_ns.p99; it is then the primary one.
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// End with 99 if the newest change of the primary metric is for the worse, or there are too few runs to tell.
    #[arg(long)]
    pub gate: bool,
    /// Follow runs that are not alike all the same.
    #[arg(long)]
    pub force: bool,
    /// Print the history as JSON on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
}
