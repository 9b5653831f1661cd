//! Reads the choice of documents for an operation, as typed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The exponent of a Zipf distribution when the scenario sets none: YCSB's.
const EXPONENT_DEFAULT: f64 = 0.99;

/// The choice of documents without a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// One document that this run inserted before, by its `_id`.
    #[default]
    Receipt,
}

/// The choice among the documents that the worker owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Keys {
    /// Each document is equally likely.
    #[default]
    Uniform,
    /// A few documents very often, most hardly ever; popularity is independent of their order.
    Zipf {
        /// The document of rank k has a weight of k^−exponent.
        #[serde(default = "exponent_default")]
        exponent: f64,
    },
    /// The newest document most often, with a Zipf distribution over the age.
    Latest,
}

const fn exponent_default() -> f64 {
    EXPONENT_DEFAULT
}

/// A fixed number, or one drawn at random for each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of documents, or {min: 1, max: 100}")]
pub enum Limit {
    /// Always this number.
    Exactly(u32),
    /// Each number from `min` to `max` is equally likely.
    Within {
        /// The smallest number.
        min: u32,
        /// The largest number.
        max: u32,
    },
}
