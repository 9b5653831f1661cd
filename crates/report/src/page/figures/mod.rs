//! The charts of the page.

mod distribution;
mod knee;
mod server;
mod time;

pub(super) use distribution::distributions;
pub(super) use knee::knee;
pub(super) use server::server;
pub(super) use time::{latencies, throughput};
