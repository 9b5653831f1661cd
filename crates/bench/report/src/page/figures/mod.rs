//! Draws the charts of the page.

mod distribution;
mod excess;
mod knee;
mod scalability;
mod server;
mod time;
mod timeline;

pub(super) use distribution::distributions;
pub(super) use excess::excess;
pub(super) use knee::knee;
pub(super) use scalability::scalability;
pub(super) use server::server;
pub(super) use time::{latencies, throughput};
pub(super) use timeline::Timeline;
