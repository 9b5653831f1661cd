//! Plans the demonstration: its length and its kills.

use std::time::Duration;

use anyhow::ensure;
use plimsoll_measure::duration::Span;

/// A shorter demonstration would be over before the pipeline is at work again after a kill.
const LENGTH_MIN: Duration = Duration::from_secs(5);
/// More events are no demonstration: they lie twice on the disk for files that are temporary.
const EVENTS_MAX: u64 = 10_000_000;

/// What happens when, counted from the moment that the first event has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// How long events come.
    pub length: Duration,
    /// The kills, in the order of their times.
    pub kills: Vec<(Duration, Kill)>,
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The process of the pipeline, which is started again.
    Pipeline,
    /// The MongoDB server, which is started again on its storage.
    Server,
    /// The broker, likewise.
    Broker,
}

impl Script {
    /// The pipeline is killed after a third of the time, and what was asked for after two.
    ///
    /// # Errors
    /// When there is too little time, or too much to do.
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
    /// In a word.
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
    fn the_pipeline_is_killed_first_and_what_was_asked_for_after_it() {
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
