//! Reads lines of limited length and knows their numbers.

use std::io::{BufRead, Read};

use super::error::Error;

/// The longest line, in bytes.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 20;

/// The byte order mark of UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Reads the lines of a source one at a time into the same memory.
#[derive(Debug)]
pub(super) struct Lines<R> {
    source: R,
    number: u64,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its text, without the line feed.
    pub text: &'a [u8],
    /// Whether a line feed ends it.
    pub ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `source`.
    pub(super) const fn new(source: R) -> Self {
        Self { source, number: 0, buffer: Vec::new() }
    }

    /// The next line, or nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        self.buffer.clear();
        let line = self.number + 1;
        let mut limited = Read::take(&mut self.source, LINE_BYTES_MAX + 1);
        let read = limited.read_until(b'\n', &mut self.buffer);
        if read.map_err(|source| Error::Read { line, source })? == 0 {
            return Ok(None);
        }
        let ended = self.buffer.last() == Some(&b'\n');
        if !ended && self.buffer.len() as u64 > LINE_BYTES_MAX {
            let remedy = "this is not a result of a load tool";
            return Err(Error::too_much(line, LINE_BYTES_MAX, "bytes in one line", remedy));
        }
        self.number = line;
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let text = if line == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
        Ok(Some(Line { number: line, text, ended }))
    }

    /// The number of lines read.
    pub(super) const fn read(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_from_one_and_a_missing_line_feed_is_noticed() {
        let mut lines = Lines::new(&b"a\r\n\nlast"[..]);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, String::from_utf8_lossy(line.text).into_owned(), line.ended));
        }
        assert_eq!(found, [(1, "a".into(), true), (2, String::new(), true), (3, "last".into(), false)]);
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let error = Lines::new(endless).next().unwrap_err().to_string();
        assert!(error.starts_with("line 1: more than 1048576 bytes in one line"), "{error}");
    }
}
