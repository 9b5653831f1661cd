//! Defines the HTTP interface: endpoints, one file each, in the order of the description.

pub mod definition;
pub mod definitions;
pub mod deploy;

pub mod explanation;
pub mod instance;
pub mod instances;
pub mod start;
pub mod wait;

pub mod cancel;
pub mod retry;
pub mod signal;

pub mod audit;
pub mod dead_letters;
pub mod redrive;

pub mod act;
pub mod tasks;

pub mod state;

pub(crate) mod problems;
pub(crate) mod request;
pub(crate) mod schemas;
