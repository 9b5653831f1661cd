//! Shards of one plan, each a process that measured its part, joined as one run.
//!
//! In reading order: who they are together ([`mod@identity`]), what each writes down for this ([`mod@crate::shard_log`]), how it is read back
//! ([`mod@shard`]), whether they are the shards of one run ([`mod@check`]), and how they are added up ([`mod@join`]).

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
