//! Parses the first line of a table: the columns, their types and their documents.

use plimsoll_element::kind;

use crate::DEPTH_MAX;

use super::kind::Kind;
use super::rows::Row;
use crate::file::error::{Column, Failure};
use crate::file::table_error::Problem;

/// The columns of a table, laid out as a document.
#[derive(Debug)]
pub(super) struct Header {
    columns: Vec<Typed>,
    fields: Vec<Field>,
}

/// A column's whole name, without its type, and the type.
#[derive(Debug)]
struct Typed {
    name: String,
    kind: Kind,
}

/// A field of a document.
#[derive(Debug)]
struct Field {
    /// The key with its final NUL.
    key: Vec<u8>,
    node: Node,
}

/// The contents of a field: the value of a column, or fields.
#[derive(Debug)]
enum Node {
    Column(usize),
    Document(Vec<Field>),
}

impl Header {
    /// Reads the first line of a table.
    pub(super) fn read(row: &Row<'_>) -> Result<Self, Failure> {
        let mut header = Self { columns: Vec::new(), fields: Vec::new() };
        let is_alone = row.len() == 1;
        for (number, name) in row.texts().enumerate() {
            let column = |name: &str| Some(Column { number: number + 1, name: name.to_owned() });
            let name = name.map_err(|problem| row.failure_at(column(""), problem))?;
            let added = if is_alone && name.contains([';', '\t', ',']) {
                Err(Problem::Separator)
            } else {
                header.add(number, name)
            };
            added.map_err(|problem| row.failure_at(column(name), problem))?;
        }
        Ok(header)
    }

    /// Encodes a row as a document. Clears `out` first.
    pub(super) fn encode(&self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let (values, columns) = (row.len(), self.columns.len());
        if values != columns {
            return Err(row.failure(Problem::Width { values, columns }.into()));
        }
        out.clear();
        let length = open(out);
        self.append(&self.fields, row, out)?;
        close(out, length);
        Ok(())
    }

    fn add(&mut self, number: usize, text: &str) -> Result<(), Problem> {
        let (name, kind) = typed(text)?;
        if name.contains('\0') {
            return Err(Problem::Nul);
        }
        if name.split('.').any(str::is_empty) {
            return Err(Problem::NoName);
        }
        if name.split('.').count() > DEPTH_MAX {
            return Err(Problem::Depth);
        }
        insert(&mut self.fields, "", name, number)?;
        self.columns.push(Typed { name: name.to_owned(), kind });
        Ok(())
    }

    fn append(&self, fields: &[Field], row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        for field in fields {
            match &field.node {
                Node::Column(number) => self.append_value(&field.key, *number, row, out)?,
                Node::Document(fields) => self.append_document(&field.key, fields, row, out)?,
            }
        }
        Ok(())
    }

    fn append_value(
        &self,
        key: &[u8],
        number: usize,
        row: &Row<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let Typed { name, kind } = &self.columns[number];
        let appended = row.text(number).and_then(|text| match text {
            "" => Ok(()),
            text => kind.append(key, text, out),
        });
        let column = || Column { number: number + 1, name: name.clone() };
        appended.map_err(|problem| row.failure_at(Some(column()), problem))
    }

    /// Omits the document if all its values are omitted.
    fn append_document(
        &self,
        key: &[u8],
        fields: &[Field],
        row: &Row<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let start = out.len();
        out.push(kind::DOCUMENT);
        out.extend_from_slice(key);
        let length = open(out);
        let empty = out.len();
        self.append(fields, row, out)?;
        if out.len() == empty {
            out.truncate(start);
        } else {
            close(out, length);
        }
        Ok(())
    }
}

/// Appends space for a document's length. Returns its place.
fn open(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len() - 4
}

/// Appends the final zero, and sets the length at `at`.
fn close(out: &mut Vec<u8>, at: usize) {
    out.push(0);
    // Names and values have at most some 16 MB each, so the length fits 32 bits.
    let bytes = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
}

/// A column's name and type: `name`, `name.type()` or `name.type(argument)`.
fn typed(text: &str) -> Result<(&str, Kind), Problem> {
    let is_word =
        |kind: &str| !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let typed = text.strip_suffix(')').and_then(|text| text.rsplit_once('('));
    let typed = typed.and_then(|(name, argument)| Some((name.rsplit_once('.')?, argument)));
    match typed {
        Some(((name, kind), argument)) if is_word(kind) => Ok((name, Kind::read(kind, argument)?)),
        _ => Ok((text, Kind::Auto)),
    }
}

/// Inserts a column at the place of its name. `before` is the part of the name that leads to `fields`.
fn insert(fields: &mut Vec<Field>, before: &str, name: &str, number: usize) -> Result<(), Problem> {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let key = [first.as_bytes(), b"\0"].concat();
    let whole = format!("{before}{first}");
    let known = fields.iter_mut().find(|field| field.key == key);
    match (known.map(|field| &mut field.node), rest) {
        (None, None) => fields.push(Field { key, node: Node::Column(number) }),
        (None, Some(rest)) => {
            let mut inner = Vec::new();
            insert(&mut inner, "", rest, number)?;
            fields.push(Field { key, node: Node::Document(inner) });
        }
        (Some(Node::Document(fields)), Some(rest)) => insert(fields, &format!("{whole}."), rest, number)?,
        (Some(Node::Column(_)), None) => return Err(Problem::Twice),
        (Some(_), _) => return Err(Problem::ValueAndDocument { name: whole }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_in_a_type_only_if_it_has_the_form_of_a_type() {
        let check = |text: &str, name: &str, kind: Kind| assert_eq!(typed(text), Ok((name, kind)));
        check("a.b.int32()", "a.b", Kind::Int32);
        check("born.date(2006-01-02)", "born", Kind::Day);
        check("price (EUR)", "price (EUR)", Kind::Auto);
        check("a.price (EUR)", "a.price (EUR)", Kind::Auto);
        check("f()", "f()", Kind::Auto);
        check("a.string", "a.string", Kind::Auto);
        assert_eq!(typed("a.strin()"), Err(Problem::NoKind { kind: "strin".into() }));
        let argument = Problem::Argument { kind: "int32".into(), argument: "5".into() };
        assert_eq!(typed("a.int32(5)"), Err(argument));
    }
}
