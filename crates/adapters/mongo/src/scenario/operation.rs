//! Reads the operations of a scenario, as typed.

use plimsoll_document::Template;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Change, Keys, Limit, ReadPreference, Returns, Updates, WriteConcern};

/// Documents in one insert command when the scenario sets no number.
const BATCH_DEFAULT: u32 = 1;
/// One operation, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Inserts documents.
    Insert(Insert),
    /// Finds documents.
    Find(Find),
    /// Finds documents in the order of `_id`, starting at a document of this run.
    Range(Range),
    /// Counts documents.
    Count(Count),
    /// Runs an aggregation pipeline and reads its result to the end.
    Aggregate(Aggregate),
    /// Updates one document, or all that match a filter.
    Update(Update),
    /// Replaces one document of this run by its next version.
    Replace(Replace),
    /// Deletes one document.
    Delete(Delete),
    /// Finds one document and changes it in the same command.
    FindAndModify(FindAndModify),
    /// Finds one document and then changes it: one operation of two commands.
    ReadModifyWrite(ReadModifyWrite),
    /// Several operations in one transaction.
    Transaction(Transaction),
    /// Appends to lists and reads them, in transactions, for a check of consistency after the load.
    ListAppend(ListAppend),
}

/// Inserts documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Insert {
    /// Documents of one operation.
    pub batch: u32,
    /// Whether the server stops at the first failure.
    pub ordered: bool,
    /// The write concern, in place of the scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

impl Default for Insert {
    fn default() -> Self {
        Self { batch: BATCH_DEFAULT, ordered: false, write_concern: None }
    }
}

/// Finds documents: by receipt, or by a filter whose values may be generators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Find {
    /// The choice of documents without a filter.
    pub by: By,
    /// The choice among the documents of this run, if no filter is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// The filter that selects the documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
    /// The fields to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projection: Option<Template>,
    /// The order of the documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<Template>,
    /// The largest number of documents in one find; all of them are returned in one reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Level of the read concern, in place of the scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The members that may answer, in place of the scenario's read preference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_preference: Option<ReadPreference>,
}

/// Finds documents in the order of `_id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The choice of the first document, among those of this run.
    #[serde(default)]
    pub keys: Keys,
    /// The number of documents.
    pub limit: Limit,
    /// The fields to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Template>,
    /// Level of the read concern, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The members that may answer, in place of the scenario's read preference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_preference: Option<ReadPreference>,
}

/// Counts documents with an aggregation, as the drivers do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Count {
    /// The filter that selects the documents; by default all.
    pub filter: Template,
    /// Level of the read concern, in place of the scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The members that may answer, in place of the scenario's read preference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_preference: Option<ReadPreference>,
}

/// Runs an aggregation pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// The stages, whose values may be generators. Stages that write are refused.
    pub pipeline: Vec<Template>,
    /// Whether the server may put intermediate results on disk; by default the server decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_disk_use: Option<bool>,
    /// Level of the read concern, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The members that may answer, in place of the scenario's read preference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_preference: Option<ReadPreference>,
}

/// Updates documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// The choice of the document, if no filter is given.
    #[serde(default)]
    pub by: By,
    /// The choice among the documents of this run, if no filter is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// The filter that selects the documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
    /// The update, such as `{$set: {seen: {$sequence: {}}}}`, or `{one_of: [...]}`.
    pub update: Updates,
    /// Whether all matching documents are updated, not only the first.
    #[serde(default)]
    pub multi: bool,
    /// Whether a document is inserted if the filter matches none.
    #[serde(default)]
    pub upsert: bool,
    /// The write concern, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

/// Replaces one document of this run, by its receipt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Replace {
    /// The choice among the documents of this run.
    #[serde(skip_serializing_if = "is_default")]
    pub keys: Keys,
    /// The write concern, in place of the scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

/// Deletes one document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Delete {
    /// The choice of the document, if no filter is given.
    pub by: By,
    /// The choice among the documents of this run, if no filter is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// The filter that selects the documents; the first is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
    /// The write concern, in place of the scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

/// Finds one document and changes it in the same command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindAndModify {
    /// The choice of the document, if no filter is given.
    #[serde(default)]
    pub by: By,
    /// The choice among the documents of this run, if no filter is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// The filter that selects the documents; the first is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
    /// The change of the document.
    pub change: Change,
    /// The returned state of the document.
    #[serde(default)]
    pub returns: Returns,
    /// The write concern, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

/// Finds one document of this run and then changes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadModifyWrite {
    /// The choice among the documents of this run.
    #[serde(default)]
    pub keys: Keys,
    /// The change of the document; a removal is refused.
    pub change: Change,
    /// The write concern, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

/// Several operations in one transaction, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// The operations: insert, find, update, replace and delete.
    pub operations: Vec<Operation>,
    /// The read concern level of all operations, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The write concern, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

/// Appends to lists and reads them. The history of all operations is checked after the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListAppend {
    /// The most steps of one operation, each an append or a read. An operation of several steps is a transaction.
    pub steps: u32,
    /// The number of lists in use at a time; two share a document.
    pub lists: u32,
    /// The read concern level of reads outside of transactions, in place of the scenario's. Transactions read at `snapshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The write concern, in place of the scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
}

impl Default for ListAppend {
    fn default() -> Self {
        Self { steps: 4, lists: 8, read_concern: None, write_concern: None }
    }
}

fn is_default(keys: &Keys) -> bool {
    *keys == Keys::default()
}

impl Operation {
    /// Documents of one operation.
    pub fn documents(&self) -> u32 {
        match self {
            Self::Insert(insert) => insert.batch,
            Self::Transaction(transaction) => {
                transaction.operations.iter().map(Self::documents).fold(0, u32::saturating_add)
            }
            _ => 1,
        }
    }

    /// Whether the operation inserts documents of this run.
    pub fn inserts(&self) -> bool {
        match self {
            Self::Insert(_) => true,
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::inserts),
            _ => false,
        }
    }

    /// Whether the operation may change or remove documents that were inserted before.
    pub fn touches(&self) -> bool {
        match self {
            Self::Insert(_)
            | Self::Find(_)
            | Self::Range(_)
            | Self::Count(_)
            | Self::Aggregate(_)
            | Self::ListAppend(_) => false,
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::touches),
            _ => true,
        }
    }

    /// Whether the operation replaces documents by their next versions.
    pub fn replaces(&self) -> bool {
        match self {
            Self::Replace(_) => true,
            Self::FindAndModify(FindAndModify { change, .. })
            | Self::ReadModifyWrite(ReadModifyWrite { change, .. }) => *change == Change::Replace,
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::replaces),
            _ => false,
        }
    }

    /// Whether the operation needs documents that this run inserted before.
    pub fn needs_receipts(&self) -> bool {
        match self {
            Self::Insert(_) | Self::Count(_) | Self::Aggregate(_) | Self::ListAppend(_) => false,
            Self::Range(_) | Self::Replace(_) | Self::ReadModifyWrite(_) => true,
            Self::Find(Find { filter, .. })
            | Self::Update(Update { filter, .. })
            | Self::Delete(Delete { filter, .. })
            | Self::FindAndModify(FindAndModify { filter, .. }) => filter.is_none(),
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::needs_receipts),
        }
    }

    /// The write concern of this operation alone.
    pub const fn write_concern(&self) -> Option<&WriteConcern> {
        match self {
            Self::Insert(Insert { write_concern, .. })
            | Self::Update(Update { write_concern, .. })
            | Self::Replace(Replace { write_concern, .. })
            | Self::Delete(Delete { write_concern, .. })
            | Self::FindAndModify(FindAndModify { write_concern, .. })
            | Self::ReadModifyWrite(ReadModifyWrite { write_concern, .. })
            | Self::Transaction(Transaction { write_concern, .. })
            | Self::ListAppend(ListAppend { write_concern, .. }) => write_concern.as_ref(),
            Self::Find(_) | Self::Range(_) | Self::Count(_) | Self::Aggregate(_) => None,
        }
    }

    /// The level of the read concern of this operation alone.
    pub const fn read_concern(&self) -> Option<&String> {
        match self {
            Self::Find(Find { read_concern, .. })
            | Self::Range(Range { read_concern, .. })
            | Self::Count(Count { read_concern, .. })
            | Self::Aggregate(Aggregate { read_concern, .. })
            | Self::Transaction(Transaction { read_concern, .. })
            | Self::ListAppend(ListAppend { read_concern, .. }) => read_concern.as_ref(),
            _ => None,
        }
    }

    /// The read preference of this operation alone.
    pub const fn read_preference(&self) -> Option<&ReadPreference> {
        match self {
            Self::Find(Find { read_preference, .. })
            | Self::Range(Range { read_preference, .. })
            | Self::Count(Count { read_preference, .. })
            | Self::Aggregate(Aggregate { read_preference, .. }) => read_preference.as_ref(),
            _ => None,
        }
    }
}
