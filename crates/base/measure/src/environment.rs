//! Describes the machine and the server of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine that Plimsoll ran on. Unknown values are absent.
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

/// The origin of a server.
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
    /// In this process, for self-tests: acknowledges immediately.
    Null,
    /// In this process, for self-tests: stores documents with declared faults.
    #[serde(alias = "lying")]
    Faulty,
}

/// The server by its own description. Values that it does not report are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFacts {
    /// Its origin.
    pub kind: ServerKind,
    /// The addresses of the load, `host:port`: several if there are several routers.
    pub addresses: Vec<String>,
    /// Whether an address suffices to reach the server, or each of several servers: no user, no TLS, no other option.
    #[serde(default)]
    pub open: bool,
    /// Durability profile of an embedded server: `journaled` or `relaxed`.
    pub profile: Option<String>,
    /// Version it reports.
    pub version: Option<String>,
    /// Its product with its own version, such as `FerretDB 1.24.2`. Absent for MongoDB's own server and for an unknown product.
    pub product: Option<String>,
    /// Storage engine it reports.
    pub storage_engine: Option<String>,
    /// `standalone`, `replica set NAME` or `mongos`.
    pub topology: Option<String>,
    /// The default write concern, as JSON.
    pub default_write_concern: Option<String>,
    /// Relevant parameters, by name.
    pub parameters: BTreeMap<String, String>,
}
