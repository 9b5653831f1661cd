//! Holds the result of checking transactions on lists for anomalies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The anomalies of a history of appends to lists and reads of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Consistency {
    /// The promise in words, such as `snapshot isolation in real time`.
    pub claim: String,
    /// Operations that committed.
    pub committed: u64,
    /// Operations without effect.
    pub aborted: u64,
    /// Operations whose outcome is unknown.
    pub unknown: u64,
    /// Lists that were appended to or read.
    pub lists: u64,
    /// Anomalies that break the promise.
    pub violations: u64,
    /// These anomalies by kind. A cycle counts once for each group of operations that depend on each other.
    pub anomalies: BTreeMap<String, u64>,
    /// Anomalies that the promise allows, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allowed: BTreeMap<String, u64>,
    /// The number of searches for a linear order, or for the kind of a cycle, that stopped at their limit.
    #[serde(default)]
    pub not_decided: u64,
    /// A few violations, each explained with its operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The reason why the check is incomplete, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
