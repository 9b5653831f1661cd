//! The operations of a scenario, as typed.

use plimsoll_document::Template;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Documents of one insert command when the scenario does not say.
const BATCH_DEFAULT: u32 = 1;
/// Exponent of a Zipf distribution when the scenario does not say: YCSB's.
const EXPONENT_DEFAULT: f64 = 0.99;

/// The documents of an operation that names some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// One document that this run has inserted before, by its `_id`.
    #[default]
    Receipt,
}

/// Which document an operation by receipt names, among those that its worker owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Keys {
    /// Each as likely.
    #[default]
    Uniform,
    /// A few very often, most hardly ever; which ones has nothing to do with their order.
    Zipf {
        /// The document of rank k has a weight of k^−exponent.
        #[serde(default = "exponent_default")]
        exponent: f64,
    },
    /// The newest most often, with Zipf's distribution over their age.
    Latest,
}

const fn exponent_default() -> f64 {
    EXPONENT_DEFAULT
}

/// A number, or one drawn at random for each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of documents, or {min: 1, max: 100}")]
pub enum Limit {
    /// Always this many.
    Exactly(u32),
    /// Each number from `min` to `max` as likely.
    Within {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
}

/// An update such as `{$set: {seen: {$sequence: {}}}}`, or `{one_of: [...]}` with several, of which one is drawn at random
/// for each operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Template", into = "Template")]
#[schemars(with = "Template")]
pub enum Updates {
    /// This.
    One(Template),
    /// One of these, each as likely.
    OneOf(Vec<Template>),
}

/// The field that lists several updates.
const ONE_OF: &str = "one_of";

impl TryFrom<Template> for Updates {
    type Error = String;

    fn try_from(typed: Template) -> Result<Self, String> {
        let Some(several) = typed.fields().get(ONE_OF) else { return Ok(Self::One(typed)) };
        if typed.fields().len() > 1 {
            return Err("one_of: give the updates in its list, and nothing beside it".to_owned());
        }
        let several = serde_json::from_value(several.clone());
        several.map(Self::OneOf).map_err(|error| format!("one_of: give a list of updates ({error})"))
    }
}

impl From<Updates> for Template {
    fn from(updates: Updates) -> Self {
        match updates {
            Updates::One(update) => update,
            Updates::OneOf(several) => {
                let list = several.into_iter().map(|update| update.fields().clone().into()).collect();
                serde_json::Map::from_iter([(ONE_OF.to_owned(), serde_json::Value::Array(list))]).into()
            }
        }
    }
}

/// What is done to a document that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// It is updated.
    Update(Updates),
    /// It is replaced by its next version.
    Replace,
    /// It is removed.
    Remove,
}

/// Which state of the document an operation gives back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Returns {
    /// As it was before.
    #[default]
    Old,
    /// As it is now.
    New,
}

/// One operation, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Inserts documents.
    Insert(Insert),
    /// Finds documents.
    Find(Find),
    /// Finds documents in the order of `_id`, from one of this run on.
    Range(Range),
    /// Counts documents.
    Count(Count),
    /// Runs an aggregation pipeline and reads its result to the end.
    Aggregate(Aggregate),
    /// Updates one document, or all that a filter lets through.
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
}

/// Inserts documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Insert {
    /// Documents of one operation.
    pub batch: u32,
    /// Whether the server stops at the first failure.
    pub ordered: bool,
}

impl Default for Insert {
    fn default() -> Self {
        Self { batch: BATCH_DEFAULT, ordered: false }
    }
}

/// Finds documents: by receipt, or by a filter whose values may be generators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Find {
    /// Which documents, if there is no filter.
    pub by: By,
    /// Which of the documents of this run, if there is no filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// Which documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
    /// Which fields to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projection: Option<Template>,
    /// In which order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<Template>,
    /// The most documents of one find; all of them come in one reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Level of the read concern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
}

/// Finds documents in the order of `_id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Which document of this run is the first.
    #[serde(default)]
    pub keys: Keys,
    /// How many documents.
    pub limit: Limit,
    /// Which fields to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Template>,
    /// Level of the read concern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
}

/// Counts documents, as the drivers do: with an aggregation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Count {
    /// Which documents; all if left out.
    pub filter: Template,
    /// Level of the read concern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
}

/// Runs an aggregation pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// The stages, whose values may be generators. None may write.
    pub pipeline: Vec<Template>,
    /// Whether the server may put intermediate results on disk; left to the server if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_disk_use: Option<bool>,
    /// Level of the read concern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
}

/// Updates documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// Which document, if there is no filter.
    #[serde(default)]
    pub by: By,
    /// Which of the documents of this run, if there is no filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// Which documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
    /// The update, such as `{$set: {seen: {$sequence: {}}}}`, or `{one_of: [...]}`.
    pub update: Updates,
    /// Whether all documents of the filter are updated, not only the first.
    #[serde(default)]
    pub multi: bool,
    /// Whether a document is inserted where the filter finds none.
    #[serde(default)]
    pub upsert: bool,
}

/// Replaces one document of this run, by its receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Replace {
    /// Which of the documents of this run.
    #[serde(skip_serializing_if = "is_default")]
    pub keys: Keys,
}

/// Deletes one document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Delete {
    /// Which document, if there is no filter.
    pub by: By,
    /// Which of the documents of this run, if there is no filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// Which documents; the first is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
}

/// Finds one document and changes it in the same command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindAndModify {
    /// Which document, if there is no filter.
    #[serde(default)]
    pub by: By,
    /// Which of the documents of this run, if there is no filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// Which documents; the first is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Template>,
    /// What is done to it.
    pub change: Change,
    /// Which state of it comes back.
    #[serde(default)]
    pub returns: Returns,
}

/// Finds one document of this run and then changes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadModifyWrite {
    /// Which of the documents of this run.
    #[serde(default)]
    pub keys: Keys,
    /// What is done to it; it cannot be removed.
    pub change: Change,
}

/// Several operations in one transaction, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// The operations: insert, find, update, replace and delete.
    pub operations: Vec<Operation>,
    /// Level of the read concern of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
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

    /// Whether it inserts documents of this run.
    pub fn inserts(&self) -> bool {
        match self {
            Self::Insert(_) => true,
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::inserts),
            _ => false,
        }
    }

    /// Whether it may change or remove documents that were inserted before.
    pub fn touches(&self) -> bool {
        match self {
            Self::Insert(_) | Self::Find(_) | Self::Range(_) | Self::Count(_) | Self::Aggregate(_) => false,
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::touches),
            _ => true,
        }
    }

    /// Whether it replaces documents by their next versions.
    pub fn replaces(&self) -> bool {
        match self {
            Self::Replace(_) => true,
            Self::FindAndModify(FindAndModify { change, .. })
            | Self::ReadModifyWrite(ReadModifyWrite { change, .. }) => *change == Change::Replace,
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::replaces),
            _ => false,
        }
    }

    /// Whether it needs documents that this run has inserted before.
    pub fn needs_receipts(&self) -> bool {
        match self {
            Self::Insert(_) | Self::Count(_) | Self::Aggregate(_) => false,
            Self::Range(_) | Self::Replace(_) | Self::ReadModifyWrite(_) => true,
            Self::Find(Find { filter, .. })
            | Self::Update(Update { filter, .. })
            | Self::Delete(Delete { filter, .. })
            | Self::FindAndModify(FindAndModify { filter, .. }) => filter.is_none(),
            Self::Transaction(transaction) => transaction.operations.iter().any(Self::needs_receipts),
        }
    }
}
