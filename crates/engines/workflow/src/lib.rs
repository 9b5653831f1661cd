//! Moves instances of a definition from step to step so that nothing acknowledged is lost.

pub mod definition;

pub mod program;

pub mod file;

pub mod instance;
pub mod step;

pub mod audit;
pub mod explain;

pub mod port;

pub mod batch;
pub mod group;
pub mod worker;

pub mod contract;
pub mod memory;

mod cron;
mod expression;
