//! What MongoDB's part of a scenario means: compiled documents, filters and commands, checked before anything is sent.

use std::path::Path;

use bson::Document;
use plimsoll_document::{FileSource, IdForm, Program, Reading, STAMP_FIELD, Settings, Source, Template};
use plimsoll_ledger::Run;
use plimsoll_wire as wire;

use crate::scenario::{
    Client, DocumentFile, Find, Insert, Operation, Section, Stamp, Update, W, WriteConcern,
};

/// The moment that relative dates count from, whenever a run is made: 2026-01-01T00:00:00Z, in milliseconds.
pub const START_MS: i64 = 1_767_225_600_000;
/// Numbers are dealt in blocks of at least this many.
const BLOCK_MIN: u64 = 4096;
/// Documents of one operation at most.
pub const BATCH_MAX: u32 = 1_000_000;

/// A database and a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The database.
    pub db: String,
    /// The collection.
    pub collection: String,
}

/// Which documents an operation is for.
#[derive(Clone, Debug)]
pub enum Selection {
    /// One that this run has inserted.
    Receipt,
    /// Those that a filter lets through.
    Filter(Program),
}

/// One operation, ready to be sent by either client.
#[derive(Clone, Debug)]
pub enum Command {
    /// Inserts `batch` documents.
    Insert {
        /// Documents of one operation.
        batch: u32,
        /// Whether the server stops at the first failure.
        ordered: bool,
    },
    /// Finds documents.
    Find {
        /// Which.
        selection: Selection,
        /// How.
        shape: FindShape,
    },
    /// Updates documents.
    Update {
        /// Which.
        selection: Selection,
        /// The update.
        update: Program,
        /// Whether all are updated.
        multi: bool,
        /// Whether one is inserted where none is found.
        upsert: bool,
    },
    /// Replaces one document.
    Replace,
    /// Deletes one document.
    Delete {
        /// Which.
        selection: Selection,
    },
}

impl Command {
    /// Which documents it is for; inserts name none, and it does not matter which for them.
    pub const fn selection(&self) -> &Selection {
        match self {
            Self::Find { selection, .. } | Self::Update { selection, .. } | Self::Delete { selection } => {
                selection
            }
            Self::Insert { .. } | Self::Replace => &Selection::Receipt,
        }
    }

    /// Whether a change that finds no document is a surprise.
    pub const fn must_match(&self) -> bool {
        match self {
            Self::Update { selection, upsert, .. } => matches!(selection, Selection::Receipt) && !*upsert,
            Self::Replace => true,
            _ => false,
        }
    }
}

/// How documents are found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindShape {
    /// Which fields to return.
    pub projection: Option<Document>,
    /// In which order.
    pub sort: Option<Document>,
    /// The most documents.
    pub limit: Option<u32>,
    /// Level of the read concern.
    pub read_concern: Option<String>,
}

/// All that the workers of a run share.
#[derive(Debug)]
pub struct Setup {
    /// Where the documents go.
    pub namespace: Namespace,
    /// What they are.
    pub source: Option<Source>,
    /// The form of `_id`.
    pub id: IdForm,
    /// The run that its receipts carry.
    pub run: Run,
    /// The operations of the plan, by index.
    pub commands: Vec<Command>,
    /// When writes are acknowledged; nothing leaves it to the server.
    pub write_concern: Option<wire::WriteConcern>,
    /// Which client sends.
    pub client: Client,
    /// How long an operation may take.
    pub timeout: std::time::Duration,
    /// Whether an operation of the plan removes documents, so that one that is not found is no surprise.
    pub deletes: bool,
}

/// A scenario that cannot be meant, with the place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collection's name is not `database.collection`.
    #[error("collection: `{0}` is no database.collection; write for example plimsoll.orders")]
    Namespace(String),
    /// An insert without documents.
    #[error(
        "document: an insert needs a document; write `document:` with a template, or `documents_from:` with a file"
    )]
    NoDocument,
    /// Two sources of documents.
    #[error("document: there is also documents_from; keep one of them")]
    TwoSources,
    /// A template that cannot be compiled.
    #[error(transparent)]
    Template(#[from] plimsoll_document::Error),
    /// A file that cannot be read.
    #[error("documents_from: {0}")]
    File(#[from] plimsoll_document::file::Error),
    /// A batch out of bounds.
    #[error("{operation}.batch: {batch} documents; give a number from 1 to {BATCH_MAX}")]
    Batch {
        /// The operation.
        operation: String,
        /// What was typed.
        batch: u32,
    },
    /// An operation by receipt on documents whose ids are not receipts.
    #[error(
        "{0}: documents with ids of their own cannot be named by receipt; give a filter, or leave out `id: own`"
    )]
    OwnIds(String),
    /// `multi` without a filter.
    #[error("{0}.multi: one document has one receipt; give a filter, or leave out multi")]
    MultiReceipt(String),
    /// A write concern that MongoDB does not take.
    #[error("write_concern: {0}")]
    WriteConcern(&'static str),
    /// A constant document with a generator in it.
    #[error("{0}: only constants may stand here")]
    NotConstant(String),
}

/// What a plan adds to MongoDB's section.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Seed of the documents' content.
    pub seed: u64,
    /// The run that receipts carry.
    pub run: Run,
    /// Where relative paths start.
    pub base: &'a Path,
}

impl Setup {
    /// Compiles a section and the plan's operations, given by name.
    ///
    /// # Errors
    /// The first thing that cannot be meant, with its place.
    pub fn build(
        section: &Section,
        operations: &[(String, Operation)],
        context: Context<'_>,
    ) -> Result<Self, Error> {
        let inserts = operations.iter().any(|(_, operation)| matches!(operation, Operation::Insert(_)));
        let source = source(section, context)?;
        if inserts && source.is_none() {
            return Err(Error::NoDocument);
        }
        let commands = operations.iter().map(|(name, operation)| command(name, operation, section, context));
        Ok(Self {
            namespace: section.collection.parse()?,
            source,
            id: section.id,
            run: context.run,
            commands: commands.collect::<Result<_, _>>()?,
            write_concern: write_concern(&section.write_concern)?,
            client: section.client,
            timeout: std::time::Duration::from_nanos(section.timeout.as_ns()),
            deletes: operations.iter().any(|(_, operation)| matches!(operation, Operation::Delete(_))),
        })
    }

    /// Whether the server answers writes.
    pub fn is_acknowledged(&self) -> bool {
        self.write_concern.as_ref().is_none_or(wire::WriteConcern::is_acknowledged)
    }

    /// Whether an operation names documents by receipt.
    pub fn names_receipts(&self) -> bool {
        let by_receipt = |command: &Command| matches!(command.selection(), Selection::Receipt);
        self.commands.iter().any(|command| !matches!(command, Command::Insert { .. }) && by_receipt(command))
    }

    /// How many numbers are dealt to a worker at a time: whole batches of the largest insert, so that none is cut.
    pub fn block(&self) -> u64 {
        let batch = |command: &Command| {
            if let Command::Insert { batch, .. } = command { u64::from(*batch) } else { 1 }
        };
        let largest = self.commands.iter().map(batch).max().unwrap_or(1);
        largest * BLOCK_MIN.div_ceil(largest)
    }
}

impl std::str::FromStr for Namespace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = || Error::Namespace(text.to_owned());
        let (db, collection) = text.split_once('.').ok_or_else(fail)?;
        let sound = |part: &str| !part.is_empty() && !part.contains(['\0', '$', ' ', '/', '\\', '"']);
        if !sound(db) || !sound(collection) || collection.starts_with("system.") {
            return Err(fail());
        }
        Ok(Self { db: db.to_owned(), collection: collection.to_owned() })
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.db, self.collection)
    }
}

fn source(section: &Section, context: Context<'_>) -> Result<Option<Source>, Error> {
    let stamp = (section.stamp == Stamp::On && section.id != IdForm::Own).then(|| STAMP_FIELD.to_owned());
    let settings = Settings { seed: context.seed, start_ms: START_MS, id: section.id, stamp };
    match (&section.document, &section.documents_from) {
        (Some(_), Some(_)) => Err(Error::TwoSources),
        (Some(template), None) => Ok(Some(Program::compile(template, &settings)?.into())),
        (None, Some(file)) => Ok(Some(file_source(file, &settings, context.base)?)),
        (None, None) => Ok(None),
    }
}

fn file_source(file: &DocumentFile, settings: &Settings, base: &Path) -> Result<Source, Error> {
    let reading = Reading { past_end: file.past_end, ..Reading::default() };
    Ok(FileSource::open(&base.join(&file.path), settings, reading)?.into())
}

fn command(
    name: &str,
    operation: &Operation,
    section: &Section,
    context: Context<'_>,
) -> Result<Command, Error> {
    if section.id == IdForm::Own && operation.needs_receipts() {
        return Err(Error::OwnIds(name.to_owned()));
    }
    match operation {
        Operation::Insert(insert) => insert_command(name, insert),
        Operation::Find(find) => find_command(name, find, context),
        Operation::Update(update) => update_command(name, update, context),
        Operation::Replace(_) => Ok(Command::Replace),
        Operation::Delete(delete) => {
            Ok(Command::Delete { selection: selection(delete.filter.as_ref(), context)? })
        }
    }
}

fn insert_command(name: &str, insert: &Insert) -> Result<Command, Error> {
    if insert.batch == 0 || insert.batch > BATCH_MAX {
        return Err(Error::Batch { operation: name.to_owned(), batch: insert.batch });
    }
    Ok(Command::Insert { batch: insert.batch, ordered: insert.ordered })
}

fn find_command(name: &str, find: &Find, context: Context<'_>) -> Result<Command, Error> {
    let shape = FindShape {
        projection: constant(name, "projection", find.projection.as_ref(), context)?,
        sort: constant(name, "sort", find.sort.as_ref(), context)?,
        limit: find.limit,
        read_concern: find.read_concern.clone(),
    };
    Ok(Command::Find { selection: selection(find.filter.as_ref(), context)?, shape })
}

fn update_command(name: &str, update: &Update, context: Context<'_>) -> Result<Command, Error> {
    if update.multi && update.filter.is_none() {
        return Err(Error::MultiReceipt(name.to_owned()));
    }
    Ok(Command::Update {
        selection: selection(update.filter.as_ref(), context)?,
        update: operator_program(&update.update, context)?,
        multi: update.multi,
        upsert: update.upsert,
    })
}

fn selection(filter: Option<&Template>, context: Context<'_>) -> Result<Selection, Error> {
    match filter {
        None => Ok(Selection::Receipt),
        Some(filter) => Ok(Selection::Filter(operator_program(filter, context)?)),
    }
}

/// A document in which MongoDB's operators may stand beside generators, with nothing added to it.
fn operator_program(template: &Template, context: Context<'_>) -> Result<Program, Error> {
    let settings = Settings { seed: context.seed, start_ms: START_MS, ..Settings::default() };
    Ok(Program::fragment(template, &settings)?)
}

/// The key of an index: constants, at least one field.
///
/// # Errors
/// When it holds a generator, or nothing.
pub fn index_key(name: &str, typed: &Template, context: Context<'_>) -> Result<Document, Error> {
    let key = constant(name, "indexes", Some(typed), context)?.unwrap_or_default();
    if key.is_empty() {
        Err(Error::NotConstant(format!("{name}.indexes: an index needs a field")))
    } else {
        Ok(key)
    }
}

/// A document without generators: the same for every number.
pub(crate) fn constant(
    name: &str,
    field: &str,
    template: Option<&Template>,
    context: Context<'_>,
) -> Result<Option<Document>, Error> {
    let Some(template) = template else { return Ok(None) };
    let program = operator_program(template, context)?;
    let encode = |number| {
        let mut bytes = Vec::new();
        program.encode(number, &Default::default(), &mut bytes);
        bytes
    };
    let fail = || Error::NotConstant(format!("{name}.{field}"));
    let bytes = encode(0);
    if bytes != encode(1) || bytes != encode(u64::from(u32::MAX)) {
        return Err(fail());
    }
    Document::from_reader(bytes.as_slice()).map(Some).map_err(|_| fail())
}

fn write_concern(typed: &WriteConcern) -> Result<Option<wire::WriteConcern>, Error> {
    if *typed == WriteConcern::default() {
        return Ok(None);
    }
    let w = match &typed.w {
        // Without w the server's own default cannot be sent beside j; one member is what j alone has always meant.
        None => wire::W::Number(1),
        Some(W::Number(number)) if *number <= 50 => wire::W::Number(*number),
        Some(W::Number(_)) => return Err(Error::WriteConcern("w: a replica set has at most 50 members")),
        Some(W::Name(name)) if name == "majority" => wire::W::Majority,
        Some(W::Name(name)) if !name.is_empty() => wire::W::Tag(name.clone()),
        Some(W::Name(_)) => {
            return Err(Error::WriteConcern("w: give a number, majority, or the name of a tag set"));
        }
    };
    if w == wire::W::Number(0) && typed.j == Some(true) {
        return Err(Error::WriteConcern("j: true asks for an answer and w: 0 for none; keep one of them"));
    }
    let timeout_ms = typed.timeout.map(|span| u32::try_from(span.as_ns() / 1_000_000).unwrap_or(u32::MAX));
    Ok(Some(wire::WriteConcern { w, j: typed.j, timeout_ms }))
}
