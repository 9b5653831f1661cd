//! Replays the documents of a file.

mod dump;

mod error;

mod lines;

mod table;

mod table_error;

pub use error::{Column, Error, Problem, TablePosition};
pub use table_error::Problem as TableProblem;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use plimsoll_element as element;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{DEPTH_MAX, DOCUMENT_BYTES_MAX, IdForm, Identity, Settings};

/// The default memory limit of a file source in bytes (4 GiB).
pub const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// The behaviour after the last document of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PastEnd {
    /// There are no more documents.
    #[default]
    Stop,
    /// The file begins again; each document gets a new `_id`, unless the file supplies it.
    Repeat,
}

/// The result of [`FileSource::encode`] and [`crate::Source::encode`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// One document was appended.
    Document,
    /// No document was appended: the number lies past the end of the file, and the file is not repeated.
    PastEnd,
}

/// The settings for reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The behaviour after the last document.
    pub past_end: PastEnd,
    /// The memory limit for the documents and their index in bytes.
    pub memory_bytes_max: u64,
}

impl Default for Reading {
    /// Stops at the end and uses up to [`MEMORY_BYTES_MAX`].
    fn default() -> Self {
        Self { past_end: PastEnd::Stop, memory_bytes_max: MEMORY_BYTES_MAX }
    }
}

/// The documents of a file, in memory, without their `_id` (unless the file supplies it).
#[derive(Clone, Debug)]
pub struct FileSource {
    /// The elements of all documents, without lengths and final zeros.
    elements: Vec<u8>,
    /// The index in `elements` at which each document's elements end.
    ends: Vec<usize>,
    hash: [u8; 32],
    past_end: PastEnd,
    id: IdForm,
    /// The type byte and the key of the stamp; empty for no stamp.
    stamp: Vec<u8>,
    bounds: (usize, usize),
}

/// The forms of a file.
enum Form {
    /// Documents of BSON, one after another, as mongodump writes them.
    Dump,
    /// One document of Extended JSON per line, as mongoexport writes them.
    Lines,
    /// Rows of values with this separator. The first row contains the names.
    Table(u8),
}

impl FileSource {
    /// Reads a `.bson` file (as of mongodump), a `.json`, `.jsonl` or `.ndjson` file (one document of
    /// Extended JSON per line, as of mongoexport), or a `.csv` or `.tsv` file (a table). The first line of a
    /// table names the fields, and may name their types as in mongoimport's `--columnsHaveTypes`. Only `id`
    /// and `stamp` of the settings matter. Texts in BSON are not checked for UTF-8.
    ///
    /// In a table, dots in names make documents, and an empty value omits its field. In a column without a type, a number
    /// in JSON's form becomes an int32, int64 or double. `true` and `false` become booleans, and an RFC 3339 timestamp
    /// becomes a date. Any other value, such as `007`, becomes a string. The types are `auto()`, `boolean()`, `date()`,
    /// `date(2006-01-02)`, `decimal()`, `double()`, `int32()`, `int64()` and `string()`, after the name and a dot.
    ///
    /// # Errors
    /// When the file cannot be read, is of another kind, needs more memory than allowed, has no documents, or contains an
    /// invalid document. The message names the record, counted from 0, and its offset, or line and column.
    pub fn open(path: &Path, settings: &Settings, reading: Reading) -> Result<Self, Error> {
        let form = form(path)?;
        let file = File::open(path).map_err(|source| Error::open(path, source))?;
        let file_bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let mut input = Hashed { inner: BufReader::with_capacity(1 << 20, file), hash: Sha256::new() };
        let mut records = Records::new(settings, file_bytes, reading.memory_bytes_max);
        match form {
            Form::Dump => dump::read(&mut input, &mut records),
            Form::Lines => lines::read(&mut input, &mut records),
            Form::Table(separator) => table::read(&mut input, separator, &mut records),
        }
        .map_err(|error| error.at(path))?;
        records.finish(path, input.hash.finalize().into(), reading.past_end)
    }

    /// The number of documents in the file.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The count of numbers that have a document; `None` when the file is repeated.
    #[must_use]
    pub fn documents_max(&self) -> Option<u64> {
        match self.past_end {
            PastEnd::Stop => Some(self.records()),
            PastEnd::Repeat => None,
        }
    }

    /// The SHA-256 of the file's bytes.
    #[must_use]
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// The least and the largest size of a document, in bytes.
    #[must_use]
    pub fn len_bounds(&self) -> (usize, usize) {
        self.bounds
    }

    /// Appends the BSON of document `number`: the receipt as `_id`, the record's other fields, and the stamp.
    pub fn encode(&self, number: u64, identity: &Identity, out: &mut Vec<u8>) -> Encoded {
        let records = self.records();
        let record = match self.past_end {
            PastEnd::Stop if number >= records => return Encoded::PastEnd,
            _ => (number % records) as usize,
        };
        let start = record.checked_sub(1).map_or(0, |before| self.ends[before]);
        let elements = &self.elements[start..self.ends[record]];
        let bytes = elements.len() + frame_bytes(self.id, &self.stamp);
        out.reserve(bytes);
        out.extend_from_slice(&(bytes as u32).to_le_bytes());
        push_id(self.id, identity, out);
        out.extend_from_slice(elements);
        if !self.stamp.is_empty() {
            out.extend_from_slice(&self.stamp);
            out.extend_from_slice(&identity.stamp.to_le_bytes());
        }
        out.push(0);
        Encoded::Document
    }
}

fn push_id(form: IdForm, identity: &Identity, out: &mut Vec<u8>) {
    match form {
        IdForm::ObjectId => {
            out.extend_from_slice(b"\x07_id\0");
            out.extend_from_slice(&identity.id);
        }
        IdForm::String => {
            out.extend_from_slice(b"\x02_id\0\x19\0\0\0");
            out.extend_from_slice(&identity.hex());
            out.push(0);
        }
        IdForm::User => {
            out.extend_from_slice(b"\x02_id\0\x19\0\0\0");
            out.extend_from_slice(&crate::ycsb_id::key(identity));
            out.push(0);
        }
        IdForm::Own => {}
    }
}

/// The bytes of a document around the record's own elements: length, `_id`, stamp and final zero.
fn frame_bytes(id: IdForm, stamp: &[u8]) -> usize {
    let id_bytes = match id {
        IdForm::ObjectId => 5 + 12,
        IdForm::String | IdForm::User => 5 + 4 + 25,
        IdForm::Own => 0,
    };
    let stamp_bytes = if stamp.is_empty() { 0 } else { stamp.len() + 8 };
    4 + id_bytes + stamp_bytes + 1
}

fn form(path: &Path) -> Result<Form, Error> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("bson") => Ok(Form::Dump),
        Some("json" | "jsonl" | "ndjson") => Ok(Form::Lines),
        Some("csv") => Ok(Form::Table(b',')),
        Some("tsv") => Ok(Form::Table(b'\t')),
        _ => Err(Error::UnknownForm { path: path.to_owned() }),
    }
}

/// A reader that hashes the bytes read.
struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.hash.update(&buffer[..bytes]);
        Ok(bytes)
    }
}

/// The documents read so far.
struct Records {
    elements: Vec<u8>,
    ends: Vec<usize>,
    id: IdForm,
    stamp_name: Option<String>,
    stamp: Vec<u8>,
    memory_bytes_max: u64,
    bounds: (usize, usize),
}

impl Records {
    /// Reserves memory for a whole file at once, so that growing never takes twice the memory.
    fn new(settings: &Settings, file_bytes: u64, memory_bytes_max: u64) -> Self {
        let stamp =
            settings.stamp.as_ref().map_or(Vec::new(), |name| [b"\x12", name.as_bytes(), b"\0"].concat());
        Self {
            elements: Vec::with_capacity(usize::try_from(file_bytes.min(memory_bytes_max)).unwrap_or(0)),
            ends: Vec::new(),
            id: settings.id,
            stamp_name: settings.stamp.clone(),
            stamp,
            memory_bytes_max,
            bounds: (usize::MAX, 0),
        }
    }

    /// Checks a document at every level and appends it.
    fn check(&mut self, document: &[u8]) -> Result<(), Problem> {
        element::check(document, DEPTH_MAX)?;
        self.push(document)
    }

    /// Appends a valid document.
    fn push(&mut self, document: &[u8]) -> Result<(), Problem> {
        let start = self.elements.len();
        let mut has_id = false;
        for element in element::valid(document) {
            let name = element.key;
            has_id |= name == b"_id";
            if self.stamp_name.as_ref().is_some_and(|stamp| stamp.as_bytes() == name) {
                return Err(Problem::HasStamp { name: String::from_utf8_lossy(name).into_owned() });
            }
            if name != b"_id" || self.id == IdForm::Own {
                self.elements.extend_from_slice(&document[element.range_in(document)]);
            }
        }
        if self.id == IdForm::Own && !has_id {
            return Err(Problem::NoId);
        }
        self.seal(self.elements.len() - start)
    }

    fn seal(&mut self, element_bytes: usize) -> Result<(), Problem> {
        let bytes = element_bytes + frame_bytes(self.id, &self.stamp);
        if bytes > DOCUMENT_BYTES_MAX {
            return Err(Problem::TooLarge { bytes: bytes as u64 });
        }
        self.bounds = (self.bounds.0.min(bytes), self.bounds.1.max(bytes));
        self.ends.push(self.elements.len());
        let memory = self.elements.len() as u64 + self.ends.len() as u64 * size_of::<usize>() as u64;
        if memory > self.memory_bytes_max {
            return Err(Problem::Memory { memory_bytes_max: self.memory_bytes_max });
        }
        Ok(())
    }

    fn finish(mut self, path: &Path, hash: [u8; 32], past_end: PastEnd) -> Result<FileSource, Error> {
        if self.ends.is_empty() {
            return Err(Error::Empty { path: path.to_owned() });
        }
        self.elements.shrink_to_fit();
        self.ends.shrink_to_fit();
        let Self { elements, ends, id, stamp, bounds, .. } = self;
        Ok(FileSource { elements, ends, hash, past_end, id, stamp, bounds })
    }
}
