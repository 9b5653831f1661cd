//! A source of made-up events: at full speed, or at a rate.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant, SECOND_NS};

use super::words::{WORD_BYTES_MAX, push_text};
use crate::event::Batch;
use crate::flow::{Lane, Lanes, Space};
use crate::place::{Partition, Position};
use crate::port::source::{Intake, Last, Read, Replay, Source, SourceError};

/// When a generator has nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Never.
    Never,
    /// After so many events of this generator.
    Events(u64),
    /// After so much time.
    Time(Duration),
}

/// What a generator makes.
#[derive(Clone, Debug)]
pub struct GeneratorSettings {
    /// Its partition.
    pub partition: Partition,
    /// Bytes of each payload; the first ones are the event's number, as it is written in decimal.
    pub payload_bytes: usize,
    /// The key of every event, if they have one.
    pub key: Option<Vec<u8>>,
    /// Events a second; `None`: as fast as they are taken.
    pub rate_per_s: Option<f64>,
    /// When there are no more.
    pub stop: Stop,
    /// Whether positions are kept by a store, so that it goes on with the number it had.
    pub resumes: bool,
    /// The seed of what payloads hold.
    pub seed: u64,
}

/// Makes events: the same number always has the same payload.
///
/// With a rate an event counts as appended when it was due, whenever there was room for it: its latency holds the time that it
/// had to wait.
pub struct Generator {
    settings: GeneratorSettings,
    /// How many words payloads have, if they are texts.
    words: Option<usize>,
    /// Bytes that payloads are cut from.
    filling: Vec<u8>,
    lane: Option<Arc<Lane>>,
    next: u64,
    made: u64,
    begun: Option<Begun>,
}

/// When a generator began.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    wall_ms: u64,
}

/// Payloads begin at one of so many places of the filling.
const PLACES: usize = 4096;

impl Generator {
    /// A generator at its first event.
    pub fn new(settings: GeneratorSettings) -> Self {
        let filling = filling(settings.seed, settings.payload_bytes + PLACES);
        Self { settings, words: None, filling, lane: None, next: 0, made: 0, begun: None }
    }

    /// The same with texts of so many words for payloads, whatever bytes they are to have.
    #[must_use]
    pub const fn of_words(mut self, words: usize) -> Self {
        self.words = Some(words);
        self
    }

    /// How many events are due now and may be read.
    fn due(&self, now: Instant, begun: Begun, space: Space) -> usize {
        let payload_bytes = self.words.map_or(self.settings.payload_bytes, |words| words * WORD_BYTES_MAX);
        let bytes_each = payload_bytes.max(1) + self.settings.key.as_ref().map_or(0, Vec::len);
        // One event is let in whatever its size, so that large ones are made at all.
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

/// When the event that follows so many is due, in milliseconds since 1970 UTC.
fn due_ms(begun: Begun, rate_per_s: f64, before: u64) -> u64 {
    begun.wall_ms + ((before + 1) as f64 / rate_per_s * 1e3) as u64
}

/// Appends a piece of the filling, with the number at its front.
fn push_letters(arena: &mut Vec<u8>, filling: &[u8], bytes: usize, number: u64) {
    let from = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
    let start = arena.len();
    arena.extend_from_slice(&filling[from..from + bytes]);
    write_number(&mut arena[start..], number);
}

/// Writes a number in decimal to the front of a payload, as many of its last digits as fit, filled with zeros to twenty.
fn write_number(payload: &mut [u8], number: u64) {
    let digits = payload.len().min(20);
    let mut left = number;
    for place in payload[..digits].iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

/// Printable bytes that follow from a seed (xorshift; Marsaglia, "Xorshift RNGs", 2003).
fn filling(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1 << 63;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'a' + (state >> 32) as u8 % 26
    };
    (0..len).map(|_| next()).collect()
}

impl Source for Generator {
    fn replay(&self) -> Replay {
        if self.settings.resumes { Replay::FromStore } else { Replay::Nothing }
    }

    fn open(&mut self, lanes: &Arc<Lanes>) -> Result<(), SourceError> {
        let (lane, from) = lanes.open(self.settings.partition.clone())?;
        self.next = from.map_or(0, |position| position.next);
        self.lane = Some(lane);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(lane) = self.lane.clone() else { return Ok(Read::End) };
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
            let mut batch = intake.batch(lane.partition());
            self.fill(&mut batch, events, begun);
            intake.hand_over(&lane, batch);
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
    fn with_a_rate_events_count_from_when_they_were_due_though_they_are_made_late() {
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
