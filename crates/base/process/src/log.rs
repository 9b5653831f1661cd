//! Reads the output of a child: its last lines for an error, and its new lines for a start. Reads only a bounded part of a log
//! of any length.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The largest number of lines that an error quotes.
const TAIL_LINES: usize = 15;
/// The largest number of bytes read for these lines.
const TAIL_BYTES: u64 = 8 << 10;
/// The largest number of bytes of one read, and the longest line.
const LOOK_BYTES_MAX: u64 = 1 << 20;

/// The last lines of a log, for an error.
pub fn tail(log: &Path) -> String {
    match &last_lines(log)[..] {
        [] => "(it printed nothing)".to_owned(),
        lines => lines.join("\n"),
    }
}

/// The last lines of a log one by one, at most 15; none if the program printed nothing.
pub fn last_lines(log: &Path) -> Vec<String> {
    let text = end(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|&line| line.to_owned()).collect()
}

fn end(log: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(log).ok()?;
    let bytes = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES))).ok()?;
    let mut text = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Follows a log.
#[derive(Debug)]
pub struct Follow {
    log: PathBuf,
    position: u64,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
}

impl Follow {
    /// Starts at the current end of the log, which may not exist yet.
    pub fn from_end(log: &Path) -> Self {
        let position = fs::metadata(log).map_or(0, |log| log.len());
        Self { log: log.to_owned(), position, rest: Vec::new() }
    }

    /// The whole lines since the last call, with their ends.
    pub fn fresh(&mut self) -> String {
        let before = self.rest.len();
        self.read();
        self.position += (self.rest.len() - before) as u64;
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        if self.rest.len() as u64 > LOOK_BYTES_MAX {
            self.rest.clear();
        }
        String::from_utf8_lossy(&lines).into_owned()
    }

    fn read(&mut self) {
        let Ok(mut file) = File::open(&self.log) else { return };
        if file.seek(SeekFrom::Start(self.position)).is_ok() {
            // An error is ignored: the next call retries.
            let _ = file.take(LOOK_BYTES_MAX).read_to_end(&mut self.rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_lines_of_a_long_log_are_returned() {
        let log = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(tail(log.path()), "(it printed nothing)");
        assert_eq!(tail(Path::new("/nowhere/log")), "(it printed nothing)");
        assert!(last_lines(log.path()).is_empty());
        let text: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
        fs::write(log.path(), text).unwrap();
        let end = tail(log.path());
        assert_eq!((end.lines().next(), end.lines().last()), (Some("line 9985"), Some("line 9999")));
    }

    #[test]
    fn only_whole_new_lines_are_fresh() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, "old\n").unwrap();
        let mut follow = Follow::from_end(&path);
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut check = |said: &str, expected: &str| {
            log.write_all(said.as_bytes()).unwrap();
            assert_eq!(follow.fresh(), expected);
        };
        check("", "");
        check("one\ntw", "one\n");
        check("", "");
        check("o\nthree\n", "two\nthree\n");
    }

    #[test]
    fn a_log_created_later_is_read_from_its_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut follow = Follow::from_end(&path);
        assert_eq!(follow.fresh(), "");
        fs::write(&path, "here\n").unwrap();
        assert_eq!(follow.fresh(), "here\n");
    }

    #[test]
    fn an_endless_line_takes_bounded_memory() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut follow = Follow::from_end(log.path());
        fs::write(log.path(), vec![b'a'; 5 << 20]).unwrap();
        for _ in 0..10 {
            assert_eq!(follow.fresh(), "");
            assert!(follow.rest.len() as u64 <= LOOK_BYTES_MAX);
        }
    }
}
