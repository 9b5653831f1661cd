//! Tests the stores against a real server that these tests start.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod change_ends;
mod collect;
mod numbers;
mod revoked_source;

mod audit;
mod change_stream;
mod contract;
mod document;
mod existing_events;
mod fence;
mod insert;
mod keyed;
mod keyed_order;
mod positions;
mod scan;
mod transactional;
mod vector;
mod verdict;
#[cfg(feature = "workflow")]
mod workflow;
