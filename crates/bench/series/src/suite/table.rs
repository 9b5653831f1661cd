//! Parses and writes comma-separated values in the form of RFC 4180, with the first line of each row.
//!
//! Lines that begin with `#` are comments; empty lines are skipped. The whole file is in memory: callers bound its size.

use anyhow::{bail, ensure};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

/// The maximum number of values of a row.
const VALUES_MAX: usize = 64;
/// The maximum bytes of a row's values.
const ROW_BYTES_MAX: usize = 64 << 10;
/// The maximum number of rows of a table.
const ROWS_MAX: usize = 100_000;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its first line, from 1.
    pub line: u64,
    /// Its values, without quotes.
    pub values: Vec<String>,
}

/// Parses every row of a table; the first row names the columns.
///
/// # Errors
/// When a line is invalid. The error names the first.
pub fn read(text: &str) -> anyhow::Result<Vec<Row>> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rows = Vec::new();
    let mut values = vec![0; ROW_BYTES_MAX];
    let mut line = 1;
    loop {
        let (passed, lines) = to_pass(rest);
        (rest, line) = (&rest[passed..], line + lines);
        if rest.is_empty() {
            return Ok(rows);
        }
        ensure!(rows.len() < ROWS_MAX, "line {line}: more than {ROWS_MAX} rows; split the table");
        let (values, read) = row(rest, line, &mut values)?;
        rows.push(Row { line, values });
        line += line_ends(&rest[..read]);
        rest = &rest[read..];
    }
}

/// Bytes and lines of the comments and empty lines at the start of `text`.
fn to_pass(text: &str) -> (usize, u64) {
    let skipped = text.split_inclusive('\n').take_while(|line| is_passed(line));
    skipped.fold((0, 0), |(bytes, lines), line| (bytes + line.len(), lines + line_ends(line)))
}

fn is_passed(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// The values of the first row of `text`, and its length in bytes. `values` is a buffer for them.
fn row(text: &str, line: u64, values: &mut [u8]) -> anyhow::Result<(Vec<String>, usize)> {
    let mut parser: Reader = ReaderBuilder::new().build();
    let mut ends = [0; VALUES_MAX];
    let (result, mut read, written, mut count) = parser.read_record(text.as_bytes(), values, &mut ends);
    match result {
        ReadRecordResult::Record => {}
        // The last row of a file may lack a line end, unless it is within quotes.
        ReadRecordResult::InputEmpty => {
            let (result, more, _, fields) =
                parser.read_record(b"\n", &mut values[written..], &mut ends[count..]);
            let closed = result == ReadRecordResult::Record && more == 1;
            ensure!(closed, "line {line}: a quote that is opened in this row is never closed; close it");
            (read, count) = (text.len(), count + fields);
        }
        ReadRecordResult::OutputFull => {
            bail!("line {line}: a row of more than {ROW_BYTES_MAX} bytes; is a quote left open?")
        }
        _ => bail!("line {line}: more than {VALUES_MAX} values; is a line end missing?"),
    }
    // The parser leaves the line feed after a carriage return to the next row.
    read += usize::from(text[read..].starts_with('\n') && text[..read].ends_with('\r'));
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let cells = starts.zip(&ends[..count]).map(|(start, end)| &values[start..*end]);
    Ok((cells.map(|cell| String::from_utf8_lossy(cell).trim().to_owned()).collect(), read))
}

fn line_ends(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// Writes a row with a line feed at its end. Line ends within a value become spaces, so that a row is always one line.
pub fn write<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let cell = |value: &str| {
        let flat: String =
            value.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let needs = flat.contains([',', '"']) || flat.starts_with('#') || flat.trim() != flat;
        if needs { format!("\"{}\"", flat.replace('"', "\"\"")) } else { flat }
    };
    let cells: Vec<_> = values.into_iter().map(cell).collect();
    cells.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(u64, &[&str])]) {
        let rows = read(text).unwrap();
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.line, row.values.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect();
        let expected: Vec<_> = expected.iter().map(|(line, values)| (*line, values.to_vec())).collect();
        assert_eq!(rows, expected, "{text:?}");
    }

    #[test]
    fn a_table_is_parsed_with_the_lines_of_its_rows() {
        check("a,b\n1,2\n", &[(1, &["a", "b"]), (2, &["1", "2"])]);
        check("\u{feff}a,b\r\n\r\n1, 2", &[(1, &["a", "b"]), (3, &["1", "2"])]);
        check("# why?\n\na\n# no\n\"x\"\"y,\nz\"\nw\n", &[(3, &["a"]), (5, &["x\"y,\nz"]), (7, &["w"])]);
        check("a,\n,", &[(1, &["a", ""]), (2, &["", ""])]);
        check("", &[]);
        check("# only a comment", &[]);
    }

    #[test]
    fn an_invalid_table_is_refused_with_its_line() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("a\n\n\"b").contains("line 3: a quote that is opened"), "{}", message("a\n\n\"b"));
        let long = format!("a\n{}\n", "x,".repeat(100));
        assert!(message(&long).contains("line 2: more than 64 values"), "{}", message(&long));
    }

    #[test]
    fn a_row_reads_back_with_any_values() {
        for values in [&["a", "b,c", "say \"no\"", ""][..], &["# no comment", " padded "], &["ä,é", "x"]] {
            let text = write(values.iter().copied());
            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            let read: Vec<_> = read(&text).unwrap().remove(0).values;
            let trimmed: Vec<_> = values.iter().map(|value| value.trim()).collect();
            assert_eq!(read, trimmed, "{text:?}");
        }
        assert_eq!(write(["two\nlines"]), "two lines\n");
    }
}
