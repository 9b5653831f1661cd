//! Plans the demonstration: its length and its kills.

use std::time::Duration;

use anyhow::ensure;
use plimsoll_measure::duration::Span;

/// The shortest demonstration: the pipeline must work again after a kill.
const LENGTH_MIN: Duration = Duration::from_secs(5);
/// The limit of events: the temporary files take twice their size on the disk.
const EVENTS_MAX: u64 = 10_000_000;

/// The schedule of a demonstration, counted from the arrival of the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The duration of the load.
    pub length: Duration,
    /// The kills, in the order of their times.
    pub kills: Vec<(Duration, Kill)>,
}

/// A process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The pipeline, which is restarted.
    Pipeline,
    /// The MongoDB server, which is restarted on its storage.
    Server,
    /// The broker, which is restarted on its storage.
    Broker,
}

impl Script {
    /// Kills the pipeline after a third of the time, and the second process after two thirds.
    ///
    /// # Errors
    /// The time is too short, or the events are too many.
    pub fn of(length: Span, rate: u32, second: Option<Kill>) -> anyhow::Result<Self> {
        let time = Duration::from_nanos(length.as_ns());
        ensure!(time >= LENGTH_MIN, "--for {length}: give it {} s at least", LENGTH_MIN.as_secs());
        let events = time.as_secs().saturating_mul(u64::from(rate));
        ensure!(
            events <= EVENTS_MAX,
            "--rate {rate} for {length} makes {events} events: give less time or a lower rate, {EVENTS_MAX} events at most"
        );
        let kills = [(time / 3, Some(Kill::Pipeline)), (time * 2 / 3, second)];
        let kills = kills.into_iter().filter_map(|(at, kill)| Some((at, kill?)));
        Ok(Self { length: time, kills: kills.collect() })
    }
}

impl Kill {
    /// The name in messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Server => "MongoDB server",
            Self::Broker => "broker",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipeline_is_killed_first_and_the_second_process_after_it() {
        let script = Script::of(Span::from_secs(60), 1000, Some(Kill::Broker)).unwrap();
        let at = Duration::from_secs;
        assert_eq!(script.kills, [(at(20), Kill::Pipeline), (at(40), Kill::Broker)]);
        assert_eq!(Script::of(Span::from_secs(6), 1, None).unwrap().kills, [(at(2), Kill::Pipeline)]);
    }

    #[test]
    fn too_little_time_and_too_many_events_are_refused() {
        let refusal =
            |seconds, rate| Script::of(Span::from_secs(seconds), rate, None).unwrap_err().to_string();
        assert!(refusal(4, 1).contains("5 s at least"));
        assert!(refusal(11, 1_000_000).contains("a lower rate"));
    }
}
