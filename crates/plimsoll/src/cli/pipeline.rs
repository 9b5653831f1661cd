//! Defines the arguments of `pipeline`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with a pipeline.
#[derive(Debug, Subcommand)]
pub enum PipelineCommand {
    /// Run a pipeline until its source ends, or until it is interrupted.
    Run(PipelineRunArgs),
    /// Hold the collections that a pipeline writes from Kafka against its topic: what is missing, doubled, strange or altered.
    Audit(PipelineAuditArgs),
    /// Send the dead letters of a pipeline through it again, as the events that they were.
    Replay(PipelineReplayArgs),
    /// Show a pipeline at work: a broker, a server and load on this machine, kills on the way, and an audit of what arrived.
    Demo(PipelineDemoArgs),
    /// Say what a pipeline is and whether it can give its guarantee, without reading an event.
    Check(PipelineArgs),
}

/// Which pipeline.
#[derive(Clone, Debug, Args)]
pub struct PipelineArgs {
    /// The file, or the name of a shipped pipeline.
    pub file: PathBuf,
    /// The MongoDB server of all its sections, instead of those that the file names.
    #[arg(long, value_name = "URI")]
    pub server: Option<String>,
    /// The Kafka brokers of all its sections, likewise.
    #[arg(long, value_name = "HOST:PORT")]
    pub brokers: Option<String>,
    /// Replace a value of the file, for example --set in_flight.events=18000
    #[arg(long = "set", value_name = "path=value")]
    pub overrides: Vec<String>,
}

/// How to run a pipeline.
#[derive(Clone, Debug, Args)]
pub struct PipelineRunArgs {
    #[command(flatten)]
    pub what: PipelineArgs,
    /// End after so long: read no more, write and commit what is in flight.
    #[arg(long = "for", value_name = "DURATION")]
    pub time: Option<plimsoll_measure::duration::Span>,
    /// End likewise when so many events are written, left out, buried or given up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub events: Option<u64>,
    /// Tell Prometheus at this address: /metrics and /healthz.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<SocketAddr>,
    /// The directory of the run.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print pipeline.json on standard output and nothing else there.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Which pipeline's destination to audit.
#[derive(Clone, Debug, Args)]
pub struct PipelineAuditArgs {
    #[command(flatten)]
    pub what: PipelineArgs,
    /// Print the audit as JSON on standard output and nothing else there.
    #[arg(long)]
    pub json: bool,
}

/// Which dead letters go through again.
#[derive(Clone, Debug, Args)]
pub struct PipelineReplayArgs {
    #[command(flatten)]
    pub run: PipelineRunArgs,
    /// So many dead letters at most; all that are there now if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

/// What is shown, and for how long.
#[derive(Clone, Debug, Args)]
pub struct PipelineDemoArgs {
    /// How long events come.
    #[arg(long = "for", value_name = "DURATION", default_value = "60s")]
    pub length: plimsoll_measure::duration::Span,
    /// Events a second.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Kill this as well, besides the pipeline.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub kill: Option<Victim>,
    /// The directory of the demonstration; a new one below plimsoll-runs if left out.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What else a demonstration kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Victim {
    /// The MongoDB server.
    Server,
    /// The Kafka broker.
    Broker,
}
