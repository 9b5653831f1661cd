//! Reads and writes `ledger.txt`: run, allocation and workers as a few lines of text with a checksum.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use super::error::Error;
use super::files::write_whole;
use crate::numbers::Allocation;
use crate::receipt::{Receipt, Run};

const TITLE: &str = "plimsoll-ledger";

/// The written format: its journals contain the changes.
pub(super) const FORMAT: u32 = 2;
/// The oldest readable format: its journals contain the sent documents, not their changes.
const FORMAT_MIN: u32 = 1;

/// The settings that all files of the ledger share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub format: u32,
    pub run: Run,
    pub allocation: Allocation,
    /// The workers of this shard.
    pub kept: Range<u64>,
}

pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("ledger.txt")
}

impl Header {
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = path(dir);
        write_whole(&path, |file| file.write_all(self.to_text().as_bytes()))
            .map_err(|source| Error::write(dir, &self.allocation, &path, source))
    }

    pub fn read(dir: &Path) -> Result<Header, Error> {
        let path = path(dir);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Absent { dir: dir.to_owned() },
            _ => Error::io("read", &path, source),
        })?;
        let text = String::from_utf8(bytes).map_err(|_| Error::damaged(&path, "not text"))?;
        Header::from_text(&text, &path)
    }

    /// Whether the journals contain the changes.
    pub const fn tells_changes(&self) -> bool {
        self.format > FORMAT_MIN
    }

    /// The start value of the checksums of this run's records, so that another run's records are invalid.
    pub fn salt(&self) -> u32 {
        crc32fast::hash(&self.run.to_bytes())
    }

    fn to_text(&self) -> String {
        let limit = self.allocation.limit().map_or("none".into(), |limit| limit.to_string());
        let body = format!(
            "{TITLE} {}\nrun {}\nblock {}\nworkers {}\nlimit {limit}\nkept {}..{}\n",
            self.format,
            self.run.receipt(0),
            self.allocation.block(),
            self.allocation.workers(),
            self.kept.start,
            self.kept.end,
        );
        let crc = crc32fast::hash(body.as_bytes());
        format!("{body}crc {crc:08x}\n")
    }

    fn from_text(text: &str, path: &Path) -> Result<Header, Error> {
        let version = text.lines().next().and_then(|line| line.strip_prefix(TITLE)).map(str::trim);
        let version = version.ok_or_else(|| Error::damaged(path, "no title"))?;
        let known = version.parse().ok().filter(|format| (FORMAT_MIN..=FORMAT).contains(format));
        let format =
            known.ok_or_else(|| Error::Version { path: path.to_owned(), version: version.to_owned() })?;
        let body = checked(text).ok_or_else(|| Error::damaged(path, "wrong checksum"))?;
        Header::from_body(format, body).ok_or_else(|| Error::damaged(path, "a line is missing or unreadable"))
    }

    fn from_body(format: u32, body: &str) -> Option<Header> {
        let limit = match value(body, "limit")? {
            "none" => None,
            digits => Some(digits.parse().ok()?),
        };
        let run = value(body, "run")?.parse().map(Receipt::run).ok()?;
        let allocation = Allocation::new(number(body, "block")?, number(body, "workers")?, limit).ok()?;
        let (start, end) = value(body, "kept")?.split_once("..")?;
        let kept = start.parse().ok()?..end.parse().ok()?;
        Some(Header { format, run, allocation, kept })
    }
}

/// The text without its last line, if that line is its checksum.
fn checked(text: &str) -> Option<&str> {
    let at = text.rfind("crc ")?;
    let (body, last) = text.split_at(at);
    (last == format!("crc {:08x}\n", crc32fast::hash(body.as_bytes()))).then_some(body)
}

fn value<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

fn number<T: FromStr>(body: &str, name: &str) -> Option<T> {
    value(body, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(limit: Option<u64>) -> Header {
        let run = Run { time_s: 0x6553_f100, tag: [1, 2, 3] };
        Header { format: FORMAT, run, allocation: Allocation::new(1000, 8, limit).unwrap(), kept: 4..8 }
    }

    fn read(text: &str) -> Result<Header, Error> {
        Header::from_text(text, Path::new("ledger.txt"))
    }

    #[test]
    fn a_header_is_read_as_written() {
        for limit in [None, Some(0), Some(1_000_000)] {
            let dir = tempfile::tempdir().unwrap();
            header(limit).write(dir.path()).unwrap();
            assert_eq!(Header::read(dir.path()).unwrap(), header(limit));
        }
    }

    #[test]
    fn the_text_is_plain() {
        let text = header(Some(5)).to_text();
        let body =
            "plimsoll-ledger 2\nrun 6553f1000102030000000000\nblock 1000\nworkers 8\nlimit 5\nkept 4..8\n";
        assert_eq!(text.split_at(body.len()).0, body);
    }

    #[test]
    fn a_cut_or_changed_header_is_refused() {
        let text = header(Some(5)).to_text();
        for cut in 0..text.len() {
            assert!(read(&text[..cut]).is_err(), "cut at {cut}");
        }
        assert!(read(&text.replace("block 1000", "block 1001")).is_err());
    }

    #[test]
    fn another_version_is_named() {
        let text = header(None).to_text().replace("ledger 2", "ledger 7");
        assert!(matches!(read(&text), Err(Error::Version { version, .. }) if version == "7"));
    }

    #[test]
    fn the_previous_format_is_read() {
        let older = Header { format: 1, ..header(None) };
        assert_eq!(read(&older.to_text()).unwrap(), older);
        assert!(!older.tells_changes() && header(None).tells_changes());
    }

    #[test]
    fn an_empty_directory_has_no_ledger() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Header::read(dir.path()), Err(Error::Absent { .. })));
    }
}
