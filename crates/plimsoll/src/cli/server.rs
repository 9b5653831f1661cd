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
    /// Stop the servers that `plimsoll server start` started: all, or those at these addresses.
    Stop(StopArgs),
    /// List the servers that `plimsoll server start` started.
    #[command(visible_alias = "list")]
    Status,
}

/// Options of `server stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The addresses, as `plimsoll server start` printed them: HOST:PORT or mongodb://HOST:PORT.
    #[arg(value_name = "ADDRESS")]
    pub addresses: Vec<String>,
}

/// Options of `server start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The port on 127.0.0.1; by default any free port.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// `journaled` or `relaxed`.
    #[arg(long, default_value = "journaled")]
    pub profile: String,
    /// The data directory; by default a temporary directory.
    #[arg(long, value_name = "DIR")]
    pub storage: Option<PathBuf>,
    /// The number of servers to start, each on a free port with a temporary directory.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub count: u32,
}
