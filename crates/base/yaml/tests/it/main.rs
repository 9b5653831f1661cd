//! Tests that every slip in a text answers in our words, with its line and its column.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod slips;
