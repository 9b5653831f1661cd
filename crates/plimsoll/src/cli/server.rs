//! Defines the arguments of `server`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Servers on this machine.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Install the embedded server into the cache (about 6 minutes, once).
    Install,
    /// Start an embedded server that stays until it is stopped.
    Start(StartArgs),
    /// Stop the servers that were started.
    Stop,
    /// List the servers that run.
    Status,
}

/// Start a server that stays.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The port on 127.0.0.1; any free one if left out.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// `journaled` or `relaxed`.
    #[arg(long, default_value = "journaled")]
    pub profile: String,
    /// Where it keeps its data; a temporary directory if left out.
    #[arg(long, value_name = "DIR")]
    pub storage: Option<PathBuf>,
    /// How many to start, each on a free port with a temporary directory.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub count: u32,
}
