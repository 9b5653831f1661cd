//! How far a run is, read from what it writes down as it goes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use plimsoll_measure::event::Event;

/// Where a run directory keeps its events.
const EVENTS: &str = "events.ndjson";
/// What is read of a file at one look, at most, in bytes; the rest is read at the next.
const READ_BYTES_MAX: u64 = 8 << 20;

/// What was seen of a run so far. Every number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Operations acknowledged.
    pub operations: u64,
    /// Stretches of load that were written down, whether anything was acknowledged in them or not.
    pub stretches: u64,
    /// Other signs of life.
    pub signs: u64,
}

/// Something that tells how far a run is.
pub trait Progress {
    /// What was seen so far.
    fn look(&mut self) -> Seen;
}

/// Of what nothing is seen.
#[derive(Debug)]
pub struct Nothing;

impl Progress for Nothing {
    fn look(&mut self) -> Seen {
        Seen::default()
    }
}

/// The events of a run directory, read on from where the last look ended.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    offset: u64,
    seen: Seen,
}

impl Events {
    /// The events of the run in `directory`, which need not be there yet.
    pub fn of(directory: &Path) -> Self {
        Self { path: directory.join(EVENTS), offset: 0, seen: Seen::default() }
    }

    /// What was appended since the last look, up to its last line end.
    fn appended(&mut self) -> std::io::Result<String> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A line longer than a look would never be passed.
        let whole = if whole == 0 && bytes.len() as u64 == READ_BYTES_MAX { bytes.len() } else { whole };
        self.offset += whole as u64;
        Ok(String::from_utf8_lossy(&bytes[..whole]).into_owned())
    }
}

impl Progress for Events {
    fn look(&mut self) -> Seen {
        let text = self.appended().unwrap_or_default();
        for line in text.lines() {
            match serde_json::from_str::<Event>(line) {
                Ok(Event::Interval(interval)) => {
                    self.seen.stretches += 1;
                    self.seen.operations += interval.operations.values().map(|line| line.count).sum::<u64>();
                }
                // The observer looks at the server whether the load goes on or not.
                Ok(Event::Server(_)) => {}
                _ => self.seen.signs += 1,
            }
        }
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use plimsoll_measure::event::Interval;
    use plimsoll_measure::interval::IntervalLine;

    use super::*;

    fn line(event: &Event) -> String {
        serde_json::to_string(event).unwrap() + "\n"
    }

    fn interval(count: u64) -> Event {
        let operations = [("insert".to_owned(), IntervalLine { count, ..IntervalLine::default() })].into();
        Event::Interval(Interval { operations, ..Interval::default() })
    }

    #[test]
    fn events_are_read_on_from_the_last_look_and_a_half_line_waits_for_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(EVENTS);
        let mut events = Events::of(dir.path());
        assert_eq!(events.look(), Seen::default(), "there is no file yet");
        let mut file = File::create(&path).unwrap();
        let note = Event::Note { at_ns: 0, text: "x".into() };
        file.write_all((line(&note) + &line(&interval(5))).as_bytes()).unwrap();
        assert_eq!(events.look(), Seen { operations: 5, stretches: 1, signs: 1 });
        let (first, rest) = (line(&interval(7)), line(&Event::Server(Default::default())));
        file.write_all(&first.as_bytes()[..9]).unwrap();
        assert_eq!(events.look(), Seen { operations: 5, stretches: 1, signs: 1 });
        file.write_all(&first.as_bytes()[9..]).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!(events.look(), Seen { operations: 12, stretches: 2, signs: 1 });
    }
}
