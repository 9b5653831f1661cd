//! A table: comma-separated values (`.csv`) or tab-separated ones (`.tsv`), one document a row.
//!
//! The form is that of RFC 4180: values that hold the separator, quotes or line ends stand in quotes, and a quote within
//! is doubled. A mark of UTF-8 at the beginning, and empty lines, are passed over.
//!
//! The first line names the fields. Dots make documents: `address.city` and `address.street` are one field `address`,
//! which stands where its first column stands. A name may end in a type as mongoimport's `--columnsHaveTypes` has it; see
//! [`kind::Kind`] for the types, and for what becomes of values whose column has none. An empty value is a field left
//! out, whatever the type, and so is a document whose values are all empty. Every row has as many values as there are
//! names.

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
