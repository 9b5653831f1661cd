//! Defines the options that every load takes, independent of a command line.

use std::path::PathBuf;

use crate::console::Console;
use crate::server_provenance::HostedAs;
use crate::server_provisioning::ServerAddress;
use crate::system::Registry;

/// The options for sending a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Address of the server: a mongodb:// URI, `mongod` (from the PATH), `embedded` or `embedded:relaxed`.
    pub server: Option<String>,
    /// Independent servers to spread the load over, as URIs or host:port.
    pub hosts: Vec<String>,
    /// Number of embedded servers to start and spread the load over.
    pub count: usize,
    /// Overrides of scenario values, as `path=value`.
    pub overrides: Vec<String>,
    /// Seed of all randomness. `None`: the scenario's seed.
    pub seed: Option<u64>,
    /// Part of the load to send, as `i/n`.
    pub shard: String,
    /// The run directory. `None`: a new one.
    pub out: Option<PathBuf>,
    /// Whether the embedded server's storage stays in the run directory.
    pub keep: bool,
    /// Whether the ceiling of Plimsoll itself is measured before and after the load.
    pub calibrate: bool,
    /// Provenance of the server at the address, if a suite started it.
    pub hosted_as: Option<HostedAs>,
    /// Whether the run is the warm-up of a suite's test.
    pub warm_up: bool,
    /// The kinds of systems that scenarios may load.
    pub registry: Registry,
    /// The output of messages and the live view.
    pub console: &'static dyn Console,
}

impl LoadOptions {
    /// The whole load on `server`, with calibration, the scenario's own seed and a new run directory.
    pub fn on(server: Option<String>, registry: Registry, console: &'static dyn Console) -> Self {
        Self {
            server,
            hosts: Vec::new(),
            count: 1,
            overrides: Vec::new(),
            seed: None,
            shard: "0/1".to_owned(),
            out: None,
            keep: false,
            calibrate: true,
            hosted_as: None,
            warm_up: false,
            registry,
            console,
        }
    }

    /// The options that name the servers.
    pub fn address(&self) -> ServerAddress<'_> {
        ServerAddress { server: self.server.as_deref(), hosts: &self.hosts, count: self.count }
    }
}
