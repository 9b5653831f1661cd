//! Tests the checker with a simulated store whose anomalies are known, and against trying every order.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clean;
mod every_order;
mod faults;
mod large;
