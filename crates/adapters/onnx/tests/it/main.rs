//! Tests the installed model against an independent implementation, and invalid files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad;
mod foreign;
mod installed;
mod reference;
mod transform;
mod words;
