//! Defines the stream of events that a run emits and that every reader replays.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::IntervalLine;
use crate::line::{Probe, Stage};
use crate::run::Run;
use crate::sample::ServerSample;

/// An event of a run. The run directory keeps one a line in `events.ndjson`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// The run starts.
    Started {
        /// The run's identity.
        id: String,
        /// Scenario's name.
        scenario: String,
        /// Its title.
        title: String,
        /// The server, in a few words.
        server: String,
        /// Wall time in milliseconds since 1970.
        wall_ms: u64,
        /// The kind of its operations.
        #[serde(default, skip_serializing_if = "Sends::is_operations")]
        sends: Sends,
    },
    /// A phase starts.
    Phase {
        /// Nanoseconds since the run's start.
        at_ns: u64,
        /// The phase's name.
        name: String,
        /// Its longest duration in seconds, if known.
        duration_s: Option<f64>,
        /// The number of documents it will send, if known.
        documents: Option<u64>,
    },
    /// One second of load.
    Interval(Interval),
    /// A sample of the server's counters.
    Server(ServerSample),
    /// The search for the load line starts a trial of a rate.
    Trying {
        /// Nanoseconds since the run's start.
        at_ns: u64,
        /// The stage of the search.
        stage: Stage,
        /// The rate, in the line's unit.
        rate: f64,
        /// The length of the trial, in seconds.
        window_s: f64,
        /// The line's unit.
        unit: String,
    },
    /// A trial of a rate ended.
    Probed(Probe),
    /// A fault starts or ends.
    Fault {
        /// Nanoseconds since the run's start.
        at_ns: u64,
        /// Nanoseconds since the start of its phase, as a scenario counts them; absent in older files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase_ns: Option<u64>,
        /// Its name, such as `kill`.
        name: String,
        /// Whether it was undone.
        undone: bool,
        /// Its error, if it failed.
        error: Option<String>,
    },
    /// A note for the user.
    Note {
        /// Nanoseconds since the run's start.
        at_ns: u64,
        /// A sentence.
        text: String,
    },
    /// The audit reads documents back.
    Auditing {
        /// Documents read so far.
        read: u64,
        /// Documents expected.
        expected: u64,
    },
    /// The run is over; its summary.
    Finished(Box<Run>),
}

/// The kind of a run's operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// A command to a database.
    #[default]
    Operations,
    /// A request to a service.
    Requests,
}

impl Sends {
    fn is_operations(&self) -> bool {
        *self == Self::Operations
    }
}

/// One second of load over all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Nanoseconds from the run's start to the interval's start.
    pub from_ns: u64,
    /// Its length in nanoseconds.
    pub length_ns: u64,
    /// The counts of each operation, by name.
    pub operations: BTreeMap<String, IntervalLine>,
    /// CPU of each worker, 0 to 1.
    pub worker_cpu: Vec<f64>,
    /// Nanoseconds since the server's last answer to any worker, at the interval's end; absent if it answers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreachable_ns: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_back_from_its_line() {
        let events = [
            Event::Note { at_ns: 5, text: "said".into() },
            Event::Interval(Interval { from_ns: 1, length_ns: 2, ..Interval::default() }),
            Event::Finished(Box::default()),
        ];
        for event in events {
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
        }
    }
}
