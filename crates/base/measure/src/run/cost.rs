//! Defines the cost of a run: of the tool and of the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cost of the tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Client {
    /// Worker threads.
    pub workers: u32,
    /// Connections.
    pub connections: u32,
    /// CPU of the workers ÷ operations, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// CPU of the workers ÷ documents, in microseconds.
    pub cpu_us_per_document: Option<f64>,
    /// CPU of the busiest worker, 0 to 1.
    pub cpu_busiest_worker: f64,
    /// Context switches of the workers' threads ÷ operations; absent if the system does not report them.
    pub switches_per_operation: Option<f64>,
    /// Bytes sent and received ÷ documents.
    pub wire_bytes_per_document: Option<f64>,
    /// Largest resident memory of this process, in bytes.
    pub rss_bytes_max: u64,
    /// The tool's throughput against the null server, in operations per second; absent if not measured.
    pub null_server_per_s: Option<f64>,
    /// That ceiling ÷ the achieved throughput.
    pub headroom: Option<f64>,
    /// Whether the tool, not the server, limited the load.
    pub limited: bool,
    /// Whether the pacer spun for the last microseconds.
    pub spin: bool,
    /// Reconnections after a connection was lost.
    pub reconnects: u64,
    /// Median round trip of an empty command before and after the load, in nanoseconds.
    #[serde(alias = "canary_ping_ns")]
    pub calibration_ping_ns: Vec<u64>,
    /// Throughput of the tool against the null server before and after the load, in operations per second.
    #[serde(default, alias = "canary_null_per_s")]
    pub calibration_null_per_s: Vec<f64>,
}

/// The cost of the server. CPU and memory are known for local servers only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCost {
    /// CPU of the server's process ÷ operations, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// CPU of the server's process ÷ documents, in microseconds.
    pub cpu_us_per_document: Option<f64>,
    /// Cores it used on average under load.
    pub cores: Option<f64>,
    /// Largest resident memory in bytes.
    pub rss_bytes_max: Option<u64>,
    /// Bytes that the storage engine wrote to disk ÷ documents; absent if not reported.
    pub written_bytes_per_document: Option<f64>,
    /// Bytes that it wrote to its journal ÷ documents.
    pub journal_bytes_per_document: Option<f64>,
}
