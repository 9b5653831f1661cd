//! Defines the state of a pipeline at one moment, and at its end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::{Count, Counts};
use crate::histogram::Histogram;

/// The format of a summary.
pub const FORMAT: u32 = 1;

/// The times of events at a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Its name: `queue`, a transform's name, `sink`, or `delivery`, which lasts from an event's time to the durable
    /// acknowledgement by this machine's clock. Kafka's `CreateTime` is the producer's clock (`producer_clock_events`),
    /// `LogAppendTime` the broker's and a change stream's time the server's (`source_clock_events`). If two clocks differ,
    /// delivery is wrong by their difference; a negative delivery counts as zero (`clock_ahead_events`).
    pub name: String,
    /// The number of events.
    pub events: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// The 95th percentile, in nanoseconds.
    pub p95_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// The 99.9th percentile, in nanoseconds.
    pub p999_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl Stage {
    /// The times of a stage from a histogram.
    pub fn of(name: &str, times: &Histogram) -> Self {
        let at = |percentile| if times.count() == 0 { 0 } else { times.at(percentile) };
        Self {
            name: name.to_owned(),
            events: times.count(),
            p50_ns: at(50.0),
            p95_ns: at(95.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            max_ns: times.max(),
        }
    }
}

/// The resources of a pipeline's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// CPU time since the start, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
}

/// A pipeline at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// When, in milliseconds since 1970 UTC.
    pub at_ms: u64,
    /// When the pipeline began, in milliseconds since 1970 UTC: the same in every second of a run.
    #[serde(default)]
    pub started_ms: u64,
    /// Since the pipeline began, in nanoseconds.
    pub elapsed_ns: u64,
    /// Counters since the start, by [`Count::word`].
    pub counts: BTreeMap<String, u64>,
    /// Events in flight.
    pub in_flight_events: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The limit of events in flight.
    pub in_flight_events_max: u64,
    /// Stage times since the previous sample.
    pub stages: Vec<Stage>,
    /// The resources of the process.
    pub process: Process,
    /// A current failure under retry, such as an unavailable sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Second {
    /// Sets the counters.
    pub fn set_counts(&mut self, counts: &Counts) {
        self.counts = Count::ALL.iter().map(|count| (count.word().to_owned(), counts.get(*count))).collect();
    }

    /// A counter since the start.
    pub fn count(&self, count: Count) -> u64 {
        self.counts.get(count.word()).copied().unwrap_or_default()
    }

    /// All counters since the start.
    pub fn all_counts(&self) -> Counts {
        Counts::new(Count::ALL.map(|count| self.count(count)))
    }

    /// Events in flight ÷ the limit.
    pub fn fill(&self) -> f64 {
        self.in_flight_events as f64 / self.in_flight_events_max.max(1) as f64
    }

    /// The growth of a counter per second since an earlier moment; zero if no time passed.
    pub fn rate_since(&self, earlier: &Self, count: Count) -> f64 {
        let ns = self.elapsed_ns.saturating_sub(earlier.elapsed_ns);
        let grown = self.count(count).saturating_sub(earlier.count(count));
        if ns == 0 { 0.0 } else { grown as f64 * 1e9 / ns as f64 }
    }

    /// The share of time in which workers worked or waited for the sink, since an earlier moment; the rest is waiting
    /// for the source. Zero if no time passed.
    pub fn load_since(&self, earlier: &Self) -> f64 {
        let grown = |count| self.count(count).saturating_sub(earlier.count(count)) as f64;
        let used = grown(Count::BusyNs) + grown(Count::SinkWaitNs);
        let all = used + grown(Count::IdleNs);
        if all == 0.0 { 0.0 } else { used / all }
    }
}

/// The result of a pipeline: `pipeline.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// The format of this file.
    pub format: u32,
    /// The pipeline's name.
    pub name: String,
    /// Its guarantee: `at-most-once`, `at-least-once` or `effectively-once`.
    pub guarantee: String,
    /// Its source, transforms and sink, in words.
    pub path: Vec<String>,
    /// Its end: `exhausted`, `finished` (as `--for` or `--events` said), `drained`, `aborted` or `failed`.
    pub ended: String,
    /// Why, if it failed.
    pub failure: Option<String>,
    /// Facts of the run that the user must know, such as a start without a stored position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// When it began, in milliseconds since 1970 UTC.
    pub started_ms: u64,
    /// The program's version.
    pub version: String,
    /// The time in which events moved; absent without events, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// The last moment; its stages are those of the whole run.
    pub last: Second,
}

impl Stream {
    /// Whether no event succeeded, although the pipeline ended in order: every settled event became a dead letter.
    pub fn is_fruitless(&self) -> bool {
        let in_order = ["exhausted", "finished", "drained"].contains(&self.ended.as_str());
        let succeeded = [Count::Written, Count::Filtered, Count::Left].map(|count| self.last.count(count));
        in_order && self.last.count(Count::DeadLettered) > 0 && succeeded == [0; 3]
    }
}

/// The time in which events moved, without connecting and closing. It is known to some milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// When the first event was read, in nanoseconds since the pipeline began.
    pub from_ns: u64,
    /// When the last one was settled, in the same unit.
    pub to_ns: u64,
}

impl Moved {
    /// Its length in nanoseconds.
    pub const fn span_ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_load_cover_the_time_between_two_moments() {
        let second = |elapsed_ns, read: u64, busy: u64, idle: u64| {
            let counts = [("read_events", read), ("worker_busy_ns", busy), ("worker_idle_ns", idle)];
            let counts = counts.into_iter().map(|(word, count)| (word.to_owned(), count)).collect();
            Second { elapsed_ns, counts, ..Second::default() }
        };
        let (first, then) = (second(1_000_000_000, 100, 10, 0), second(3_000_000_000, 500, 40, 10));
        assert!((then.rate_since(&first, Count::Read) - 200.0).abs() < 1e-9);
        assert!((then.load_since(&first) - 0.75).abs() < 1e-9);
        assert!((first.rate_since(&first, Count::Read)).abs() < 1e-9);
    }

    #[test]
    fn a_pipeline_is_fruitless_if_it_ended_in_order_with_nothing_but_dead_letters() {
        let stream = |ended: &str, counts: &[(&str, u64)]| {
            let counts = counts.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
            Stream { ended: ended.into(), last: Second { counts, ..Second::default() }, ..Stream::default() }
        };
        let dead = ("dead_letter_events", 3);
        for ended in ["exhausted", "finished", "drained"] {
            assert!(stream(ended, &[dead]).is_fruitless(), "{ended}");
            assert!(!stream(ended, &[]).is_fruitless(), "{ended}: no event was read");
            for success in ["written_events", "filtered_events", "left_events"] {
                assert!(!stream(ended, &[dead, (success, 1)]).is_fruitless(), "{ended}: {success}");
            }
        }
        assert!(!stream("aborted", &[dead]).is_fruitless() && !stream("failed", &[dead]).is_fruitless());
    }

    #[test]
    fn counters_are_read_back_by_their_words() {
        let mut second = Second::default();
        let mut at = 0;
        let counts = Counts::new(Count::ALL.map(|_| {
            at += 1;
            at
        }));
        second.set_counts(&counts);
        assert_eq!(second.all_counts(), counts);
    }
}
