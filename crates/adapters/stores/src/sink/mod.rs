//! Writes events: plain inserts ([`insert`]), replacements by `_id` ([`keyed`]), upserts with vectors ([`vector`]), and transactions ([`transactional`]).

pub mod insert;
pub mod keyed;
pub mod transactional;
pub mod vector;

pub(crate) mod transaction;
pub(crate) mod transaction_buffer;
pub(crate) mod vector_settings;

mod connection;
mod fenced;
mod in_flight;
mod plan;
mod transaction_command;
mod upsert;
mod verdict;
