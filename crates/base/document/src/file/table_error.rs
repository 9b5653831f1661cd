//! Reports faults of a table and their fixes.

use crate::{DEPTH_MAX, DOCUMENT_BYTES_MAX};

/// The names of the types, for messages.
pub(super) const KINDS: &str = "auto(), boolean(), date(), decimal(), double(), int32(), int64(), string()";

/// The largest number of columns of a table.
pub(super) const COLUMNS_MAX: usize = 4096;

/// The fault of the first line, a row or a value of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A column has no name, or a part of its name between dots is empty.
    #[error("a field without a name; name every column in the first line, and every part between dots")]
    NoName,
    /// A name holds a NUL byte, which BSON forbids.
    #[error("a name with a NUL byte; is this a text file?")]
    Nul,
    /// Two columns have the same name.
    #[error("named twice; rename one of the columns")]
    Twice,
    /// One column makes the field a value, another makes it a document.
    #[error("\"{name}\" is a value in one column and a document in another; rename one of the columns")]
    ValueAndDocument {
        /// The field that is both.
        name: String,
    },
    /// The name ends in an unknown type.
    #[error("{kind}() is not a type; write one of {KINDS}, or no type at all")]
    NoKind {
        /// The unknown type.
        kind: String,
    },
    /// The type has an invalid argument.
    #[error(
        "{kind}({argument}) is not understood; write {kind}(), or date(2006-01-02) for days without a time"
    )]
    Argument {
        /// The type.
        kind: String,
        /// The text in parentheses.
        argument: String,
    },
    /// There are too many columns.
    #[error("more than {COLUMNS_MAX} columns; split the table")]
    Columns,
    /// A name has too many dots.
    #[error("nested deeper than {DEPTH_MAX} levels; use fewer dots")]
    Depth,
    /// The first line is one name that looks like several.
    #[error(
        "the header is one name that looks like several; separate values by commas in .csv and by tabs in .tsv"
    )]
    Separator,
    /// The row's number of values differs from the number of names.
    #[error(
        "{values} values for {columns} columns; add missing ones, and quote values that hold the separator"
    )]
    Width {
        /// The values of the row.
        values: usize,
        /// The names in the first line.
        columns: usize,
    },
    /// A value is not of its column's type.
    #[error(
        "{value:?} is not a valid {kind}; correct it, or give the column another type in the first line, such as string()"
    )]
    Misfit {
        /// The beginning of the value.
        value: String,
        /// The type.
        kind: &'static str,
    },
    /// A value or a name is not UTF-8.
    #[error("not UTF-8; convert the file first, for example with iconv -f latin1 -t utf-8")]
    NotUtf8,
    /// The file ends within quotes.
    #[error(
        "a quote that is opened in this row is never closed; close it, and write a quote within a value twice"
    )]
    Quote,
    /// The row is longer than any document.
    #[error("a row of more than {DOCUMENT_BYTES_MAX} bytes; is a quote left open?")]
    Long,
}
