//! Joins the shards of one plan, each measured by its own process, as one run.
//!
//! In reading order: the run ID that shards share ([`mod@identity`]), the log of each ([`mod@crate::shard_log`]), reading it back
//! ([`mod@shard`]), the check that they belong together ([`mod@check`]), and the sum ([`mod@join`]).

mod account;
mod check;
mod identity;
mod join;
mod shard;
mod timeline;

pub use check::check;
pub use identity::identity;
pub use join::join;

pub use shard::Shard;
