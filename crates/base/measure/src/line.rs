//! Defines the load line: the highest rate at which the objective held, with all probes of its search.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Latency;

/// The result of a search for the load line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The load line in `unit`: the rate at which the objective just holds on average over time. The highest rate that held
    /// if none failed; absent when no rate held.
    pub rate: Option<f64>,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval; absent when no rate failed.
    pub high: Option<f64>,
    /// The confidence of the interval, for example 0.9; absent in older files, whose interval has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Whether both ends were confirmed; only in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<bool>,
    /// The arrivals of the searched load: `poisson` or `constant`. Older files have none and mean `constant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<String>,
    /// The change of the load line during the search, if it changed; absent otherwise and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// The load whose rate was searched; empty in older files.
    #[serde(default)]
    pub load: String,
    /// Background loads, each with its arrivals; all rates exclude them.
    #[serde(default, alias = "beside")]
    pub background: Vec<String>,
    /// `documents/s`, `operations/s`, or `requests/s` of a service.
    pub unit: String,
    /// Documents in one operation: rates divided by it are operations per second.
    pub documents_per_operation: f64,
    /// The objective, as text.
    pub objective: Vec<String>,
    /// Resources that explain slow seconds, or departed from their baseline at the knee, most likely first.
    #[serde(alias = "held_back_by")]
    pub bottlenecks: Vec<Candidate>,
    /// Resources that do neither.
    #[serde(default)]
    pub unmoved: Vec<Candidate>,
    /// Resources that were not checked: one of them may be the bottleneck.
    #[serde(default, alias = "not_seen")]
    pub unchecked: Vec<Unchecked>,
    /// All probes, in order.
    pub probes: Vec<Probe>,
    /// The long load just below the line after the search, if requested. It held if its mean `excess` (see the probes) over the whole time is below 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Probe>,
    /// Open questions of the search, in sentences.
    pub notes: Vec<String>,
}

/// A change of the load line during a search: the line of its first half and of its second half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// The load line of the first half, in the line's unit.
    pub first: f64,
    /// The load line of the second half.
    pub second: f64,
    /// Documents that the load had acknowledged by the middle of the first half, if counted.
    pub documents_first: Option<u64>,
    /// Documents that the load had acknowledged by the middle of the second half.
    pub documents_second: Option<u64>,
}

/// A possible bottleneck, with the evidence. The readings compare the knee, the lowest rate that failed, with the baseline, the
/// lowest rate that held; the timing compares slow with calm seconds of the same rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// One of `client CPU`, `wake`, `network`, `connections`, `server CPU`, `CPU quota`, `stolen CPU`,
    /// `memory`, `WiredTiger cache`, `tickets`, `write conflicts`, `checkpoint`, `journal sync`, `flow control`, `replication lag` and `disk`.
    pub name: String,
    /// The evidence in words.
    pub evidence: String,
    /// The numbers.
    #[serde(default)]
    pub readings: Vec<Reading>,
    /// Its slow and its calm seconds; absent without both within one trial, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
}

/// The time in which a resource was at its limit, in slow seconds and in calm ones of the same trials. A second is slow if the
/// operations that were due in it broke the objective.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// Slow seconds, in trials that also have calm ones.
    pub slow_s: u64,
    /// Calm seconds of these trials.
    pub calm_s: u64,
    /// The share of the slow time at the limit, 0 to 1.
    pub slow: f64,
    /// The share of the calm time at the limit, 0 to 1.
    pub calm: f64,
    /// Slow ÷ calm; absent if the resource was never at its limit in calm time.
    pub lift: Option<f64>,
    /// Slow − calm, at least 0: the share of the slow time that the resource explains.
    pub explained: f64,
    /// The probability of such a difference by chance, corrected for the number of resources. Absent if the resource was at its
    /// limit in all seconds or in none.
    pub p: Option<f64>,
}

/// One number at the baseline and at the knee.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Its name.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// The value at the lowest rate that held; absent if no rate held.
    pub baseline: Option<f64>,
    /// The value at the lowest rate that failed; absent if no rate failed.
    pub knee: Option<f64>,
}

/// A resource that was not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unchecked {
    /// The name of the candidate.
    pub name: String,
    /// Why, such as `not reported`.
    pub reason: String,
}

/// The stage of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// To reach a steady state; not judged.
    #[default]
    WarmUp,
    /// Geometric steps upward, or downward if the first step fails.
    Climb,
    /// Halving the bracket.
    Bisect,
    /// Spread around the estimate. Older files call their last stage `confirm`.
    #[serde(alias = "confirm")]
    Estimate,
    /// A fixed rate just below the estimate, again and again: it shows whether the system changes.
    Reference,
    /// A long load just below the load line, after the search.
    Soak,
}

/// A trial of one rate for one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Its stage of the search.
    pub stage: Stage,
    /// Nanoseconds from the run's start to the window's start.
    pub from_ns: u64,
    /// Length of the window in seconds.
    pub window_s: f64,
    /// The requested rate, in the line's unit.
    pub rate: f64,
    /// The completed rate, in the line's unit.
    pub achieved: f64,
    /// Completed ÷ due.
    pub achieved_ratio: f64,
    /// Response time in nanoseconds.
    pub response_ns: Latency,
    /// Service time in nanoseconds.
    pub service_ns: Latency,
    /// Wake error in nanoseconds.
    pub wake_ns: Latency,
    /// Waiting for a connection, in nanoseconds.
    pub wait_ns: Latency,
    /// Operations that failed.
    pub errors: u64,
    /// CPU that the busiest worker used, 0 to 1.
    pub client_cpu: f64,
    /// Cores that the server's process used; local servers only.
    pub server_cores: Option<f64>,
    /// Mean number of operations in flight ÷ connections.
    pub connections_busy: f64,
    /// The share of the due operations that broke the objective, divided by the share that it allows: the largest of all
    /// bounds. The objective held below 1. Absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<f64>,
    /// Whether the objective held.
    pub held: bool,
    /// The failed bounds, in sentences.
    pub reasons: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_an_older_version_can_be_read() {
        let candidate = Candidate { name: "wake".into(), ..Candidate::default() };
        let mut older =
            serde_json::to_value(Line { bottlenecks: vec![candidate], ..Line::default() }).unwrap();
        let keys = older.as_object_mut().unwrap();
        keys.insert("confirmed".into(), false.into());
        for key in ["unmoved", "unchecked", "load", "background"] {
            assert!(keys.remove(key).is_some(), "{key}");
        }
        // A key that was always null and is not written any more.
        keys.insert("scalability".into(), serde_json::Value::Null);
        keys.insert("beside".into(), serde_json::json!(["feed"]));
        let mut bottlenecks = keys.remove("bottlenecks").unwrap();
        bottlenecks[0].as_object_mut().unwrap().remove("readings");
        keys.insert("held_back_by".into(), bottlenecks);
        let line: Line = serde_json::from_value(older).unwrap();
        assert_eq!((line.bottlenecks[0].name.as_str(), line.unchecked.len()), ("wake", 0));
        assert_eq!((line.background, line.confirmed), (vec!["feed".to_owned()], Some(false)));
        assert_eq!(serde_json::from_str::<Stage>("\"confirm\"").unwrap(), Stage::Estimate);
    }
}
