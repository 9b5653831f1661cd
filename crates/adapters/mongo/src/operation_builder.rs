//! Prepares operations for both clients and records their outcomes: documents, filters, updates and the worker's ledger.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_deployment::concern::Concerns;
use plimsoll_document::{Encoded, Identity, Source};
use plimsoll_ledger::{Intent, Run};
use plimsoll_load::mix::scramble;
use plimsoll_measure::first_error::{FirstError, FirstErrors};
use plimsoll_measure::outcome::Outcome;
use plimsoll_wire::WriteReply;

use crate::list_append::Recorder;
use crate::outcome;
use crate::setup::{Command, Purpose, Selection, Setup};
use crate::shared_bounds::Origin;
use crate::statement;
use crate::worker_ledger::{Closed, Owner, PendingChange, PickedDocument, WorkerLedger};

pub use pending_write::PendingWrite;
use read_check::ReadChecker;
pub use read_check::ReturnedState;

mod pending_write;
mod read_check;
mod sample_command;

use sample_command::SampleCommand;

/// Keeps the choice of the update independent of the choice of the document.
const UPDATE_SALT: u64 = 0x07DA_7E5A;
/// Keeps the length of a range independent of the choices of the update and the document.
const LIMIT_SALT: u64 = 0x1E_4617;

/// Prepares the operations of one worker.
#[derive(Debug)]
pub struct OperationBuilder {
    /// The run's settings.
    pub setup: Arc<Setup>,
    ledger: Mutex<WorkerLedger>,
    checker: Mutex<ReadChecker>,
    recorder: Mutex<Recorder>,
    /// The number of phases so far.
    phases: AtomicU32,
    /// The first error of each operation and class.
    pub(crate) first_errors: FirstErrors,
}

/// One operation of the plan and its builder.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The builder of the operation's worker.
    pub builder: &'a OperationBuilder,
    /// The command: of the operation, or of one step of a transaction.
    pub command: &'a Command,
    /// The operation's index in the plan.
    pub operation: usize,
    /// The server that gets the operation.
    pub origin: Origin,
}

impl Work<'_> {
    /// A picked document with the bounds of a read that is sent now: see [`OperationBuilder::as_sent`].
    pub(crate) fn as_sent(&self, picked: PickedDocument) -> PickedDocument {
        self.builder.as_sent(picked, self.origin)
    }

    /// The concerns of the operation.
    pub(crate) fn concerns(&self) -> &Concerns {
        &self.builder.setup.concerns[self.operation]
    }

    /// Notes the error behind an outcome, and returns the outcome.
    pub(crate) fn noted(self, outcome: Outcome, error: &impl Detailed) -> Outcome {
        self.note(outcome, || error.detail());
        outcome
    }

    /// Notes an error if it is the first of its class.
    pub(crate) fn note(self, outcome: Outcome, error: impl FnOnce() -> FirstError) {
        let errors = &self.builder.first_errors;
        let write_concern = self.concerns().write.as_ref();
        let command =
            || SampleCommand { builder: self.builder, command: self.command, write_concern }.to_string();
        errors.note(self.operation, outcome, || error().of_command(&command()));
    }

    /// Notes the errors of a write.
    pub(crate) fn note_write(self, written: &WriteReply) {
        for error in written.errors() {
            let detail = || FirstError::new(error.code, &error.name, &error.message);
            self.note(outcome::outcome(error.outcome), detail);
        }
    }
}

/// An error with a code, a name and a message.
pub(crate) trait Detailed {
    /// The error without a command.
    fn detail(&self) -> FirstError;
}

impl Detailed for plimsoll_wire::Error {
    fn detail(&self) -> FirstError {
        match self {
            Self::Server(error) => FirstError::new(error.code, &error.name, &error.message),
            other => FirstError::new(0, "", other),
        }
    }
}

/// The number and the document of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationTarget {
    /// The operation's number in the plan.
    pub number: u64,
    /// The document of this run that the operation names, if any.
    pub document: Option<PickedDocument>,
}

impl OperationTarget {
    /// The change noted as sent, if any.
    pub fn pending(&self) -> Option<PendingWrite> {
        let document = self.document?;
        document.change.map(|change| PendingWrite::of(document.number, change))
    }

    /// Whether the named document must exist.
    pub fn is_promised(&self) -> bool {
        self.document.is_some_and(|document| document.bound.promised)
    }
}

impl OperationBuilder {
    /// Creates the builder for one worker.
    pub fn new(setup: Arc<Setup>, ledger: WorkerLedger) -> Self {
        Self {
            setup,
            ledger: Mutex::new(ledger),
            checker: Mutex::default(),
            recorder: Mutex::default(),
            phases: AtomicU32::new(0),
            first_errors: FirstErrors::default(),
        }
    }

    /// The operation with this index in the plan.
    pub fn work(&self, operation: usize) -> Work<'_> {
        Work { builder: self, command: &self.setup.commands[operation], operation, origin: Origin::Unknown }
    }

    /// Begins a phase; `documents` is this worker's share of the documents to insert, if their number is limited.
    pub fn begin(&self, documents: Option<u64>) {
        self.phases.fetch_add(1, Ordering::Relaxed);
        self.ledger().limit(documents);
    }

    /// The worker's ledger.
    pub fn ledger(&self) -> MutexGuard<'_, WorkerLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checker(&self) -> MutexGuard<'_, ReadChecker> {
        self.checker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The history of appends and reads of lists.
    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the present phase, from 1.
    pub(crate) fn phase(&self) -> u32 {
        self.phases.load(Ordering::Relaxed)
    }

    /// Closes the ledger.
    pub fn close(self) -> Closed {
        let history = self.recorder.into_inner().unwrap_or_else(PoisonError::into_inner).close();
        let closed = self.ledger.into_inner().unwrap_or_else(PoisonError::into_inner).close();
        Closed { history, ..closed }
    }

    /// Takes numbers for the documents of one insert; `None` if none are left.
    pub fn take(&self, count: u32) -> Option<Range<u64>> {
        let numbers = self.ledger().take(u64::from(count))?;
        let end = self.setup.source.as_ref().map_or(0, |source| source.documents_max().unwrap_or(u64::MAX));
        let (kept, rest) = (numbers.start..numbers.end.min(end), numbers.start.max(end)..numbers.end);
        if !rest.is_empty() {
            self.ledger().give_back(rest);
        }
        (!kept.is_empty()).then_some(kept)
    }

    /// Aims operation `operation` with the plan-wide number `number`, and notes the change that it will send.
    /// Returns `None` if no document for the operation exists, or if the note cannot be written.
    pub fn aim(&self, operation: usize, number: u64) -> Option<OperationTarget> {
        let command = &self.setup.commands[operation];
        let mut target = match self.aim_at_shared(command, operation as u64, number) {
            Some(target) => target,
            None => self.aim_with(command, self.purpose_of(operation, number), operation as u64, number)?,
        };
        if let Some(document) = &mut target.document {
            document.freshness = self.setup.freshness(operation);
            document.validity = self.setup.validity(operation);
        }
        Some(target)
    }

    /// Aims a few of the finds by receipt at documents of any worker.
    fn aim_at_shared(&self, command: &Command, salt: u64, number: u64) -> Option<OperationTarget> {
        if !matches!(command, Command::Find { selection: Selection::Receipt(_), .. })
            || self.setup.removes_any
        {
            return None;
        }
        let picked = self.ledger().pick_shared(scramble(salt, number))?;
        Some(OperationTarget { number, document: Some(picked) })
    }

    /// Aims a single command; `salt` makes the commands of one operation choose independently.
    pub fn aim_at(&self, command: &Command, salt: u64, number: u64) -> Option<OperationTarget> {
        self.aim_with(command, self.purpose(command), salt, number)
    }

    fn aim_with(
        &self,
        command: &Command,
        purpose: Purpose,
        salt: u64,
        number: u64,
    ) -> Option<OperationTarget> {
        let mut ledger = self.ledger();
        let Some(keys) = command.keys() else {
            if purpose != Purpose::Read {
                ledger.intend(Intent::Any).then(|| ledger.touch_all())?;
            }
            return Some(OperationTarget { number, document: None });
        };
        // Even an unacknowledged removal must be announced: it may remove the document.
        if command.purpose() == Purpose::Remove && !ledger.intend(Intent::Remove) {
            return None;
        }
        let seed = scramble(salt, number);
        let mut picked = ledger.pick(keys, purpose, |attempt| scramble(seed, u64::from(attempt)))?;
        // A missing document is a violation only if it existed at preparation.
        picked.bound.promised &= !self.setup.removes_any;
        Some(OperationTarget { number, document: Some(picked) })
    }

    /// A picked document with the bounds of a read that is sent now. Since the preparation of the read, the
    /// document may have been acknowledged in a newer version, or removed. A document that the operation
    /// itself changes has no other change meanwhile.
    pub fn as_sent(&self, picked: PickedDocument, origin: Origin) -> PickedDocument {
        if picked.change.is_some() {
            return picked;
        }
        if picked.owner == Owner::Any {
            let bound = self.ledger().shared_bound(picked.number, picked.validity, origin);
            return PickedDocument { bound, ..picked };
        }
        let mut bound = self.ledger().bound(picked.number, picked.validity, origin);
        bound.promised &= !self.setup.removes_any;
        PickedDocument { bound, ..picked }
    }

    /// The purpose of a command. In a plan with a counter, an update is an increment. An unacknowledged
    /// change is only a touch, because its outcome is unknown.
    fn purpose(&self, command: &Command) -> Purpose {
        match command.purpose() {
            Purpose::Replace | Purpose::Remove if !self.setup.is_acknowledged() => Purpose::Touch,
            Purpose::Touch if self.setup.counters.is_some() => Purpose::Increment,
            purpose => purpose,
        }
    }

    /// The purpose of an operation of the plan. An update that the ledger follows has a kind.
    fn purpose_of(&self, operation: usize, number: u64) -> Purpose {
        let command = &self.setup.commands[operation];
        let followed = || {
            let update = update_index(command.updates()?.len(), number);
            Some(self.setup.effects.as_ref()?.purpose(operation, update))
        };
        match self.purpose(command) {
            Purpose::Touch => followed().unwrap_or(Purpose::Touch),
            purpose => purpose,
        }
    }

    /// The number of documents that the range operation with this number reads: at random from `min` to
    /// `max`, both included.
    pub fn limit(&self, (min, max): (u32, u32), number: u64) -> u32 {
        let span = u64::from(max - min) + 1;
        min + (scramble(LIMIT_SALT, number) % span) as u32
    }

    /// Appends the document with this number, which must exist in the source.
    pub fn write_document(&self, out: &mut Vec<u8>, number: u64) {
        append(self.setup.source.as_ref(), 0, number, &self.identity(number), out);
    }

    /// Appends a version of the document with this number, which must exist in the source.
    pub fn write_version(&self, out: &mut Vec<u8>, version: u32, number: u64) {
        let identity = identity_of(self.setup.run, version, number);
        append(self.setup.source.as_ref(), version, number, &identity, out);
    }

    /// Appends the filter of an operation.
    pub fn write_filter(&self, out: &mut Vec<u8>, command: &Command, aim: OperationTarget) {
        match command.filter() {
            Some(filter) => filter.encode(aim.number, &self.identity(aim.number), out),
            None => statement::by_receipt(out, self.setup.id, &self.identity(named(aim))),
        }
    }

    /// Appends the filter of a range.
    pub fn write_lower_bound(&self, out: &mut Vec<u8>, aim: OperationTarget) {
        statement::from_receipt(out, self.setup.id, &self.identity(named(aim)));
    }

    /// The version of the updates of this phase. Each phase, and each attempt of a search, numbers its
    /// operations from the start, so the same documents are chosen again. An update to the present value
    /// would change nothing, and cost the server less.
    fn version_of_updates(&self) -> u32 {
        self.phases.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Appends the update or the replacement.
    pub fn write_update(&self, out: &mut Vec<u8>, command: &Command, aim: OperationTarget) {
        let Some(updates) = command.updates() else {
            return self.write_version(out, version(aim), named(aim));
        };
        let index = update_index(updates.len(), aim.number);
        let (version, identity) = (self.version_of_updates(), self.identity(aim.number));
        updates[index].encode_version(version, aim.number, &identity, out);
    }

    fn identity(&self, number: u64) -> Identity {
        identity(self.setup.run, number)
    }
}

/// The index of the update that the operation with this number makes, among `count` updates.
fn update_index(count: usize, number: u64) -> usize {
    if count > 1 { (scramble(UPDATE_SALT, number) % count as u64) as usize } else { 0 }
}

/// The number of the operation's document.
fn named(aim: OperationTarget) -> u64 {
    aim.document.map_or(0, |document| document.number)
}

/// The version that a replacement writes; a touch writes the inserted version.
fn version(aim: OperationTarget) -> u32 {
    match aim.document.and_then(|document| document.change) {
        Some(PendingChange::Version(version)) => version,
        _ => 0,
    }
}

/// The receipt and stamp of a document.
pub fn identity(run: Run, number: u64) -> Identity {
    identity_of(run, 0, number)
}

/// The receipt of a document and the stamp of one of its versions.
pub fn identity_of(run: Run, version: u32, number: u64) -> Identity {
    let receipt = run.receipt(number);
    Identity { id: receipt.to_object_id(), stamp: receipt.stamp_of(version) }
}

fn append(source: Option<&Source>, version: u32, number: u64, identity: &Identity, out: &mut Vec<u8>) {
    let encoded = source.map(|source| source.encode_version(version, number, identity, out));
    debug_assert_eq!(encoded, Some(Encoded::Document), "number {number} has a document");
}

#[cfg(test)]
mod tests {
    use plimsoll_ledger::Allocation;

    use super::*;
    use crate::testing::setup;

    #[test]
    fn a_later_phase_aims_at_the_same_documents_and_writes_other_values() {
        let update = r#"{"update": {"filter": {"n": {"$number": {}}}, "update": {"$set": {"t": {"$text": {"bytes": 20}}}}}}"#;
        let setup =
            Arc::new(setup(r#"{"collection": "d.c", "document": {"a": 1}}"#, &[("update", update)]).unwrap());
        let builder = OperationBuilder::new(
            setup.clone(),
            WorkerLedger::new(Allocation::new(10, 1, None).unwrap(), 0, None),
        );
        let written = || {
            builder.begin(None);
            let (mut filter, mut update) = (Vec::new(), Vec::new());
            let aim = builder.aim(0, 7).unwrap();
            builder.write_filter(&mut filter, &setup.commands[0], aim);
            builder.write_update(&mut update, &setup.commands[0], aim);
            (filter, update)
        };
        let (first, second) = (written(), written());
        assert_eq!(first.0, second.0);
        assert_ne!(first.1, second.1);
        assert_eq!(first.1.len(), second.1.len());
    }
}
