//! Describes the documents of a collection: samples, fields, time ranges and forbidden fields.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Its place in the collection.
    pub place: SamplePosition,
    /// Its size in bytes, uncompressed.
    pub bytes: u64,
    /// The document as relaxed Extended JSON, without omitted fields.
    pub document: Value,
    /// Fields that were left out because the document is too large to be shown whole.
    #[serde(default)]
    pub left_out: u64,
}

/// The place of a sample in its collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SamplePosition {
    /// The document with the smallest `_id`.
    #[default]
    First,
    /// Any document between the first and the last.
    Between,
    /// The document with the largest `_id`.
    Last,
}

/// The fields of some documents, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// Inspected documents.
    pub documents: u64,
    /// The method of choosing them.
    pub choice: Choice,
    /// Their sizes in bytes, uncompressed.
    pub document_bytes: Spread,
    /// The fields in the order in which the documents hold them.
    pub fields: Vec<Field>,
    /// Whether the list is incomplete: too many fields, or fields that are nested too deeply or have too long names.
    #[serde(default)]
    pub cut: bool,
}

/// The method of choosing documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// All documents.
    #[default]
    All,
    /// The server chose them at random.
    Random,
    /// The first documents that the server returned.
    #[serde(rename = "foremost")]
    First,
}

/// The spread of sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The smallest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
}

/// One field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// Its dotted path; `tags[]` stands for every element of the array `tags`.
    pub path: String,
    /// Documents that have it.
    pub documents: u64,
    /// The share of inspected documents with the field, 0 to 1.
    pub share: f64,
    /// The number of its values. A document may have several values of a field within arrays.
    pub values: u64,
    /// The number of values by BSON type, named as by MongoDB's `$type`; binary data by subtype as well.
    pub types: BTreeMap<String, u64>,
    /// Encoded bytes of its values, without the field's name.
    pub bytes: Spread,
}

/// The time range of the documents of a collection, by one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// The field: `_id`, whose ObjectIds hold a second each, or a field with dates.
    pub path: String,
    /// The earliest, in UTC (RFC 3339).
    pub first: String,
    /// The latest, in UTC (RFC 3339).
    pub last: String,
    /// From the earliest to the latest, in seconds.
    pub span_s: f64,
    /// The source of the two moments.
    pub source: Source,
}

/// The source of the earliest and the latest moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// At the ends of an index.
    Index,
    /// In all documents.
    Scan,
    /// In the inspected documents only: others may be earlier or later.
    #[default]
    Inventory,
}

/// A field that must not exist, and the result of the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forbidden {
    /// The requested field; `*` matches any characters, including dots.
    pub pattern: String,
    /// Whether it exists.
    pub presence: Presence,
    /// Documents of the collection with the field; absent if not all were counted.
    pub documents: Option<u64>,
    /// Documents of the inventory that have it.
    pub sampled: u64,
    /// The paths that were found, a few of them.
    #[serde(default)]
    pub paths: Vec<String>,
    /// The `_id` of a few documents that have it, as relaxed Extended JSON.
    #[serde(default)]
    pub examples: Vec<Value>,
}

/// Whether a forbidden field exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The documents could not be inspected: the field may exist.
    #[default]
    NotChecked,
    /// The field exists.
    Found,
    /// No document has it.
    Absent,
    /// No inspected document has it; others may.
    AbsentInInventory,
}
