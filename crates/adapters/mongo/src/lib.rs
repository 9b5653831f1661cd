//! MongoDB behind the load engine's port: targets, topology and the audit scan.
//!
//! In reading order: what a scenario may say ([`scenario`]), what it means ([`setup`], [`sharding`]), where the server is
//! ([`topology`]), the collection before and after ([`collection`], [`audit`]), one worker's documents and what became
//! of them ([`books`], [`keeper`], [`known`], [`keys`]), what both clients need ([`maker`], [`claim`], [`reading`]), and the
//! targets: [`lean`] over our own client, [`spread`] over several servers with it, [`driver`] over the official one.
//!
//! It must not know HTTP, reports or the other engines.

pub mod scenario;
pub mod setup;
pub mod sharding;

pub mod audit;

pub mod books;
pub mod keeper;
pub mod keys;
pub mod known;

pub mod driver;
pub mod lean;
pub mod spread;

pub mod claim;
pub mod maker;
pub mod reading;

mod outcome;
mod statement;

#[cfg(test)]
mod testing;
