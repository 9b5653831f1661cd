//! Reads the choice of documents for an operation, as typed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// The choice of a document among those that the worker owns.
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
