//! Reports faults of a file of documents and their fixes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_element::{Damage, Damaged};

use super::table_error;
use crate::DOCUMENT_BYTES_MAX;

/// The reason why a file cannot be a source of documents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened.
    #[error("{path}: cannot be opened; check the path and the permissions")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be read to its end.
    #[error("{path}: cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file's name has no known ending.
    #[error(
        "{path}: not a kind of file that can be read; use .bson (mongodump), .json, .jsonl, .ndjson (one document a \
         line), .csv or .tsv (a table whose first line names the fields), and decompress .gz first"
    )]
    UnknownForm {
        /// The file.
        path: PathBuf,
    },
    /// The file has no documents.
    #[error("{path}: holds no documents; name another file")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A record is not a valid document.
    #[error("{path}: record {record} at byte {offset}: {problem}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The record, counted from 0.
        record: u64,
        /// The start of the record, in bytes.
        offset: u64,
        /// The fault and its remedy.
        problem: Problem,
    },
    /// A row of a table is not a valid document.
    #[error("{path}: {place}: {problem}")]
    Cell {
        /// The file.
        path: PathBuf,
        /// The place in the file.
        place: TablePosition,
        /// The fault and its remedy.
        problem: Problem,
    },
}

/// A place in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePosition {
    /// The line in which the row begins, counted from 1, including empty lines.
    pub line: u64,
    /// The column; `None` for the whole row.
    pub column: Option<Column>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The number of the column, counted from 1.
    pub number: usize,
    /// The column's name, or an empty string.
    pub name: String,
}

impl fmt::Display for TablePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        match &self.column {
            Some(Column { number, name }) => write!(f, ", column {number} ({name:?})"),
            None => Ok(()),
        }
    }
}

/// The fault of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file ends within the record.
    #[error("the file ends within this document; copy the file again")]
    Truncated,
    /// No document can have this length.
    #[error("invalid document length {length}, not 5 to {DOCUMENT_BYTES_MAX} bytes; is this a BSON file?")]
    Length {
        /// The length in the file, in bytes.
        length: i32,
    },
    /// The record with `_id` and stamp exceeds MongoDB's limit.
    #[error("{bytes} bytes, over MongoDB's limit of {DOCUMENT_BYTES_MAX}; leave the document out")]
    TooLarge {
        /// The size, in bytes.
        bytes: u64,
    },
    /// The bytes within the record are not BSON.
    #[error("damaged at byte {at} of the document: {what}; make the dump again")]
    Damaged {
        /// The offset in the document, in bytes.
        at: usize,
        /// The fault.
        what: Damage,
    },
    /// A line is not a JSON object.
    #[error("not a JSON document on one line ({reason}); write one document a line, as mongoexport does")]
    NotJson {
        /// The fault and its byte.
        reason: String,
    },
    /// A whole number has more than 64 bits and would become the nearest double.
    #[error(
        "a whole number of more than 64 bits at byte {at} of the line; write {{\"$numberDecimal\": \"…\"}} to keep all digits, or \
         {{\"$numberDouble\": \"…\"}} for the nearest double"
    )]
    OversizeNumber {
        /// The offset of its first byte in the line, counted from 1.
        at: usize,
    },
    /// The file is a JSON array.
    #[error(
        "the file is a JSON array; write one document a line (mongoexport without --jsonArray, or jq -c '.[]')"
    )]
    JsonArray,
    /// A line is not Extended JSON.
    #[error("not valid Extended JSON ({reason}); write the document as mongoexport does")]
    NotExtendedJson {
        /// The path of the value and its fault.
        reason: String,
    },
    /// The record has a field with the stamp's name.
    #[error("already has a field \"{name}\", which is the stamp's name; rename the stamp or turn it off")]
    HasStamp {
        /// The name.
        name: String,
    },
    /// The record's own `_id` is required, but missing.
    #[error("has no _id, which `id: own` requires; leave `id` out to send receipts")]
    NoId,
    /// A table is invalid.
    #[error(transparent)]
    Table(#[from] table_error::Problem),
    /// The documents need more memory than allowed.
    #[error(
        "the documents up to here need more than {memory_bytes_max} bytes of memory; split the file or raise the limit"
    )]
    Memory {
        /// The limit, in bytes.
        memory_bytes_max: u64,
    },
}

impl From<Damaged> for Problem {
    fn from(Damaged { at, what }: Damaged) -> Self {
        Self::Damaged { at, what }
    }
}

/// An error before the file's name is added.
#[derive(Debug)]
pub(super) enum Failure {
    Read(io::Error),
    Record { record: u64, offset: u64, problem: Problem },
    Cell { place: TablePosition, problem: Problem },
}

impl Error {
    pub(super) fn open(path: &Path, source: io::Error) -> Self {
        Self::Open { path: path.to_owned(), source }
    }
}

impl Failure {
    /// The error for a row that begins at `line`.
    pub(super) fn cell(line: u64, column: Option<Column>, problem: Problem) -> Self {
        Self::Cell { place: TablePosition { line, column }, problem }
    }

    /// The error with the file's name.
    pub(super) fn at(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            Self::Read(source) => Error::Read { path, source },
            Self::Record { record, offset, problem } => Error::Record { path, record, offset, problem },
            Self::Cell { place, problem } => Error::Cell { path, place, problem },
        }
    }
}
