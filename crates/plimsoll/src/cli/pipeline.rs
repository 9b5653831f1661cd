//! Defines the arguments of `pipeline`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_scenario::secret::{shown, without_password};

/// The subcommands of `pipeline`.
#[derive(Debug, Subcommand)]
pub enum PipelineCommand {
    /// Run a pipeline until its source ends, or until it is interrupted.
    Run(PipelineRunArgs),
    /// Compare a pipeline's destination with its Kafka topic: find missing, duplicated, unexpected and
    /// altered events.
    Audit(PipelineAuditArgs),
    /// Replay the dead letters of a pipeline as the original events.
    Replay(PipelineReplayArgs),
    /// Demonstrate a pipeline: a broker, a server and load on this machine, kills during the load, and an
    /// audit.
    Demo(PipelineDemoArgs),
    /// Describe a pipeline and check its guarantee, without reading an event.
    Check(PipelineArgs),
}

/// A pipeline.
#[derive(Clone, Debug, Args)]
pub struct PipelineArgs {
    /// The file, or the name of a shipped pipeline.
    pub file: PathBuf,
    /// The MongoDB server of all sections, instead of those in the file.
    #[arg(long, value_name = "URI")]
    pub server: Option<String>,
    /// The Kafka brokers of all sections, instead of those in the file.
    #[arg(long, value_name = "HOST:PORT")]
    pub brokers: Option<String>,
    /// Replace a value of the file, for example --set in_flight.events=18000
    #[arg(long = "set", value_name = "path=value")]
    pub overrides: Vec<String>,
}

impl PipelineArgs {
    /// The words of the command line, without secrets.
    pub fn words(&self) -> Vec<String> {
        let servers = self.server.iter().flat_map(|uri| ["--server".to_owned(), without_password(uri)]);
        let brokers = self.brokers.iter().flat_map(|all| ["--brokers".to_owned(), all.clone()]);
        let overrides = self.overrides.iter().flat_map(|it| ["--set".to_owned(), shown(it)]);
        let file = self.file.display().to_string();
        std::iter::once(file).chain(servers).chain(brokers).chain(overrides).collect()
    }
}

/// Options of `pipeline run`.
#[derive(Clone, Debug, Args)]
pub struct PipelineRunArgs {
    #[command(flatten)]
    pub what: PipelineArgs,
    /// End after this time: stop reading, then write and commit the events in flight.
    #[arg(long = "for", value_name = "DURATION")]
    pub time: Option<plimsoll_measure::duration::Span>,
    /// End when this many events are settled: written, filtered out, dead letters or abandoned.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub events: Option<u64>,
    /// Serve /metrics and /healthz for Prometheus at this address.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<SocketAddr>,
    /// The directory of the run.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print only pipeline.json on standard output.
    #[arg(long)]
    pub json: bool,
    /// Print only errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `pipeline audit`.
#[derive(Clone, Debug, Args)]
pub struct PipelineAuditArgs {
    #[command(flatten)]
    pub what: PipelineArgs,
    /// The directory of a run that produced records of the topic: every record that the broker acknowledged to it must be there.
    /// May be given several times. Without it, the records that the topic has now are expected.
    #[arg(long, value_name = "DIR")]
    pub produced: Vec<PathBuf>,
    /// Print only the audit, as JSON, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Options of `pipeline replay`.
#[derive(Clone, Debug, Args)]
pub struct PipelineReplayArgs {
    #[command(flatten)]
    pub run: PipelineRunArgs,
    /// The limit of dead letters; by default all present dead letters.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

/// Options of `pipeline demo`.
#[derive(Clone, Debug, Args)]
pub struct PipelineDemoArgs {
    /// The duration of the load.
    #[arg(long = "for", value_name = "DURATION", default_value = "60s")]
    pub length: plimsoll_measure::duration::Span,
    /// Events a second.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// A further process to kill, besides the pipeline.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub kill: Option<Victim>,
    /// The directory of the demonstration; by default a new one below plimsoll-runs.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A further process that a demonstration kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Victim {
    /// The MongoDB server.
    Server,
    /// The Kafka broker.
    Broker,
}
