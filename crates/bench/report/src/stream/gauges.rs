//! Defines the gauges of a pipeline.

use plimsoll_measure::stream::Second;

/// A pipeline now, and its previous sample.
#[derive(Clone, Copy)]
pub(super) struct Moments<'a> {
    pub(super) before: &'a Second,
    pub(super) now: &'a Second,
}

/// A metric that is not a counter of the engine.
pub(super) struct Gauge {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
    pub(super) value: fn(Moments<'_>) -> f64,
}

pub(super) const GAUGES: [Gauge; 11] = [
    Gauge {
        name: "in_flight_events",
        kind: "gauge",
        help: "Events that are read and not settled.",
        value: |at| at.now.in_flight_events as f64,
    },
    Gauge {
        name: "in_flight_bytes",
        kind: "gauge",
        help: "Bytes of these events, as they were read, and what transforms added to them.",
        value: |at| at.now.in_flight_bytes as f64,
    },
    Gauge {
        name: "in_flight_events_max",
        kind: "gauge",
        help: "Events that may be in flight.",
        value: |at| at.now.in_flight_events_max as f64,
    },
    Gauge {
        name: "load_ratio",
        kind: "gauge",
        help: "The share of their time in which workers worked or waited for the sink, in the last second; what is left is \
               waiting for the source.",
        value: |at| at.now.load_since(at.before),
    },
    Gauge {
        name: "integrity_ratio",
        kind: "gauge",
        help: "Acknowledged ÷ admitted: events that are durable (written or dead letters) or were left out as was meant ÷ events \
               admitted and not handed over. What is in flight is not acknowledged yet, and what was given up never is.",
        value: |at| at.now.all_counts().integrity(),
    },
    Gauge {
        name: "settled_events_total",
        kind: "counter",
        help: "Events whose fate is known: written, left out, dead letters, given up, or left to another process.",
        value: |at| at.now.all_counts().settled() as f64,
    },
    Gauge {
        name: "trouble",
        kind: "gauge",
        help: "1 while the sink, the store of positions or the source cannot be used and is tried again, else 0.",
        value: |at| f64::from(u8::from(at.now.trouble.is_some())),
    },
    Gauge {
        name: "process_cpu_seconds_total",
        kind: "counter",
        help: "CPU time of the process.",
        value: |at| at.now.process.cpu_ns as f64 / 1e9,
    },
    Gauge {
        name: "process_resident_bytes",
        kind: "gauge",
        help: "Resident memory of the process.",
        value: |at| at.now.process.resident_bytes as f64,
    },
    Gauge {
        name: "process_threads",
        kind: "gauge",
        help: "Threads of the process.",
        value: |at| at.now.process.threads as f64,
    },
    Gauge {
        name: "start_time_seconds",
        kind: "gauge",
        help: "When the pipeline began, in seconds since 1970 UTC: a change is a restart.",
        value: |at| at.now.started_ms as f64 / 1e3,
    },
];
