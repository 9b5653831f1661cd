//! Joins the shards of one plan, each measured by its own process, as one run.
//!
//! In reading order: the run ID that shards share (`identity`), the log of each shard (`shard_log`), its reader (`shard`), the
//! check that the shards belong together (`check`) on one clock (`clocks`), and the sum (`join`).

mod account;
mod check;
mod clocks;
mod identity;
mod join;
mod shard;
mod timeline;

pub use check::check;
pub use identity::identity;
pub use join::join;

pub use shard::Shard;
