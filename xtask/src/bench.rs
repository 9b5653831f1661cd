//! Runs `cargo xtask bench`: sets up, then measures.

mod bottlenecks;
mod compare;
mod embed;
mod kills;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Subcommand;
use plimsoll_install::Cache;

use crate::command::{self, cargo};
use crate::{peers, setup};

/// The version of oha, a peer in the benchmark.
const OHA: &str = "1.16.0";
const K6: &str = "1.8.1";
/// The pipeline benchmark, which uses every adapter.
const PIPELINE: [&str; 8] =
    ["bench", "--package", "plimsoll", "--features", "full", "--bench", "pipeline", "--"];

/// A benchmark.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// The CPU cost of each client: a bare socket, Plimsoll's client, the official driver, PyMongo.
    Client {
        /// Options of the benchmark: --rounds N, --json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// The CPU cost of each HTTP load tool: Plimsoll, and the installed ones of wrk, oha and k6.
    Http {
        /// Install oha and k6 into the cache first; that takes some minutes, and needs Go.
        #[arg(long)]
        install: bool,
        /// Options of the benchmark: --rounds N, --seconds N, --json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Embedded sentences a second: Plimsoll, Python and candle, for each model.
    Embed(embed::Embed),
    /// Kills of the engine, the broker and the server during pipelines: no event is lost or duplicated, and every missing check
    /// is noticed.
    Kills {
        /// Options of the campaign: --kills N, --seed N, --out DIR, --only NAME
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Pipelines compared with the bare tools: librdkafka, the raw insert loop, Kafka Connect. One table.
    Pipeline {
        /// Options of the benchmark: --rounds N, --only A,B, --steady SPAN, --install, --out DIR
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Bottlenecks that a search names for known causes: one is injected at a time. A table of causes and names.
    Bottlenecks(bottlenecks::Bottlenecks),
    /// Workflow engines by turns: this one on PostgreSQL and MongoDB, as a library and as a service, DBOS, Restate, Temporal. One table.
    Workflow {
        /// Install the peers into the cache first; that takes some minutes, and needs Go and npm.
        #[arg(long)]
        install: bool,
        /// Options of the benchmark: --rounds N, --seconds S, --clients A,B, --units A,B, --only A,B
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Kills of workflow engines, their server and their network: every acknowledged signal is applied once.
    WorkflowKills {
        /// Options of the campaign: --kills N, --seed N, --out DIR, --store NAME, --lease SPAN
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// One, two and four workflow processes on one store: rate, shares of the work, and fail-over after kill -9.
    WorkflowProcesses {
        /// Options: --processes A,B, --load SPAN, --clients N, --rounds N, --store NAME, --lease SPAN, --out DIR
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// The cost of a claim and of a timer of the workflow engine while 10, 10,000 and 1,000,000 instances wait, on both stores.
    WorkflowBacklog {
        /// Options of the benchmark: --sizes A,B, --operations N, --only A,B
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Comparisons of real runs: a server with itself, and with a handicap of about 10 %.
    Compare(compare::Compare),
}

/// Runs a benchmark.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Client { options } => {
            setup::run()?;
            command::run(measure("plimsoll-mongo").args(options))
        }
        Bench::Http { install, options } => http(*install, options),
        Bench::Pipeline { options } => {
            setup::run()?;
            command::run(cargo().args(PIPELINE).args(options))
        }
        Bench::Workflow { install, options } => workflow(*install, options),
        Bench::Bottlenecks(bench) => bottlenecks::run(bench),
        Bench::Compare(compare) => compare::run(compare),
        Bench::Kills { options } => kills::run(options),
        Bench::WorkflowKills { options } => kills::run_workflow(options),
        Bench::WorkflowProcesses { options } => kills::run_processes(options),
        Bench::WorkflowBacklog { options } => {
            setup::run()?;
            let words = ["bench", "--package", "plimsoll-workflow-load", "--bench", "backlog", "--"];
            command::run(cargo().args(words).args(options))
        }
        Bench::Embed(embed) => embed::run(embed),
    }
}

fn http(install: bool, options: &[String]) -> Result<()> {
    let cache = Cache::locate()?;
    let cache = cache.root();
    let (oha, k6) = (cache.join(format!("oha-{OHA}")), cache.join(format!("k6-{K6}")));
    if install {
        install_oha(&oha)?;
        install_k6(&k6.join("bin"))?;
    }
    let mut command = measure("plimsoll-http");
    command.arg("--tools").arg(oha).arg("--tools").arg(k6);
    command::run(command.args(options))
}

fn workflow(install: bool, options: &[String]) -> Result<()> {
    let cache = Cache::locate()?;
    if install {
        peers::install_workflow(cache.root())?;
    }
    let mut build = cargo();
    command::run(build.args(["build", "--release", "--package", "plimsoll", "--features", "full"]))?;
    let mut command = cargo();
    command.args(["bench", "--package", "plimsoll-workflow-load", "--bench", "peers", "--"]);
    command.arg("--peers").arg(cache.root().join(peers::WORKFLOW));
    command.arg("--program").arg(command::target()?.join("release/plimsoll"));
    command::run(command.args(options))
}

/// Installs oha, unless it is installed.
fn install_oha(root: &Path) -> Result<()> {
    command::run(cargo().args(["install", "oha", "--locked", "--version", OHA, "--root"]).arg(root))
}

/// Installs k6, unless it is installed.
fn install_k6(place: &Path) -> Result<()> {
    std::fs::create_dir_all(place).with_context(|| format!("make {}", place.display()))?;
    command::run(Command::new("go").arg("install").arg(format!("go.k6.io/k6@v{K6}")).env("GOBIN", place))
}

/// Builds the command for the benchmark `client` of a package.
fn measure(package: &str) -> Command {
    let mut command = cargo();
    command.args(["bench", "--package", package, "--bench", "client", "--"]);
    command
}
