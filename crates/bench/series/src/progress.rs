//! Reads the progress of a run from its files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use plimsoll_measure::event::Event;
use plimsoll_measure::stream::{Count, Second};

/// The file of events in a run directory. A pipeline's directory has a file of seconds.
const EVENTS: &str = "events.ndjson";
const SECONDS: &str = "seconds.ndjson";
/// The maximum bytes of one read of a file; the next read continues.
const READ_BYTES_MAX: u64 = 8 << 20;

/// The progress of a run so far. Every number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Acknowledged operations; for a pipeline, settled events.
    pub operations: u64,
    /// Recorded intervals of load, with or without acknowledged operations.
    pub stretches: u64,
    /// The number of other events, which show that the run is alive. Samples of the server do not count.
    pub signs: u64,
    /// The number of events of the audit. The first means that the load has ended.
    pub audits: u64,
}

/// A reader of a run's progress.
pub trait Progress {
    /// The progress so far.
    fn read(&mut self) -> Counters;

    /// The unit of `operations`, as a word for messages.
    fn unit(&self) -> &'static str;
}

/// A growing file of lines. Each read continues at the end of the last one.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    offset: u64,
}

/// The events of a run directory. Each read continues at the end of the last one.
#[derive(Debug)]
pub struct Events {
    lines: Lines,
    counters: Counters,
}

impl Events {
    /// The events of the run in `directory`, which may not exist yet.
    pub fn of(directory: &Path) -> Self {
        Self { lines: Lines::of(directory.join(EVENTS)), counters: Counters::default() }
    }
}

impl Lines {
    const fn of(path: PathBuf) -> Self {
        Self { path, offset: 0 }
    }

    /// The lines that were appended since the last read.
    fn appended(&mut self) -> std::io::Result<String> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A line longer than a read would otherwise stop the reader permanently.
        let whole = if whole == 0 && bytes.len() as u64 == READ_BYTES_MAX { bytes.len() } else { whole };
        self.offset += whole as u64;
        Ok(String::from_utf8_lossy(&bytes[..whole]).into_owned())
    }
}

impl Progress for Events {
    fn read(&mut self) -> Counters {
        let text = self.lines.appended().unwrap_or_default();
        for line in text.lines() {
            match serde_json::from_str::<Event>(line) {
                Ok(Event::Interval(interval)) => {
                    self.counters.stretches += 1;
                    self.counters.operations +=
                        interval.operations.values().map(|line| line.count).sum::<u64>();
                }
                // Server samples arrive even without progress.
                Ok(Event::Server(_)) => {}
                Ok(Event::Auditing { .. }) => {
                    self.counters.signs += 1;
                    self.counters.audits += 1;
                }
                _ => self.counters.signs += 1,
            }
        }
        self.counters
    }

    fn unit(&self) -> &'static str {
        "operations"
    }
}

/// The seconds of a pipeline's directory. Its progress is its settled events.
#[derive(Debug)]
pub struct Seconds {
    lines: Lines,
    counters: Counters,
}

impl Seconds {
    /// The seconds of the pipeline in `directory`, which may not exist yet.
    pub fn of(directory: &Path) -> Self {
        Self { lines: Lines::of(directory.join(SECONDS)), counters: Counters::default() }
    }
}

impl Progress for Seconds {
    fn read(&mut self) -> Counters {
        let text = self.lines.appended().unwrap_or_default();
        for second in text.lines().filter_map(|line| serde_json::from_str::<Second>(line).ok()) {
            let settled = [Count::Written, Count::Filtered, Count::DeadLettered, Count::Lost];
            let settled = settled.iter().map(|count| second.count(*count)).sum();
            self.counters.operations = self.counters.operations.max(settled);
            self.counters.stretches += 1;
        }
        self.counters
    }

    fn unit(&self) -> &'static str {
        "events"
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
    fn each_read_continues_and_half_a_line_waits_for_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(EVENTS);
        let mut events = Events::of(dir.path());
        assert_eq!(events.read(), Counters::default(), "the file does not exist yet");
        let mut file = File::create(&path).unwrap();
        let note = Event::Note { at_ns: 0, text: "x".into() };
        file.write_all((line(&note) + &line(&interval(5))).as_bytes()).unwrap();
        assert_eq!(events.read(), Counters { operations: 5, stretches: 1, signs: 1, audits: 0 });
        let (first, rest) = (line(&interval(7)), line(&Event::Server(Default::default())));
        file.write_all(&first.as_bytes()[..9]).unwrap();
        assert_eq!(events.read(), Counters { operations: 5, stretches: 1, signs: 1, audits: 0 });
        file.write_all(&first.as_bytes()[9..]).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!(events.read(), Counters { operations: 12, stretches: 2, signs: 1, audits: 0 });
        let audit = line(&Event::Auditing { read: 0, expected: 12 });
        file.write_all((audit.clone() + &audit).as_bytes()).unwrap();
        assert_eq!(events.read(), Counters { operations: 12, stretches: 2, signs: 3, audits: 2 });
    }

    #[test]
    fn settled_events_are_the_progress_of_a_pipeline() {
        let dir = tempfile::tempdir().unwrap();
        let second = |written, filtered| {
            let counts = [("written_events", written), ("filtered_events", filtered), ("read_events", 99)];
            let counts = counts.map(|(word, count)| (word.to_owned(), count)).into();
            serde_json::to_string(&Second { counts, ..Second::default() }).unwrap() + "\n"
        };
        let mut seconds = Seconds::of(dir.path());
        assert_eq!(seconds.read(), Counters::default());
        std::fs::write(dir.path().join(SECONDS), second(5, 1) + &second(7, 2)).unwrap();
        assert_eq!(seconds.read(), Counters { operations: 9, stretches: 2, ..Counters::default() });
        assert_eq!((seconds.unit(), Events::of(dir.path()).unit()), ("events", "operations"));
    }
}
