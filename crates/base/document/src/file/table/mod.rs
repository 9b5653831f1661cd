//! Reads a table of comma-separated (`.csv`) or tab-separated values (`.tsv`), one document per row.
//!
//! The format is RFC 4180: values with separators, quotes or line ends are quoted, and a quote inside is doubled. A UTF-8
//! byte order mark and empty lines are skipped.
//!
//! The first line names the fields. Dots make documents: `address.city` and `address.street` form one field `address` at
//! the position of its first column. A name may end in a type, as with mongoimport's `--columnsHaveTypes`; [`kind::Kind`]
//! lists the types and explains untyped columns. An empty value, of any type, omits its field; a document with only empty
//! values is omitted too. Every row has as many values as there are names.

mod header;

mod kind;

mod rows;

use std::io::Read;

use super::Records;
use super::error::Failure;
use header::Header;
use rows::Rows;

/// Reads every row up to the end of the input.
pub(super) fn read(input: &mut impl Read, separator: u8, records: &mut Records) -> Result<(), Failure> {
    let mut rows = Rows::new(input, separator);
    let Some(first) = rows.next()? else { return Ok(()) };
    let header = Header::read(&first)?;
    let mut document = Vec::new();
    while let Some(row) = rows.next()? {
        header.encode(&row, &mut document)?;
        records.push(&document).map_err(|problem| row.failure(problem))?;
    }
    Ok(())
}
