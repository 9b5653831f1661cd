//! Records the progress of a phase into the summary and the event sinks, live or from shards.

use std::collections::BTreeMap;

use plimsoll_load::bottlenecks::ObservedLoad;
use plimsoll_load::engine::Second;
use plimsoll_load::fault::InjectedFault;
use plimsoll_load::phase::Phase;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::event::{Event, Interval};
use plimsoll_measure::interval::Tally;
use plimsoll_measure::sample::ServerSample;

use crate::event_sinks::EventSinks;
use crate::observer::Observer;
use crate::shard_log::Began;

/// Passes a phase's events to the summary and the event sinks.
#[derive(Debug)]
pub struct Log<'a> {
    /// The names of the operations, by index.
    pub names: Vec<String>,
    /// The measurements so far.
    pub summary: &'a mut Summary,
    /// The sinks of the run's events.
    pub sinks: &'a mut EventSinks,
    /// Every server sample.
    pub samples: &'a mut Vec<ServerSample>,
    /// The observer, if any.
    pub observer: Option<&'a Observer>,
    /// Receives requests to stop.
    pub control: &'a Control,
    /// Start of the phase, in nanoseconds from the run's start.
    pub from_ns: u64,
    /// Start of the phase in milliseconds since 1970. `None` before the start.
    pub began_ms: Option<u64>,
    /// The phase, second by second.
    pub watched: ObservedLoad,
}

impl Log<'_> {
    /// Records the start of the phase: its offset from the run's start, and its wall time.
    pub fn began(&mut self, phase: &Phase, from_ns: u64, began_ms: u64) {
        (self.from_ns, self.began_ms) = (from_ns, Some(began_ms));
        self.sinks.began(Began { key: phase.key, from_ns, began_ms }, self.control);
    }

    /// Records a completed second.
    pub fn second(&mut self, phase: &Phase, second: &Second) {
        let at_ns = self.from_ns + second.from_ns;
        for text in notes(self.summary, second) {
            self.sinks.emit(&Event::Note { at_ns, text }, self.control);
        }
        self.summary.add(phase, second);
        self.watched.add(self.from_ns, second);
        if let Some(reason) = self.summary.broken() {
            self.control.abort(Ended::Threshold, reason);
        }
        self.sinks.second(at_ns, second, &self.names, self.control);
        if second.to_ns > second.from_ns {
            self.sinks.emit(&Event::Interval(interval(at_ns, second, &self.names)), self.control);
        }
        let seen = self.observer.map(Observer::drain).unwrap_or_default();
        self.sinks.look(self.samples, seen, self.control);
    }

    /// Records the start or the end of a fault.
    pub fn happened(&mut self, phase: &Phase, happening: &InjectedFault) {
        let name = phase.faults[happening.fault].name.clone();
        let phase_ns = happening.to_ns.unwrap_or(happening.from_ns);
        let undone = happening.to_ns.is_some();
        let event = Event::Fault {
            at_ns: self.from_ns + phase_ns,
            phase_ns: Some(phase_ns),
            name,
            undone,
            error: happening.error.clone(),
        };
        self.sinks.emit(&event, self.control);
    }
}

/// One note for each class of errors that the run meets for the first time.
fn notes(summary: &Summary, second: &Second) -> Vec<String> {
    let mut first = BTreeMap::new();
    for (name, it) in summary.unseen(second) {
        first.entry((name, it.class.as_str())).or_insert(&it.error);
    }
    first
        .into_iter()
        .map(|((name, class), error)| format!("{name}, {}: {error}", class.replace('_', " ")))
        .collect()
}

fn interval(from_ns: u64, second: &Second, names: &[String]) -> Interval {
    let length_ns = second.to_ns - second.from_ns;
    let operations: BTreeMap<_, _> =
        names.iter().cloned().zip(second.tallies.iter().map(Tally::line)).collect();
    let share = |cpu_ns: &u64| *cpu_ns as f64 / length_ns as f64;
    let worker_cpu = second.cpu_ns.iter().map(share).collect();
    Interval { from_ns, length_ns, operations, worker_cpu, unreachable_ns: second.unreachable_ns() }
}
