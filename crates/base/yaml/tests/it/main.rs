//! Tests that the message about every slip uses our words and names its line and column.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod slips;
