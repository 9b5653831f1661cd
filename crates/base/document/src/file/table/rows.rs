//! Reads the rows of a table one at a time, with lines of any length.

use std::io::{BufRead, BufReader, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::DOCUMENT_BYTES_MAX;
use crate::file::error::{self, Column, Failure};

use crate::file::table_error::COLUMNS_MAX;
use crate::file::table_error::Problem;

/// A reader of rows.
pub(super) struct Rows<R> {
    input: BufReader<R>,
    parser: Reader,
    /// The values of a row, one after another, without quotes.
    text: Vec<u8>,
    /// The end of each value in `text`. Has space for one more than allowed, so that too many values are
    /// detected.
    ends: Vec<usize>,
    /// The number of line ends read.
    lines: u64,
    /// Whether a line end was added to the input.
    is_closed: bool,
}

/// One row, and its first line.
pub(super) struct Row<'a> {
    line: u64,
    text: &'a [u8],
    ends: &'a [usize],
}

/// The progress in a row.
#[derive(Default)]
struct Filled {
    text: usize,
    ends: usize,
}

/// The result of one step through the input.
enum Step {
    More,
    Row,
    End,
}

impl<R: Read> Rows<R> {
    pub(super) fn new(input: R, separator: u8) -> Self {
        Self {
            input: BufReader::with_capacity(1 << 20, input),
            parser: ReaderBuilder::new().delimiter(separator).build(),
            text: vec![0; 1 << 12],
            ends: vec![0; COLUMNS_MAX + 1],
            lines: 0,
            is_closed: false,
        }
    }

    /// The next row; `None` at the end of the input.
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, Failure> {
        self.pass_empty_lines().map_err(Failure::Read)?;
        let line = self.lines + 1;
        let mut filled = Filled::default();
        loop {
            match self.step(line, &mut filled)? {
                Step::More => {}
                Step::End => return Ok(None),
                Step::Row => {
                    let (text, ends) = (&self.text[..filled.text], &self.ends[..filled.ends]);
                    return Ok(Some(Row { line, text, ends }));
                }
            }
        }
    }

    /// Skips empty lines. The parser skips them too, but would add them to the next row.
    fn pass_empty_lines(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let passed = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let is_all = passed > 0 && passed == buffer.len();
            self.lines += line_ends(&buffer[..passed]);
            self.input.consume(passed);
            if !is_all {
                return Ok(());
            }
        }
    }

    /// Passes the available input to the parser. At the end of the input a line end is added, which ends the last row. If a
    /// quote is still open, the parser reports the row only at the real end of the input.
    fn step(&mut self, line: u64, filled: &mut Filled) -> Result<Step, Failure> {
        let buffer = self.input.fill_buf().map_err(Failure::Read)?;
        let is_end = buffer.is_empty();
        let bytes = if !is_end || self.is_closed { buffer } else { b"\n" };
        let (text, ends) = (&mut self.text[filled.text..], &mut self.ends[filled.ends..]);
        let (result, read, text, ends) = self.parser.read_record(bytes, text, ends);
        self.lines += line_ends(&bytes[..read]);
        filled.text += text;
        filled.ends += ends;
        let is_over = is_end && self.is_closed;
        if is_end {
            self.is_closed |= read > 0;
        } else {
            self.input.consume(read);
        }
        self.judge(&result, filled, is_over).map_err(|problem| Failure::cell(line, None, problem.into()))
    }

    fn judge(&mut self, result: &ReadRecordResult, filled: &Filled, is_over: bool) -> Result<Step, Problem> {
        match result {
            ReadRecordResult::Record if is_over => Err(Problem::Quote),
            ReadRecordResult::Record if filled.ends > COLUMNS_MAX => Err(Problem::Columns),
            ReadRecordResult::OutputEndsFull => Err(Problem::Columns),
            ReadRecordResult::OutputFull if filled.text >= DOCUMENT_BYTES_MAX => Err(Problem::Long),
            ReadRecordResult::OutputFull => {
                self.text.resize((self.text.len() * 2).min(DOCUMENT_BYTES_MAX), 0);
                Ok(Step::More)
            }
            ReadRecordResult::InputEmpty => Ok(Step::More),
            ReadRecordResult::Record => Ok(Step::Row),
            ReadRecordResult::End => Ok(Step::End),
        }
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl<'a> Row<'a> {
    /// The number of values of the row.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A value of the row.
    pub(super) fn text(&self, number: usize) -> Result<&'a str, Problem> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        std::str::from_utf8(&self.text[start..self.ends[number]]).map_err(|_| Problem::NotUtf8)
    }

    /// All values of the row.
    pub(super) fn texts(&self) -> impl Iterator<Item = Result<&'a str, Problem>> {
        (0..self.len()).map(|number| self.text(number))
    }

    /// The error for this row.
    pub(super) fn failure(&self, problem: error::Problem) -> Failure {
        Failure::cell(self.line, None, problem)
    }

    /// The error for a value of this row.
    pub(super) fn failure_at(&self, column: Option<Column>, problem: Problem) -> Failure {
        Failure::cell(self.line, column, problem.into())
    }
}
