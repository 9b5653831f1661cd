//! Counts the work of the workflow engine during a run: the phases of an instance, the calls of its store, and what is left.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Latency;

/// The figures of the workflow engine. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workflow {
    /// `mongodb` or `postgres`.
    pub store: String,
    /// `batches` or `transactions`.
    pub mode: String,
    /// Workers of the engine.
    pub workers: u32,
    /// From the request to the durable start of an instance.
    pub start_ns: Latency,
    /// From the request to the durable publication of a signal.
    pub publish_ns: Latency,
    /// From the request of an instance's last signal to its observed end; for a signal to a receiver, to its durable application.
    pub signal_to_completion_ns: Latency,
    /// From the end of the load until the engine had no work left, in seconds; absent if work was left, or if
    /// answers of the store were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// Instances that were open at the end of the load, as far as the store reported.
    pub backlog: u64,
    /// Instances whose start the store acknowledged.
    pub started: u64,
    /// Signals that the store acknowledged.
    pub signals: u64,
    /// Dead letters of the run at the end, apart from late answers.
    pub dead_letters: u64,
    /// Changes that lost their compare-and-set, and were decided again.
    pub conflicts: u64,
    /// Calls of the store that failed, and were repeated or reported to the client.
    pub failures: u64,
    /// Instances that did not end although nothing was missing.
    pub stuck: u64,
    /// Broken invariants that the engine's audit found, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, u64>,
    /// Calls of the store during the load, by kind.
    pub calls: BTreeMap<String, StoreCalls>,
    /// The growth of the database's own counters during the load, by name. They count every client, Plimsoll's observer included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub database: BTreeMap<String, u64>,
}

/// The calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreCalls {
    /// Calls.
    pub calls: u64,
    /// Items of all batches: instances, signals or changes.
    pub items: u64,
    /// Calls that failed.
    pub failed: u64,
}

impl StoreCalls {
    /// The calls since an earlier count.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            items: self.items.saturating_sub(earlier.items),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }
}

impl Workflow {
    /// Calls of the store for each started instance, or for each signal if none was started; absent without either.
    pub fn calls_per_operation(&self) -> Option<f64> {
        let operations = if self.started > 0 { self.started } else { self.signals };
        let calls: u64 = self.calls.values().map(|calls| calls.calls).sum();
        (operations > 0).then(|| calls as f64 / operations as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_per_instance_or_per_signal() {
        let calls = BTreeMap::from([
            ("start".to_owned(), StoreCalls { calls: 4, items: 10, failed: 0 }),
            ("commit".to_owned(), StoreCalls { calls: 6, items: 30, failed: 1 }),
        ]);
        let run = Workflow { started: 5, signals: 20, calls, ..Workflow::default() };
        assert_eq!(run.calls_per_operation(), Some(2.0));
        assert_eq!(Workflow { started: 0, ..run.clone() }.calls_per_operation(), Some(0.5));
        assert_eq!(Workflow { started: 0, signals: 0, ..run }.calls_per_operation(), None);
    }

    #[test]
    fn calls_since_an_earlier_count_are_the_difference() {
        let (early, late) =
            (StoreCalls { calls: 1, items: 2, failed: 3 }, StoreCalls { calls: 10, items: 20, failed: 3 });
        assert_eq!(late.since(early), StoreCalls { calls: 9, items: 18, failed: 0 });
    }
}
