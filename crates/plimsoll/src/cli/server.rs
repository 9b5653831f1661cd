//! Defines the arguments of `server`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Servers on this machine.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Install the embedded server into the cache (about 6 minutes, once).
    Install,
    /// Start an embedded server, or a replica set or sharded cluster of MongoDB's own programs, that stays until it is stopped.
    Start(StartArgs),
    /// Stop the servers that `plimsoll server start` started: all, or those at these addresses. The servers of a replica set or a cluster
    /// stop together.
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
    /// Start a replica set of this many members of MongoDB's own `mongod`; with --shards, so many members in each shard.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=7), conflicts_with_all = ["port", "profile", "storage", "count"])]
    pub members: Option<u32>,
    /// Start a sharded cluster of this many shards, with a `mongos` in front of them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16), conflicts_with_all = ["port", "profile", "storage", "count"])]
    pub shards: Option<u32>,
    /// The program of the members; by default the `mongod` on the PATH.
    #[arg(long, value_name = "PATH")]
    pub mongod: Option<PathBuf>,
    /// The program of the router; by default the `mongos` on the PATH.
    #[arg(long, value_name = "PATH")]
    pub mongos: Option<PathBuf>,
}
