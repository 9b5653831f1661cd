//! Defines the arguments of commands that compare runs: `compare`, `ab`, `history`.

use std::path::PathBuf;

use clap::Args;

use super::{JudgeArgs, LoadArgs};

/// Compare runs of B with runs of A.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A: run directories, run.json files, or directories of several runs. Without --with: A and B, one each;
    /// or an existing comparison, to print it again.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// B, in the same forms as A.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// The options of the verdict.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// The keys that may differ between A and B: a key of the scenario as in --set, or server, environment or
    /// a key below these.
    #[arg(long, value_name = "KEY")]
    pub varies: Vec<String>,
    /// Compare incomparable runs nevertheless.
    #[arg(long)]
    pub force: bool,
    /// The directory of comparison.json and the page; by default a new one below plimsoll-runs.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print only comparison.json on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Measure A and B in turns.
#[derive(Debug, Args)]
pub struct AbArgs {
    /// A file, or the name of a shipped scenario.
    pub scenario: String,
    /// The definition of A: server=URI, set PATH=VALUE or binary=FILE; may be repeated. By default the
    /// scenario unchanged.
    #[arg(long, value_name = "WORDS")]
    pub a: Vec<String>,
    /// The definition of B, in the same forms as A.
    #[arg(long, value_name = "WORDS")]
    pub b: Vec<String>,
    /// The number of runs of each; fewer than 8 give no verdict.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pairs: u32,
    /// Measure A against itself, to show the effect of noise alone.
    #[arg(long)]
    pub same: bool,
    /// Run the missing pairs in this directory of an earlier comparison.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// The options of the verdict.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// The options of the load, for both sides.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Find changes in the runs of a scenario.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Run directories, run.json files, or directories of several runs, in any order.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Examine only this metric, for example insert.response_ns.p99; it is then the primary metric.
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// End with 99 if the newest change of the primary metric is a regression, or the runs are too few for a
    /// verdict.
    #[arg(long)]
    pub gate: bool,
    /// Accept runs that are not comparable.
    #[arg(long)]
    pub force: bool,
    /// Print only the history, as JSON, on standard output.
    #[arg(long)]
    pub json: bool,
}
