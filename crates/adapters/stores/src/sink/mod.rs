//! Where events go: [`insert`], [`vector`], [`transactional`].

pub mod insert;

pub mod transactional;
pub mod vector;

pub(crate) mod upsert;

mod fenced;
mod gathered;

mod command;
mod plan;
mod transaction;

mod flight;
mod verdict;
pub(crate) mod writes;
