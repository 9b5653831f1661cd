//! Defines the arguments of commands that send load: `run`, `bench`, `line`, `ladder`, and `merge` for shards.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use plimsoll_measure::duration::Span;

use super::{LoadArgs, StrictnessArgs};

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
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "list", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// The options of one run.
    #[command(flatten)]
    pub once: OnceArgs,
}

/// Run one operation without a scenario file.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("operation").required(true),
    after_help = BENCH_EXAMPLES,
)]
pub struct BenchArgs {
    /// Insert documents of this template.
    #[arg(long, value_name = "DOCUMENT", group = "operation")]
    pub insert: Option<String>,
    /// Find documents by this filter; without FILTER one document of this run by its _id.
    #[arg(long, value_name = "FILTER", group = "operation", num_args = 0..=1)]
    pub find: Option<Option<String>>,
    /// Update one document with these operators: a document of this run by its _id, or one that --filter
    /// selects.
    #[arg(long, value_name = "UPDATE", group = "operation")]
    pub update: Option<String>,
    /// The filter of --update.
    #[arg(long, requires = "update", conflicts_with_all = ["insert", "find"])]
    pub filter: Option<String>,
    /// Insert this many documents before --find or --update. By default 10000 if the operation selects by
    /// _id; with a filter none, and the operation works on the existing documents.
    #[arg(long, value_name = "N", conflicts_with = "insert")]
    pub documents: Option<u64>,
    /// The template of these documents.
    #[arg(long, value_name = "DOCUMENT", conflicts_with = "insert")]
    pub document: Option<String>,
    /// The number of documents in one insert.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["find", "update"])]
    pub batch: u32,
    /// Operations per second. Without it each connection sends its next operation after the last answer.
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// The length of the load.
    #[arg(long = "for", value_name = "DURATION", default_value = "10s")]
    pub duration: Span,
    /// The collection; by default plimsoll.bench.
    #[arg(long, value_name = "DB.COLL")]
    pub collection: Option<String>,
    /// The number of connections.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub connections: u32,
    /// Print the scenario of these options, for `plimsoll run`, and send nothing.
    #[arg(long, conflicts_with = "dry_run")]
    pub print_scenario: bool,
    /// The options of one run.
    #[command(flatten)]
    pub once: OnceArgs,
}

/// The examples below the help of `bench`.
const BENCH_EXAMPLES: &str = "\
Examples:
  plimsoll bench --server localhost --insert '{name: {$text: {bytes: 20}}}' --batch 100 --rate 500 --for 10s
  plimsoll bench --server localhost --update '{$inc: {seen: 1}}' --documents 100000 --connections 32";

/// Options of one run.
#[derive(Clone, Debug, Args)]
pub struct OnceArgs {
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
    /// Print the resolved scenario, three sample documents, and the expected time and disk use. Contacts no
    /// server and writes no file.
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub dry_run: bool,
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
    /// The strictness about the verdict.
    #[command(flatten)]
    pub strictness: StrictnessArgs,
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
    /// The time for the trials of the search, from 1m to 1h: more time narrows the interval [default: 3m5s].
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Hold 90 % of the load line for this time afterwards, and report whether the objective held, for example 10m.
    #[arg(long, value_name = "TIME")]
    pub soak: Option<Span>,
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
