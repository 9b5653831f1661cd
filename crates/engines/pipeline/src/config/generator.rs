//! Defines the `generator` source of a pipeline file.

use std::time::Duration;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::position::Partition;
use crate::source::{Generator, GeneratorSettings, Stop};

/// The `generator` source of a pipeline file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// Partitions. Each has its own thread.
    pub partitions: u32,
    /// Bytes of each payload.
    pub payload: Bytes,
    /// Words of each payload, which is then a text of any number of bytes. Each word is one token of the usual tokenizers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<u32>,
    /// The key of every event.
    pub key: Option<String>,
    /// Events per second, over all partitions. Default: as fast as possible.
    pub rate: Option<f64>,
    /// Events at most, over all partitions.
    pub events: Option<u64>,
    /// The time limit of the generator.
    pub duration: Option<Span>,
    /// The seed of the payloads.
    pub seed: u64,
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            partitions: 1,
            payload: Bytes::new(512),
            words: None,
            key: None,
            rate: None,
            events: None,
            duration: None,
            seed: 1,
        }
    }
}

/// Partitions of a generator at most.
const PARTITIONS_MAX: u32 = 64;
/// Bytes of a payload at most.
const PAYLOAD_BYTES_MAX: u64 = 16 << 20;
/// Words of a payload at most.
const WORDS_MAX: u32 = 100_000;

impl GeneratorConfig {
    /// The generators, one per partition. With `resumes` they continue from stored positions.
    ///
    /// # Errors
    ///
    /// If a value is out of range, or `events` and `duration` are both given. The message says what to change.
    pub fn build(&self, resumes: bool) -> Result<Vec<Generator>, String> {
        if !(1..=PARTITIONS_MAX).contains(&self.partitions) {
            return Err(format!(
                "generator: `partitions` must be 1 to {PARTITIONS_MAX}, not {}",
                self.partitions
            ));
        }
        if self.payload.get() > PAYLOAD_BYTES_MAX {
            return Err(format!("generator: `payload` must be at most {PAYLOAD_BYTES_MAX} bytes"));
        }
        if self.words.is_some_and(|words| !(1..=WORDS_MAX).contains(&words)) {
            return Err(format!("generator: `words` must be 1 to {WORDS_MAX}"));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            return Err("generator: `rate` must be a number of events a second above zero".into());
        }
        if self.events.is_some() && self.duration.is_some() {
            return Err("generator: use `events` or `duration`, not both".into());
        }
        Ok((0..self.partitions).map(|index| self.generator(index, resumes)).collect())
    }

    fn generator(&self, index: u32, resumes: bool) -> Generator {
        let generator = Generator::new(self.of(index, resumes));
        match self.words {
            Some(words) => generator.of_words(words as usize),
            None => generator,
        }
    }

    fn of(&self, index: u32, resumes: bool) -> GeneratorSettings {
        let (parts, index64) = (u64::from(self.partitions), u64::from(index));
        let share = |events: u64| events / parts + u64::from(index64 < events % parts);
        let stop = match (self.events, self.duration) {
            (Some(events), _) => Stop::Events(share(events)),
            (None, Some(time)) => Stop::Time(Duration::from_nanos(time.as_ns())),
            (None, None) => Stop::Never,
        };
        GeneratorSettings {
            partition: Partition::new("generated", index),
            payload_bytes: usize::try_from(self.payload.get()).unwrap_or(usize::MAX),
            key: self.key.clone().map(String::into_bytes),
            rate_per_s: self.rate.map(|rate| rate / f64::from(self.partitions)),
            stop,
            resumes,
            seed: self.seed.wrapping_add(index64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        let generator = GeneratorConfig { partitions: 3, events: Some(1000), ..GeneratorConfig::default() };
        let shares: u64 = (0..3)
            .map(|index| match generator.of(index, false).stop {
                Stop::Events(events) => events,
                Stop::Never | Stop::Time(_) => 0,
            })
            .sum();
        assert_eq!(shares, 1000);
        let refused = |generator: GeneratorConfig| generator.build(false).err().unwrap();
        assert!(
            refused(GeneratorConfig { partitions: 0, ..GeneratorConfig::default() }).contains("partitions")
        );
        assert!(refused(GeneratorConfig { rate: Some(0.0), ..GeneratorConfig::default() }).contains("rate"));
        assert!(refused(GeneratorConfig { words: Some(0), ..GeneratorConfig::default() }).contains("words"));
        let both = GeneratorConfig {
            events: Some(1),
            duration: Some(Span::from_secs(1)),
            ..GeneratorConfig::default()
        };
        assert!(refused(both).contains("not both"));
    }
}
