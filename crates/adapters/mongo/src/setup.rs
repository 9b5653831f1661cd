//! Compiles the MongoDB section of a scenario: documents, filters and commands, checked before anything is sent.

use std::path::Path;

use plimsoll_deployment::concern::Concerns;
use plimsoll_deployment::{InvalidNamespace, Namespace};
use plimsoll_document::{FileSource, IdForm, Program, Reading, STAMP_FIELD, Settings, Source};
use plimsoll_ledger::Run;
use plimsoll_load::retry::Retry;
use plimsoll_wire as wire;

use crate::scenario::{Client, Connections, DocumentFile, InvalidConnections, Operation, Section, Stamp};

pub(crate) use compile::constant;
pub use compile::index_key;

pub use concerns::{Copies, Freshness, Validity};

pub use counter::{Counters, Differs};

pub use effects::{Effects, Judged};

pub use command::{Change, Command, FindShape, Pipeline, Purpose, Selection};

mod command;
mod compile;
mod concerns;
mod counter;
mod effects;

/// The origin of relative dates in every run: 2026-01-01T00:00:00Z, in milliseconds.
pub const START_MS: i64 = 1_767_225_600_000;
/// Workers get numbers in blocks of at least this size.
const BLOCK_MIN: u64 = 4096;
/// The largest number of documents in one operation.
pub const BATCH_MAX: u32 = 1_000_000;
/// The largest number of documents in one range.
pub const LIMIT_MAX: u32 = 1_000_000;
/// The most steps of one `list_append`.
pub const STEPS_MAX: u32 = 16;
/// The most lists in use at a time.
pub const LISTS_MAX: u32 = 1_000;

/// The settings that the workers of a run share.
#[derive(Debug)]
pub struct Setup {
    /// The collection.
    pub namespace: Namespace,
    /// The source of the documents to insert; `None` if the section names none.
    pub source: Option<Source>,
    /// The form of `_id`.
    pub id: IdForm,
    /// Whether documents carry their stamp.
    pub stamp: Stamp,
    /// The run in the documents' receipts.
    pub run: Run,
    /// The names of the operations of the plan, by index.
    pub names: Vec<String>,
    /// The operations of the plan, by index.
    pub commands: Vec<Command>,
    /// The concerns of the operations, by index: see [`Setup::inherit`].
    pub concerns: Vec<Concerns>,
    freshness: Vec<Freshness>,
    validity: Vec<Validity>,
    is_acknowledged: bool,
    /// The client that sends the operations.
    pub client: Client,
    /// The connections of the client.
    pub connections: Connections,
    /// The retry of failed operations. `None`: as the deployment supports.
    pub retry: Option<Retry>,
    /// The time limit of an operation.
    pub timeout: std::time::Duration,
    /// Whether an operation of the plan removes documents by a filter; a missing document is then allowed.
    pub removes_any: bool,
    /// The counters that all changes of the plan increment; `None` if the changes differ.
    pub counters: Option<Counters>,
    /// The kinds of updates of a plan whose changes differ, if the ledger can follow some of them.
    pub effects: Option<Effects>,
    /// A sentence for each change that the audit cannot judge.
    pub not_judged: Vec<String>,
    /// The most documents of a collection whose indexes are checked.
    pub index_documents_max: u64,
    /// The time limit for the check of all indexes.
    pub index_time_max: std::time::Duration,
    /// The longest wait for members that lag; zero compares none.
    pub lag_max: std::time::Duration,
}

/// An invalid scenario, with the place of the error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collection's name is not `database.collection`.
    #[error("collection: {0}")]
    Namespace(#[from] InvalidNamespace),
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
    /// A template inside an operation that cannot be compiled.
    #[error("{operation}: {}", fault.to_string().trim_start_matches('.'))]
    Part {
        /// The operation.
        operation: String,
        /// The fault, whose path begins inside the template.
        fault: plimsoll_document::Error,
    },
    /// A file that cannot be read.
    #[error("documents_from: {0}")]
    File(#[from] plimsoll_document::file::Error),
    /// A batch out of bounds.
    #[error("{operation}.batch: {batch} documents; give a number from 1 to {BATCH_MAX}")]
    Batch {
        /// The operation.
        operation: String,
        /// The batch as typed.
        batch: u32,
    },
    /// An operation by receipt on documents whose ids are not receipts.
    #[error("{0}: documents with their own ids have no receipt; give a filter, or leave out `id: own`")]
    OwnIds(String),
    /// A choice of keys next to a filter.
    #[error("{0}.keys: the filter says which documents; leave out `keys` or `filter`")]
    KeysAndFilter(String),
    /// An exponent out of bounds.
    #[error("{operation}.keys.zipf.exponent: {exponent}; give a number over 0 and up to {max}")]
    Exponent {
        /// The operation.
        operation: String,
        /// The exponent as typed.
        exponent: f64,
        /// The largest exponent.
        max: f64,
    },
    /// A limit out of bounds.
    #[error(
        "{operation}.limit: from {min} to {max} documents; give numbers from 1 to {LIMIT_MAX}, or one number"
    )]
    Limit {
        /// The operation.
        operation: String,
        /// The smallest number.
        min: u32,
        /// The largest number.
        max: u32,
    },
    /// A stage that writes.
    #[error("{place}: {stage} writes documents that cannot be audited; leave it out, or use an update")]
    StageWrites {
        /// The path of the stage in the scenario.
        place: String,
        /// The operator of the stage.
        stage: String,
    },
    /// A stage without exactly one operator.
    #[error("{0}: a stage is one operator, for example {{$match: {{n: 5}}}}")]
    Stage(String),
    /// An update without operators.
    #[error(
        "{0}.update: give operators such as $set, or a list in {{one_of: [...]}}; to replace, use `replace`"
    )]
    NoUpdate(String),
    /// A replacement of a document without a receipt.
    #[error("{0}.change: a replacement needs a receipt; leave out the filter, or use an update")]
    ReplaceFiltered(String),
    /// `returns: new` for a removed document.
    #[error("{0}.returns: remove leaves no new state; leave out `returns`")]
    NothingNew(String),
    /// A read-modify-write that does not write.
    #[error("{0}.change: remove is unsupported here; use update, replace or find_and_modify")]
    WritesNothing(String),
    /// Versioned replacements without a stamp.
    #[error(
        "{0}: `replace` stores the version in the stamp: leave out `replace` or `stamp: false`, or use an update"
    )]
    NoVersions(String),
    /// An empty transaction.
    #[error("{0}.operations: empty; list insert, find, update, replace or delete")]
    EmptyTransaction(String),
    /// An operation that cannot be part of a transaction.
    #[error("{0}: only insert, find, update, replace and delete can be part of a transaction")]
    Step(String),
    /// A concern inside a transaction.
    #[error("{0}.{1}: a transaction has one for all its operations; give it to the transaction")]
    StepConcern(String, &'static str),
    /// A read preference inside a transaction.
    #[error("{0}.read_preference: a transaction reads from the primary; leave it out")]
    StepReadPreference(String),
    /// An upsert inside a transaction.
    #[error("{0}.upsert: an upsert cannot be part of a transaction; insert the documents before it")]
    StepUpsert(String),
    /// An unacknowledged find-and-modify.
    #[error("{0}: the server answers even with w: 0; leave it out, or use update or replace")]
    UnacknowledgedFind(String),
    /// An unacknowledged transaction.
    #[error("{0}: a transaction cannot be committed with w: 0; leave w out, or give 1 or majority")]
    UnacknowledgedTransaction(String),
    /// Lists out of bounds.
    #[error(
        "{operation}: {steps} steps on {lists} lists; give from 1 to {STEPS_MAX} steps, and from 2 to {LISTS_MAX} lists"
    )]
    Lists {
        /// The operation.
        operation: String,
        /// The steps as typed.
        steps: u32,
        /// The lists as typed.
        lists: u32,
    },
    /// Lists over the official driver.
    #[error("{0}: the official driver does not send list_append; use client: lean")]
    ListsOfDriver(String),
    /// `multi` without a filter.
    #[error("{0}.multi: a receipt selects one document; give a filter, or omit multi")]
    MultiReceipt(String),
    /// A write concern that MongoDB refuses.
    #[error("write_concern: {0}")]
    WriteConcern(&'static str),
    /// A write concern of an operation that MongoDB refuses.
    #[error("{0}.write_concern: {1}")]
    OperationWriteConcern(String, &'static str),
    /// An operation that asks for no answer.
    #[error(
        "{0}.write_concern: w: 0 asks for no answer, so nothing of the run could be proven; give 1 or majority, or say w: 0 for all \
         operations in the scenario's write_concern"
    )]
    OperationUnacknowledged(String),
    /// An operation's write concern in a scenario that asks for no answers.
    #[error(
        "{0}.write_concern: the scenario's write_concern says w: 0 for all operations; leave out one of the two"
    )]
    MixedAcknowledgement(String),
    /// A read preference that MongoDB refuses.
    #[error("{0}read_preference: {1}")]
    ReadPreference(String, &'static str),
    /// Connections that the client does not have.
    #[error(transparent)]
    Connections(#[from] InvalidConnections),
    /// A constant document with a generator in it.
    #[error("{0}: only constants are valid here")]
    NotConstant(String),
}

/// The run's values for MongoDB's section.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Seed of the documents' content.
    pub seed: u64,
    /// The run that receipts carry.
    pub run: Run,
    /// The base directory of relative paths.
    pub base: &'a Path,
}

impl Setup {
    /// Compiles a section and the plan's operations, given by name.
    ///
    /// # Errors
    /// The first invalid setting, with its place.
    pub fn build(
        section: &Section,
        operations: &[(String, Operation)],
        context: Context<'_>,
    ) -> Result<Self, Error> {
        let inserts = operations.iter().any(|(_, operation)| operation.inserts());
        let source = source(section, context)?;
        if inserts && source.is_none() {
            return Err(Error::NoDocument);
        }
        let commands = operations
            .iter()
            .map(|(name, operation)| compile::command(name, operation, section, context))
            .collect::<Result<Vec<_>, _>>()?;
        section.connections.check(section.client)?;
        let scenario = concerns::of_section(section)?;
        let is_acknowledged = scenario.write.as_ref().is_none_or(wire::WriteConcern::is_acknowledged);
        let concerns = operations
            .iter()
            .zip(&commands)
            .map(|((name, operation), command)| concerns::of_operation(name, operation, command, &scenario));
        let is_followed = is_acknowledged && section.id != IdForm::Own;
        let counters = Counters::of(operations, context).filter(|_| is_followed);
        let (effects, not_judged) = if is_followed {
            effects::of(operations, source.as_ref(), counters.is_some(), context)
        } else {
            (None, Vec::new())
        };
        Ok(Self {
            namespace: section.collection.parse()?,
            source,
            id: section.id,
            stamp: stamp(section),
            run: context.run,
            removes_any: removes_any(&commands, is_acknowledged),
            index_documents_max: section.audit.index_documents_max.unwrap_or(u64::MAX),
            index_time_max: std::time::Duration::from_nanos(section.audit.index_time_max.as_ns()),
            lag_max: std::time::Duration::from_nanos(section.audit.lag_max.as_ns()),
            counters,
            effects,
            not_judged,
            names: operations.iter().map(|(name, _)| name.clone()).collect(),
            concerns: concerns.collect::<Result<_, _>>()?,
            freshness: Vec::new(),
            validity: Vec::new(),
            is_acknowledged,
            commands,
            client: section.client,
            connections: section.connections,
            retry: section.retry,
            timeout: std::time::Duration::from_nanos(section.timeout.as_ns()),
        })
    }

    /// Whether the server answers writes.
    pub const fn is_acknowledged(&self) -> bool {
        self.is_acknowledged
    }

    /// Whether an operation appends to lists, in transactions.
    pub fn appends_in_transactions(&self) -> bool {
        self.commands.iter().any(|command| matches!(command, Command::ListAppend { steps: 2.., .. }))
    }

    /// Whether an operation appends to lists.
    pub fn appends_to_lists(&self) -> bool {
        self.commands.iter().any(|command| matches!(command, Command::ListAppend { .. }))
    }

    /// Appends to lists one step at a time, for a server without transactions.
    pub fn append_without_transactions(&mut self) {
        for command in &mut self.commands {
            if let Command::ListAppend { steps, .. } = command {
                *steps = 1;
            }
        }
    }

    /// Whether an operation names documents by receipt.
    pub fn names_receipts(&self) -> bool {
        self.commands.iter().flat_map(Command::parts).any(|command| command.keys().is_some())
    }

    /// The size of a worker's block of numbers: whole batches of the largest insert, so that none is split.
    pub fn block(&self) -> u64 {
        let batch = |command: &Command| {
            if let Command::Insert { batch, .. } = command { u64::from(*batch) } else { 1 }
        };
        let largest = self.commands.iter().flat_map(Command::parts).map(batch).max().unwrap_or(1);
        largest * BLOCK_MIN.div_ceil(largest)
    }
}

/// Whether an operation removes documents by filter. Without acknowledgements (`followed` is false), a
/// removal by receipt counts too.
fn removes_any(commands: &[Command], followed: bool) -> bool {
    let removes = |command: &Command| command.purpose() == Purpose::Remove;
    let all = commands.iter().flat_map(Command::parts);
    all.filter(|command| removes(command)).any(|command| !followed || command.filter().is_some())
}

fn source(section: &Section, context: Context<'_>) -> Result<Option<Source>, Error> {
    let stamp = (stamp(section) == Stamp::On).then(|| STAMP_FIELD.to_owned());
    let settings =
        Settings { seed: context.seed, start_ms: START_MS, id: section.id, stamp, ..Settings::default() };
    match (&section.document, &section.documents_from) {
        (Some(_), Some(_)) => Err(Error::TwoSources),
        (Some(template), None) => Ok(Some(Program::compile(template, &settings)?.into())),
        (None, Some(file)) => Ok(Some(file_source(file, &settings, context.base)?)),
        (None, None) => Ok(None),
    }
}

/// Documents with their own ids have no receipt to carry in a stamp.
fn stamp(section: &Section) -> Stamp {
    if section.id == IdForm::Own { Stamp::Off } else { section.stamp }
}

fn file_source(file: &DocumentFile, settings: &Settings, base: &Path) -> Result<Source, Error> {
    let reading = Reading { past_end: file.past_end, ..Reading::default() };
    Ok(FileSource::open(&base.join(&file.path), settings, reading)?.into())
}
