//! Parses batches of readings: JSON arrays and lines of JSON.

use std::fmt;

use plimsoll_service::{InvalidField, Kind, Media, Problem, body::invalid_json};
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::ingest::allowed;
use crate::reading::{Read, Reading, Unread};

/// The maximum number of items of a list in an answer. A few bytes of a request must not become kilobytes in memory.
pub const LISTED_MAX: usize = 100;

/// The first items of a list, and the number of the others.
#[derive(Debug)]
pub struct Listed<T> {
    /// At most [`LISTED_MAX`] items.
    pub items: Vec<T>,
    /// The number of the other items.
    pub omitted: usize,
}

/// The readings of a batch, each with its line or array index, from 1.
#[derive(Debug, Default)]
pub struct Readings {
    /// Valid readings.
    pub valid: Vec<(usize, Reading)>,
    /// The faults of the invalid readings.
    pub invalid: Listed<(usize, InvalidField)>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), omitted: 0 }
    }
}

impl<T> Listed<T> {
    /// Adds an item, which is only counted if the list is full.
    pub fn push(&mut self, item: T) {
        if self.items.len() < LISTED_MAX {
            self.items.push(item);
        } else {
            self.omitted += 1;
        }
    }

    /// The number of all items.
    pub const fn len(&self) -> usize {
        self.items.len() + self.omitted
    }
}

impl Readings {
    /// The number of all readings.
    pub const fn len(&self) -> usize {
        self.valid.len() + self.invalid.len()
    }

    fn push(&mut self, line: usize, reading: Result<Reading, InvalidField>) {
        match reading {
            Ok(reading) => self.valid.push((line, reading)),
            Err(invalid) => self.invalid.push((line, invalid)),
        }
    }
}

/// A batch.
pub struct Batch<'a> {
    /// The format.
    pub media: Media,
    /// The body.
    pub body: &'a [u8],
    /// The maximum number of readings.
    pub readings_max: usize,
    /// Parses each reading.
    pub read: Read<'a>,
}

impl Batch<'_> {
    /// The readings. An invalid line is an invalid reading.
    ///
    /// # Errors
    /// The array is invalid JSON, or there are too many readings, or none.
    pub fn readings(self) -> Result<Readings, Problem> {
        let readings = match self.media {
            Media::Lines => self.lines()?,
            Media::Json => self.array()?,
        };
        if readings.len() == 0 {
            return Err(Problem::new(Kind::Invalid, "the batch is empty: send one reading or more"));
        }
        Ok(readings)
    }

    fn lines(self) -> Result<Readings, Problem> {
        let mut readings = Readings::default();
        let lines = self.body.split(|byte| *byte == b'\n').enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
            if readings.len() == self.readings_max {
                return Err(too_many(self.readings_max));
            }
            let item = self.read.bytes(line).map_err(|unread| match unread {
                Unread::Json(error) => InvalidField { field: String::new(), reason: invalid_json(&error) },
                Unread::Invalid(invalid) => invalid,
            });
            readings.push(index + 1, item.and_then(allowed));
        }
        Ok(readings)
    }

    fn array(self) -> Result<Readings, Problem> {
        let Some(b'[') = self.body.trim_ascii_start().first() else { return Err(no_array(self.body)) };
        let mut collector = Collector {
            readings: Readings::default(),
            most: self.readings_max,
            full: false,
            read: self.read,
        };
        let mut deserializer = serde_json::Deserializer::from_slice(self.body);
        let read = deserializer.deserialize_seq(&mut collector).and_then(|()| deserializer.end());
        match read {
            _ if collector.full => Err(too_many(self.readings_max)),
            Ok(()) => Ok(collector.readings),
            Err(error) => Err(Problem::new(Kind::Malformed, invalid_json(&error))),
        }
    }
}

/// The error of a body that does not begin with an array.
fn no_array(body: &[u8]) -> Problem {
    match serde_json::from_slice::<IgnoredAny>(body) {
        Err(error) => Problem::new(Kind::Malformed, invalid_json(&error)),
        Ok(_) => Problem::new(
            Kind::Invalid,
            "a batch is a JSON array of readings, or lines of JSON with `Content-Type: application/x-ndjson`",
        ),
    }
}

fn too_many(most: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("a batch has at most {most} readings: send several batches"))
}

/// Collects the elements of an array.
struct Collector<'a> {
    readings: Readings,
    most: usize,
    full: bool,
    read: Read<'a>,
}

impl<'de> Visitor<'de> for &mut Collector<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of readings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(found) = elements.next_element_seed(self.read)? {
            if self.readings.len() == self.most {
                self.full = true;
                return Err(serde::de::Error::custom("too many"));
            }
            self.readings.push(self.readings.len() + 1, found.and_then(allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Limits;

    const NOW: i64 = 1_790_000_000_000;
    const GOOD: &str = r#"{"sensorId":"s","timestamp":1790000000000,"t":1}"#;

    const TWICE: &str = r#"{"sensorId":"s","timestamp":1790000000000,"t":1,"t":1}"#;

    fn items(media: Media, body: &str) -> Result<Vec<(usize, bool)>, Problem> {
        let read = Read { now_ms: NOW, limits: &Limits::default() };
        let batch = Batch { media, body: body.as_bytes(), readings_max: 3, read };
        let Readings { valid, invalid } = batch.readings()?;
        let valid = valid.into_iter().map(|(line, _)| (line, true));
        let mut all: Vec<_> = valid.chain(invalid.items.into_iter().map(|(line, _)| (line, false))).collect();
        all.sort_unstable();
        Ok(all)
    }

    #[test]
    fn an_invalid_line_is_reported_by_number_and_others_pass() {
        let body = format!("{GOOD}\n\n{{\"sensorId\":7}}\r\n  {GOOD}\r\n");
        assert_eq!(items(Media::Lines, &body), Ok(vec![(1, true), (3, false), (4, true)]));
        assert_eq!(items(Media::Lines, &format!("NaN\n{GOOD}")), Ok(vec![(1, false), (2, true)]));
        assert_eq!(items(Media::Lines, &format!("{TWICE}\n{GOOD}")), Ok(vec![(1, false), (2, true)]));
    }

    #[test]
    fn an_invalid_element_is_reported_by_index_and_others_pass() {
        assert_eq!(
            items(Media::Json, &format!("[{GOOD},[],{GOOD}]")),
            Ok(vec![(1, true), (2, false), (3, true)])
        );
    }

    #[test]
    fn faults_beyond_the_most_listed_ones_are_only_counted() {
        let read = Read { now_ms: NOW, limits: &Limits::default() };
        let body = format!("{GOOD}\n{}", "{}\n".repeat(2 * LISTED_MAX));
        let batch = Batch { media: Media::Lines, body: body.as_bytes(), readings_max: 1_000, read };
        let Readings { valid, invalid } = batch.readings().unwrap();
        assert_eq!((valid.len(), invalid.items.len(), invalid.omitted), (1, LISTED_MAX, LISTED_MAX));
        assert_eq!(invalid.items[0].0, 2);
    }

    #[test]
    fn an_invalid_batch_is_refused() {
        let check =
            |media, body: &str, kind| assert_eq!(items(media, body).unwrap_err().kind(), kind, "{body}");
        check(Media::Json, "", Kind::Malformed);
        check(Media::Json, &format!("[{GOOD},"), Kind::Malformed);
        check(Media::Json, &format!("[{GOOD}] x"), Kind::Malformed);
        check(Media::Json, &format!("[{GOOD},NaN]"), Kind::Malformed);
        check(Media::Json, &format!("[{GOOD},{TWICE}]"), Kind::Malformed);
        check(Media::Json, "{", Kind::Malformed);
        check(Media::Json, "7", Kind::Invalid);
        check(Media::Json, GOOD, Kind::Invalid);
        check(Media::Json, "[]", Kind::Invalid);
        check(Media::Lines, " \n\n", Kind::Invalid);
        let four = [GOOD; 4];
        check(Media::Json, &format!("[{}]", four.join(",")), Kind::TooLarge);
        check(Media::Lines, &four.join("\n"), Kind::TooLarge);
    }
}
