//! Generates events, at full speed or at a rate.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant, SECOND_NS};
use plimsoll_measure::random::{self, Random};

use super::text::{WORD_BYTES_MAX, push_text};
use crate::event::Batch;
use crate::flow::{Assignment, Assignments, Space};
use crate::port::source::{Intake, Last, Read, Replay, Source, SourceError};
use crate::position::{Partition, Position};

/// The stop condition of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The generator never stops.
    Never,
    /// The generator stops after this number of its events.
    Events(u64),
    /// The generator stops after this time.
    Time(Duration),
}

/// The settings of a generator.
#[derive(Clone, Debug)]
pub struct GeneratorSettings {
    /// Its partition.
    pub partition: Partition,
    /// Bytes of each payload. It begins with the event's number in decimal.
    pub payload_bytes: usize,
    /// The key of every event, if they have one.
    pub key: Option<Vec<u8>>,
    /// Events per second; `None`: as fast as possible.
    pub rate_per_s: Option<f64>,
    /// The stop condition.
    pub stop: Stop,
    /// Whether a store has its positions, so that the generator resumes with the next number.
    pub resumes: bool,
    /// The seed of the payloads.
    pub seed: u64,
}

/// Generates events. The same number always has the same payload.
///
/// With a rate an event counts as appended when it was due, even if space was free only later: its latency includes that
/// wait.
pub struct Generator {
    settings: GeneratorSettings,
    /// The number of words of each payload; `None`: payloads are letters.
    words: Option<usize>,
    /// The bytes from which payloads are cut.
    filling: Vec<u8>,
    assignment: Option<Arc<Assignment>>,
    next: u64,
    made: u64,
    begun: Option<Begun>,
}

/// The time of a generator's first read, by both clocks.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    wall_ms: u64,
}

/// The number of places in `filling` at which payloads may begin.
const PLACES: usize = 4096;

impl Generator {
    /// A generator at its first event.
    pub fn new(settings: GeneratorSettings) -> Self {
        let filling = filling(settings.seed, settings.payload_bytes + PLACES);
        Self { settings, words: None, filling, assignment: None, next: 0, made: 0, begun: None }
    }

    /// Makes payloads texts of this number of words and ignores `payload_bytes`.
    #[must_use]
    pub const fn of_words(mut self, words: usize) -> Self {
        self.words = Some(words);
        self
    }

    /// The number of due events that fit the space.
    fn due(&self, now: Instant, begun: Begun, space: Space) -> usize {
        let payload_bytes = self.words.map_or(self.settings.payload_bytes, |words| words * WORD_BYTES_MAX);
        let bytes_each = payload_bytes.max(1) + self.settings.key.as_ref().map_or(0, Vec::len);
        // One event is admitted at any size, so that large ones are possible.
        let room = space.events.min((space.bytes / bytes_each).max(usize::from(space.bytes > 0))) as u64;
        let by_rate = self.settings.rate_per_s.map_or(u64::MAX, |rate| {
            let due = (now.since(begun.at) as f64 / SECOND_NS as f64 * rate) as u64;
            due.saturating_sub(self.made)
        });
        let left = match self.settings.stop {
            Stop::Events(most) => most.saturating_sub(self.next),
            Stop::Never | Stop::Time(_) => u64::MAX,
        };
        usize::try_from(room.min(by_rate).min(left)).unwrap_or(usize::MAX)
    }

    fn is_over(&self, now: Instant, begun: Begun) -> bool {
        match self.settings.stop {
            Stop::Never => false,
            Stop::Events(most) => self.next >= most,
            Stop::Time(time) => u128::from(now.since(begun.at)) >= time.as_nanos(),
        }
    }

    fn fill(&mut self, batch: &mut Batch, events: usize, begun: Begun) {
        let now_ms = clock::wall_ms();
        let GeneratorSettings { key, seed, payload_bytes, rate_per_s, .. } = &self.settings;
        for (number, made) in (self.next..self.next + events as u64).zip(self.made..) {
            let appended_ms = rate_per_s.map_or(now_ms, |rate| due_ms(begun, rate, made));
            batch.push_written(number, appended_ms, key.as_deref(), |arena| match self.words {
                Some(words) => push_text(arena, words, *seed, number),
                None => push_letters(arena, &self.filling, *payload_bytes, number),
            });
        }
        self.next += events as u64;
        self.made += events as u64;
        batch.set_position(Position::at(self.next));
    }
}

/// The due time of the event after `before` others, in milliseconds since 1970 UTC.
fn due_ms(begun: Begun, rate_per_s: f64, before: u64) -> u64 {
    begun.wall_ms + ((before + 1) as f64 / rate_per_s * 1e3) as u64
}

/// Appends a slice of `filling`, and overwrites its beginning with the number.
fn push_letters(arena: &mut Vec<u8>, filling: &[u8], bytes: usize, number: u64) {
    let from = (number.wrapping_mul(random::STEP) >> 52) as usize;
    let start = arena.len();
    arena.extend_from_slice(&filling[from..from + bytes]);
    write_number(&mut arena[start..], number);
}

/// Writes the last digits of a number to the front of a payload, zero-padded to twenty.
fn write_number(payload: &mut [u8], number: u64) {
    let digits = payload.len().min(20);
    let mut left = number;
    for place in payload[..digits].iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

/// Printable pseudorandom bytes from a seed.
fn filling(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| b'a' + (random.bits() % 26) as u8).collect()
}

impl Source for Generator {
    fn replay(&self) -> Replay {
        if self.settings.resumes { Replay::FromStore } else { Replay::Nothing }
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        let (assignment, from) = assignments.open(self.settings.partition.clone())?;
        self.next = from.map_or(0, |position| position.next);
        self.assignment = Some(assignment);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(assignment) = self.assignment.clone() else { return Ok(Read::End) };
        let now = clock::now();
        let begun = *self.begun.get_or_insert_with(|| Begun { at: now, wall_ms: clock::wall_ms() });
        if self.is_over(now, begun) {
            return Ok(Read::End);
        }
        let batch_events_max = intake.limits().batch_events_max;
        let mut due = self.due(now, begun, intake.space());
        if due == 0 {
            if intake.space().events > 0 {
                std::thread::sleep(intake.wait().min(Duration::from_millis(1)));
            }
            return Ok(Read::Idle);
        }
        while due > 0 {
            let events = due.min(batch_events_max);
            let mut batch = intake.batch(assignment.partition());
            self.fill(&mut batch, events, begun);
            intake.hand_over(&assignment, batch);
            due -= events;
        }
        Ok(Read::Some)
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_rate_the_append_time_is_the_due_time() {
        let settings = GeneratorSettings {
            partition: Partition::new("generated", 0),
            payload_bytes: 8,
            key: None,
            rate_per_s: Some(100.0),
            stop: Stop::Never,
            resumes: false,
            seed: 1,
        };
        let mut generator = Generator::new(settings);
        let begun = Begun { at: Instant::from_ns(0), wall_ms: 5000 };
        let now = Instant::from_ns(SECOND_NS / 20);
        let due = generator.due(now, begun, Space { events: 1000, bytes: 1 << 20 });
        assert_eq!(due, 5);
        let mut batch = Batch::new(Partition::new("generated", 0));
        generator.fill(&mut batch, due, begun);
        let appended: Vec<_> = batch.events().iter().map(|event| event.appended_ms).collect();
        assert_eq!(appended, [5010, 5020, 5030, 5040, 5050]);
        assert_eq!(generator.due(now, begun, Space { events: 1000, bytes: 1 << 20 }), 0);
    }
}
