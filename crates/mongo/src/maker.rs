//! What both clients need to make an operation ready: documents, filters and updates, and the worker's books.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_document::{Encoded, Identity, Source};
use plimsoll_ledger::Run;
use plimsoll_load::mix::scramble;

use crate::books::{Books, Closed};
use crate::setup::{Command, Selection, Setup};
use crate::statement;

/// Makes the operations of one worker ready.
#[derive(Debug)]
pub struct Maker {
    /// What the run does.
    pub setup: Arc<Setup>,
    books: Mutex<Books>,
}

/// The document that an operation is for, if it is for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The operation's number in the plan.
    pub number: u64,
    /// The document of this run that it names.
    pub document: Option<u64>,
    /// Whether it was acknowledged and nothing removes it: it must be there.
    pub promised: bool,
}

impl Maker {
    /// A maker for one worker.
    pub fn new(setup: Arc<Setup>, books: Books) -> Self {
        Self { setup, books: Mutex::new(books) }
    }

    /// The worker's books.
    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the books.
    pub fn close(self) -> Closed {
        self.books.into_inner().unwrap_or_else(PoisonError::into_inner).close()
    }

    /// Numbers for the documents of one insert; nothing when there are none left.
    pub fn take(&self, count: u32) -> Option<Range<u64>> {
        let numbers = self.books().take(u64::from(count))?;
        let end = self.setup.source.as_ref().map_or(0, |source| source.documents_max().unwrap_or(u64::MAX));
        let (kept, rest) = (numbers.start..numbers.end.min(end), numbers.start.max(end)..numbers.end);
        if !rest.is_empty() {
            self.books().give_back(rest);
        }
        (!kept.is_empty()).then_some(kept)
    }

    /// The document that operation `operation` with the plan-wide number `number` is for; notes that it will be
    /// touched. Nothing if it needs one and there is none.
    pub fn pick(&self, operation: usize, number: u64) -> Option<Picked> {
        let command = &self.setup.commands[operation];
        let changes = !matches!(command, Command::Find { .. } | Command::Insert { .. });
        let mut books = self.books();
        if matches!(command.selection(), Selection::Filter(_)) {
            if changes {
                books.touch_all();
            }
            return Some(Picked { number, document: None, promised: false });
        }
        let seed = scramble(operation as u64, number);
        let document = books.pick(|attempt| scramble(seed, u64::from(attempt)))?;
        // A surprise is only one if the document was there when the operation was made ready.
        let promised = !self.setup.deletes && books.is_promised(document);
        if changes {
            books.touch(document);
        }
        Some(Picked { number, document: Some(document), promised })
    }

    /// Appends the document of a number that is known to have one.
    pub fn write_document(&self, out: &mut Vec<u8>, number: u64) {
        append(self.setup.source.as_ref(), number, &self.identity(number), out);
    }

    /// Appends the filter of an operation.
    pub fn write_filter(&self, out: &mut Vec<u8>, command: &Command, picked: Picked) {
        match command.selection() {
            Selection::Filter(filter) => filter.encode(picked.number, &self.identity(picked.number), out),
            Selection::Receipt => {
                statement::by_receipt(out, self.setup.id, &self.identity(picked.document.unwrap_or(0)));
            }
        }
    }

    /// Appends what an update or a replacement puts in place.
    pub fn write_update(&self, out: &mut Vec<u8>, command: &Command, picked: Picked) {
        match command {
            Command::Update { update, .. } => {
                update.encode(picked.number, &self.identity(picked.number), out)
            }
            _ => self.write_document(out, picked.document.unwrap_or(0)),
        }
    }

    fn identity(&self, number: u64) -> Identity {
        identity(self.setup.run, number)
    }
}

/// The receipt and stamp of a document.
pub fn identity(run: Run, number: u64) -> Identity {
    let receipt = run.receipt(number);
    Identity { id: receipt.to_object_id(), stamp: receipt.stamp() }
}

fn append(source: Option<&Source>, number: u64, identity: &Identity, out: &mut Vec<u8>) {
    let encoded = source.map(|source| source.encode(number, identity, out));
    debug_assert_eq!(encoded, Some(Encoded::Document), "number {number} has a document");
}
