//! Puts load on MongoDB: provides the load engine's targets and audits their writes.
//!
//! In reading order: a scenario's section ([`scenario`]) and its compiled form ([`setup`], [`sharding`]); one worker's documents
//! and their outcomes ([`worker_ledger`], [`journal_writer`], [`snapshot`], [`keys`], [`shared_bounds`]); the operations that both clients send
//! ([`operation_builder`]) and lists whose history is checked ([`list_append`]); the targets [`lean`] over our own client, [`spread`] over several servers with the same client,
//! [`driver`] over the official driver; and afterwards the [`audit`] and the [`bottlenecks`].
//!
//! It must not know HTTP, reports or the other engines.

pub mod scenario;
pub mod setup;
pub mod sharding;

pub mod journal_writer;
pub mod keys;
pub mod shared_bounds;
pub mod snapshot;
pub mod worker_ledger;

pub mod list_append;
pub mod operation_builder;

pub mod driver;
pub mod lean;
pub mod spread;

pub mod audit;
pub mod bottlenecks;

mod outcome;
mod statement;

#[cfg(test)]
mod testing;
