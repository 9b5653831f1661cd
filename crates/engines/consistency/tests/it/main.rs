//! Tests the checker with a simulated store whose anomalies are known, and against trying every order.

mod clean;
mod every_order;
mod faults;
mod large;
mod random;
mod store;
