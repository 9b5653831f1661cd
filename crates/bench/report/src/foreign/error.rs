//! Describes why a result of another tool could not be read.

use std::io;

use serde::Deserialize;

/// An error in a result of another tool, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source is empty.
    #[error("the file is empty: the tool has written nothing, or writes it at its end; run it again")]
    Empty,
    /// The form is unknown.
    #[error(
        "{found}: unknown format; supported are k6's (handleSummary, --summary-export, the machine-readable summary, \
         --out json), the output of wrk, wrk2 and YCSB, and oha's JSON"
    )]
    Unknown {
        /// Its apparent form.
        found: String,
    },
    /// The source belongs to a run directory of Plimsoll.
    #[error("this file belongs to a run of Plimsoll: name its run directory")]
    Own,
    /// The source is truncated.
    #[error("line {line}: the file ends here, in the middle of {what}: it is truncated; {remedy}")]
    CutOff {
        /// The last line, from 1.
        line: u64,
        /// The unfinished part.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// An invalid line.
    #[error("line {line}: {problem}: the file is damaged, or has another form; make it again")]
    Malformed {
        /// The number of the line, from 1.
        line: u64,
        /// The problem.
        problem: String,
    },
    /// The source exceeds a limit.
    #[error("line {line}: more than {max} {what}: {remedy}")]
    TooMuch {
        /// The line that exceeds the limit, from 1.
        line: u64,
        /// The limit.
        max: u64,
        /// The counted items.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The source is unreadable, or cannot be decompressed.
    #[error(
        "line {line}: cannot read further: {source}; if the file is compressed, it is truncated or damaged: copy it again"
    )]
    Read {
        /// The line after the last one that was read, from 1.
        line: u64,
        /// The system's message.
        source: io::Error,
    },
}

/// The remedy for a result that its tool completes at the end.
pub(super) const MAKE_AGAIN: &str = "copy it again, or let the tool finish";

/// Reads a whole JSON text.
pub(super) fn from_json<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let line = error.line() as u64;
        match error.is_eof() {
            true => Error::CutOff { line, what: "a JSON value", remedy: MAKE_AGAIN },
            false => Error::malformed(line, error.to_string()),
        }
    })
}

impl Error {
    /// The error of a line.
    pub(super) fn malformed(line: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { line, problem: problem.into() }
    }

    /// More than `max` of `what`.
    pub(super) const fn too_much(line: u64, max: u64, what: &'static str, remedy: &'static str) -> Self {
        Self::TooMuch { line, max, what, remedy }
    }
}
