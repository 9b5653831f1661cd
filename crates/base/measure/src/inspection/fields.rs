//! Describes the documents of a collection: samples, fields, time ranges and forbidden fields.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Which it is.
    pub place: Place,
    /// Its size in bytes, uncompressed.
    pub bytes: u64,
    /// The document as relaxed Extended JSON, without omitted fields.
    pub document: Value,
    /// Fields that were left out because the document is too large to be shown whole.
    #[serde(default)]
    pub left_out: u64,
}

/// Which document a sample is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The one with the least `_id`.
    #[default]
    First,
    /// A document between them.
    Between,
    /// The one with the greatest `_id`.
    Last,
}

/// The fields of some documents, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// Inspected documents.
    pub documents: u64,
    /// How they were chosen.
    pub choice: Choice,
    /// Their sizes in bytes, uncompressed.
    pub document_bytes: Spread,
    /// The fields in the order in which the documents hold them.
    pub fields: Vec<Field>,
    /// Whether there are more fields than are listed, or some too deep or too long to be named.
    #[serde(default)]
    pub cut: bool,
}

/// How documents were chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// All documents.
    #[default]
    All,
    /// The server chose them at random.
    Random,
    /// The first that the server gave.
    Foremost,
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
    /// How often it was seen: more than once in a document within arrays.
    pub values: u64,
    /// How often it was of which BSON type, by the names of MongoDB's `$type`; binary data by subtype as well.
    pub types: BTreeMap<String, u64>,
    /// Encoded bytes of its values, without the field's name.
    pub bytes: Spread,
}

/// From when to when the documents of a collection are, by one field.
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
    /// How it was found.
    pub source: Source,
}

/// How the earliest and the latest moment were found.
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

/// A field that must not be there, and whether it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forbidden {
    /// The requested field; `*` matches any characters, including dots.
    pub pattern: String,
    /// Whether it is there.
    pub presence: Presence,
    /// Documents of the collection that have it; absent where they were not all counted.
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

/// Whether a forbidden field is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The documents could not be inspected: the field may exist.
    #[default]
    NotChecked,
    /// It is there.
    Found,
    /// No document has it.
    Absent,
    /// No inspected document has it; others may.
    AbsentInInventory,
}
