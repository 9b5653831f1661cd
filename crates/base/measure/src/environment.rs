//! The machine and the server that a run was measured on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine that Plimsoll ran on. What cannot be found out is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// CPU model as the kernel names it.
    pub cpu: Option<String>,
    /// Logical cores that this process may use.
    pub cores: u32,
    /// CPU frequency governor.
    pub governor: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Operating system's name and version.
    pub os: Option<String>,
    /// Device and file system below the run directory.
    pub disk: Option<String>,
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// Whether Plimsoll was built with optimisations.
    pub optimised: bool,
}

/// Where the server of a run comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    /// Installed and started by Plimsoll.
    Embedded,
    /// A `mongod` from the PATH, started by Plimsoll.
    Mongod,
    /// Given by its address.
    #[default]
    Address,
    /// A service over HTTP, given by its address.
    Service,
    /// In this process, for self-tests: acknowledges at once.
    Null,
    /// In this process, for self-tests: stores, with stated lies.
    Lying,
}

/// The server as it described itself. What it does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFacts {
    /// Where it comes from.
    pub kind: ServerKind,
    /// `host:port` that the load went to; several where there are several routers.
    pub addresses: Vec<String>,
    /// Whether an address is all that it takes to reach the server: no user, no TLS, no other option. Of several servers
    /// whether that holds for all.
    #[serde(default)]
    pub open: bool,
    /// Durability profile of an embedded server: `journaled` or `relaxed`.
    pub profile: Option<String>,
    /// Version it reports.
    pub version: Option<String>,
    /// What it is really, where that is known (an embedded server's own name and version).
    pub product: Option<String>,
    /// Storage engine it reports.
    pub storage_engine: Option<String>,
    /// `standalone`, `replica set NAME` or `mongos`.
    pub topology: Option<String>,
    /// Write concern it applies when none is given, as JSON.
    pub default_write_concern: Option<String>,
    /// Command line or parameters that matter, by name.
    pub parameters: BTreeMap<String, String>,
}
