//! Describes compiled operations, which either client can send.

use bson::Document;
use plimsoll_document::Program;

use crate::keys::Keys;
use crate::scenario::Returns;

/// The documents of an operation.
#[derive(Clone, Debug)]
pub enum Selection {
    /// One document that this run inserted.
    Receipt(Keys),
    /// The documents that match a filter.
    Filter(Program),
}

/// The purpose of an operation on a document that it names by receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read the document.
    Read,
    /// To replace the document by its next version.
    Replace,
    /// To remove the document.
    Remove,
    /// To increment the counter of the document.
    Increment,
    /// To make an update of this kind.
    Update(u8),
    /// To make an update that changes only fields that are not judged.
    Unjudged,
    /// To change the document without a version.
    Touch,
}

/// The change of a found document.
#[derive(Clone, Debug)]
pub enum Change {
    /// One of these updates.
    Update(Vec<Program>),
    /// A replacement by the next version.
    Replace,
    /// A removal.
    Remove,
}

/// The settings of a find.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindShape {
    /// The fields to return.
    pub projection: Option<Document>,
    /// The order of the documents; `None` for any order.
    pub sort: Option<Document>,
    /// The most documents in one find; `None` for no limit.
    pub limit: Option<u32>,
}

/// A pipeline and its options.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The stages.
    pub stages: Vec<Program>,
    /// Whether the server may put intermediate results on disk.
    pub allow_disk_use: Option<bool>,
}

/// One compiled operation.
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
        /// The documents.
        selection: Selection,
        /// The settings.
        shape: FindShape,
    },
    /// Finds documents in the order of `_id`.
    Range {
        /// The first document; always by receipt.
        selection: Selection,
        /// The smallest and the largest number of documents.
        limit: (u32, u32),
        /// The settings; their sort and limit are not used.
        shape: FindShape,
    },
    /// Counts documents: an aggregation whose one document holds the number.
    Count(Pipeline),
    /// Runs a pipeline.
    Aggregate(Pipeline),
    /// Updates documents.
    Update {
        /// The document.
        selection: Selection,
        /// The updates, one of which is drawn.
        update: Vec<Program>,
        /// Whether all matching documents are updated.
        multi: bool,
        /// Whether a document is inserted if none matches.
        upsert: bool,
    },
    /// Replaces one document.
    Replace {
        /// The document; always by receipt.
        selection: Selection,
    },
    /// Deletes one document.
    Delete {
        /// The document.
        selection: Selection,
    },
    /// Finds one document and changes it in one command.
    FindAndModify {
        /// The document.
        selection: Selection,
        /// The change.
        change: Change,
        /// The returned state.
        returns: Returns,
    },
    /// Finds one document and then changes it.
    ReadModifyWrite {
        /// The document; always by receipt.
        selection: Selection,
        /// The change.
        change: Change,
    },
    /// Several operations in one transaction.
    Transaction {
        /// The operations.
        steps: Vec<Command>,
    },
    /// Appends to lists and reads them.
    ListAppend {
        /// The most steps of one operation. More than one make a transaction.
        steps: u32,
        /// The number of lists in use at a time.
        lists: u32,
    },
}

impl Change {
    const fn purpose(&self) -> Purpose {
        match self {
            Self::Update(_) => Purpose::Touch,
            Self::Replace => Purpose::Replace,
            Self::Remove => Purpose::Remove,
        }
    }
}

impl Command {
    /// Whether a repeated operation does nothing more, provided that the server remembers its number. MongoDB
    /// remembers no update of several documents, and operations of several steps have no single number.
    pub const fn may_repeat(&self) -> bool {
        !matches!(self, Self::Update { multi: true, .. } | Self::Transaction { .. } | Self::ListAppend { .. })
    }

    /// The selection of existing documents; `None` for inserts, and for operations whose parts have their own.
    pub const fn selection(&self) -> Option<&Selection> {
        match self {
            Self::Find { selection, .. }
            | Self::Range { selection, .. }
            | Self::Update { selection, .. }
            | Self::Replace { selection }
            | Self::Delete { selection }
            | Self::FindAndModify { selection, .. }
            | Self::ReadModifyWrite { selection, .. } => Some(selection),
            Self::Insert { .. }
            | Self::Count(_)
            | Self::Aggregate(_)
            | Self::Transaction { .. }
            | Self::ListAppend { .. } => None,
        }
    }

    /// The filter, if any.
    pub const fn filter(&self) -> Option<&Program> {
        if let Some(Selection::Filter(filter)) = self.selection() { Some(filter) } else { None }
    }

    /// The choice among the documents of this run, if any.
    pub const fn keys(&self) -> Option<&Keys> {
        if let Some(Selection::Receipt(keys)) = self.selection() { Some(keys) } else { None }
    }

    /// The purpose for the documents that the operation names.
    pub const fn purpose(&self) -> Purpose {
        match self {
            Self::Update { .. } | Self::ListAppend { .. } => Purpose::Touch,
            Self::Replace { .. } => Purpose::Replace,
            Self::Delete { .. } => Purpose::Remove,
            Self::FindAndModify { change, .. } | Self::ReadModifyWrite { change, .. } => change.purpose(),
            _ => Purpose::Read,
        }
    }

    /// The updates to draw from, if the operation updates.
    pub fn updates(&self) -> Option<&[Program]> {
        match self {
            Self::Update { update, .. } => Some(update),
            Self::FindAndModify { change: Change::Update(updates), .. }
            | Self::ReadModifyWrite { change: Change::Update(updates), .. } => Some(updates),
            _ => None,
        }
    }

    /// Whether a change must match a document.
    pub const fn must_match(&self) -> bool {
        let by_receipt = self.keys().is_some();
        by_receipt && !matches!(self, Self::Update { upsert: true, .. })
    }

    /// The command itself, or the operations of a transaction.
    pub fn parts(&self) -> &[Self] {
        if let Self::Transaction { steps, .. } = self { steps } else { std::slice::from_ref(self) }
    }

    /// Whether the operation only reads documents and returns them.
    pub const fn only_reads(&self) -> bool {
        matches!(self, Self::Find { .. } | Self::Range { .. } | Self::Count(_) | Self::Aggregate(_))
    }

    /// Whether the operation inserts, changes or removes documents.
    pub fn writes(&self) -> bool {
        self.parts().iter().any(|part| matches!(part, Self::Insert { .. }) || part.purpose() != Purpose::Read)
    }
}
