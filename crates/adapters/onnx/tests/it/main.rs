//! The model as it is installed, against vectors of another making; and bad files in its place.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad;
mod foreign;
mod installed;
mod reference;
mod transform;
mod words;
